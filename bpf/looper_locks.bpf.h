/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whose mmap_lock is held. Setting and removing a uprobe takes this lock of every process that maps
 * the file, for writing, while no process of the machine can fork (register_for_each_vma,
 * kernel/events/uprobes.c). Reading it here takes no lock and waits for nobody. */
#pragma once
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/looper.h"

/* struct looper_mm_lock of each process whose lock is held. Threads share the mm of their process;
 * where its main thread has ended, each of the others speaks for it. */
SEC("?iter/task")
int looper_mm_locks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct looper_mm_lock line = {};
	struct mm_struct *mm;

	if (!task)
		return 0;
	if (!bpf_core_field_exists(((struct rw_semaphore *)0)->count)) {
		if (!ctx->meta->seq_num)
			bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
		return 0;
	}
	mm = task->mm;
	if (!mm || (task->pid != task->tgid && task->group_leader->mm == mm) ||
	    !mm->mmap_lock.count.counter)
		return 0;
	line.pid = task->tgid;
	line.mm = (__u64)mm;
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}
