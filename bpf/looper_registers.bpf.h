/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where a task's user registers lie, and an iterator that reads them without a stop. */
#pragma once
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "compat.bpf.h"
#include "looper_maps.bpf.h"
#include "looper_words.bpf.h"
#include "sched_state.bpf.h"

/* Where struct pt_regs lies above task->stack, for kernels whose programs lack bpf_task_pt_regs
 * (5.15): what looper_calibrate found. Set before load. */
const volatile __u64 registers_offset;

/* A kernel without link_info.task.tid (f0d74c4da1f0, 6.1) walks all tasks: reader's tid -> the tid
 * that it wants. Nobody is in it where the link names the task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} looper_wanted SEC(".maps");

/* struct looper_task of each task that is wanted. The task may run meanwhile: see `whole`. */
SEC("?iter/task")
int looper_task_registers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct looper_task line = {};
	__u64 voluntary, involuntary;
	__u32 reader, *wanted, on_cpu;
	void *registers;

	/* Without mm it is a kernel thread, and has no registers of user space. */
	if (!task || !task->mm)
		return 0;
	reader = (__u32)bpf_get_current_pid_tgid();
	wanted = bpf_map_lookup_elem(&looper_wanted, &reader);
	if (wanted && *wanted != (__u32)task->pid)
		return 0;
	voluntary = task->nvcsw;
	involuntary = task->nivcsw;
	on_cpu = task->on_cpu;
	line.cpu_ns = task->se.sum_exec_runtime;
	line.start_boot_ns = task->start_boottime;
	line.registers.tid = task->pid;
	line.registers.tgid = task->tgid;
	line.registers.switched_out_mono_ns = bpf_ktime_get_ns();
	line.state = off_state_of(task_state(task, true), false);
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		registers = (void *)bpf_task_pt_regs(task);
	else
		registers = (void *)((__u64)task->stack + registers_offset);
	/* Without mm it is a kernel thread, and has none. */
	if (task->mm && !bpf_probe_read_kernel(line.registers.words, REGISTER_WORDS * 8, registers))
		line.whole = 1;
#ifndef __TARGET_ARCH_x86
	line.registers.words[WORD_SYSCALL] = (__s64)(__s32)line.registers.words[WORD_SYSCALL];
#endif
	if (on_cpu || *(volatile int *)&task->on_cpu ||
	    *(volatile unsigned long *)&task->nvcsw != voluntary ||
	    *(volatile unsigned long *)&task->nivcsw != involuntary)
		line.whole = 0;
	line.on_cpu = *(volatile int *)&task->on_cpu;
	line.voluntary = voluntary;
	line.involuntary = involuntary;
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}
