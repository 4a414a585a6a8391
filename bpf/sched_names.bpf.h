/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where a target is a name: births of processes, and each moment at which one takes a name. All of
 * it goes through the ring of deaths, in its order, so that the reader knows of every task which
 * name its process had when it ran. A process that lived for a millisecond has no /proc/PID any
 * more when the reader could look. These events are as rare as fork and execve, so one twin, by
 * probe reads, serves every kernel. */
#pragma once
#include "sched_events.bpf.h"

/* Set by the reader once it reads the ring regularly: while a run is being opened, which takes
 * seconds on a busy machine, the ring would only run full. */
__u32 names_wanted;

static __always_inline void wake_reader(struct task_death *note)
{
	bpf_ringbuf_submit(note, bpf_ringbuf_query(&deaths, BPF_RB_AVAIL_DATA) > death_wakeup_bytes
					 ? BPF_RB_FORCE_WAKEUP
					 : BPF_RB_NO_WAKEUP);
}

static __always_inline void fill_note(struct task_death *note, const struct task_slot *now,
				      __u32 pid, __u32 kind)
{
	__builtin_memset(note, 0, sizeof(*note));
	note->kind = kind;
	note->start_boot_ns = now->start_boot_ns;
	note->process_start_boot_ns = now->process_start_boot_ns;
	note->end_boot_ns = bpf_ktime_get_boot_ns();
	note->sums = now->sums;
	note->tid = pid;
	note->tgid = pid;
	note->uid = now->uid;
	__builtin_memcpy(note->comm, now->comm, SCHED_COMM_LEN);
}

/* Fires in the parent, before the child runs for the first time. */
SEC("?raw_tp/sched_process_fork")
int sched_names_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 pid = BPF_CORE_READ(child, pid);
	struct task_slot now = {};
	struct task_death *note;

	if (!names_wanted || pid != (__u32)BPF_CORE_READ(child, tgid))
		return 0; /* a thread */
	note = bpf_ringbuf_reserve(&deaths, sizeof(*note), 0);
	if (!note) {
		loss_add(&losses, SCHED_LOSS_BIRTH_UNTOLD, 1);
		return 0;
	}
	now.start_boot_ns = BPF_CORE_READ(child, start_boottime);
	now.process_start_boot_ns = task_process_start(parent, false);
	now.uid = task_uid(child, false);
	copy_comm(now.comm, child, false);
	fill_note(note, &now, pid, TASK_NOTE_BORN);
	note->parent_pid = BPF_CORE_READ(parent, tgid);
	wake_reader(note);
	return 0;
}

/* execve gives a comm too, some 100 us before sched_names_exec tells of it with the argv[0]; and a
 * thread that took its leader's place is not known under that identity yet. */
static __always_inline bool is_in_execve(struct task_struct *task)
{
	return bpf_core_field_exists(task->in_execve) &&
	       BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/* The name of a process is that of its main thread. Fires before the kernel's own copy, in the
 * thread itself or in another one of its process that writes /proc/PID/comm: the sum of a thread
 * that runs on another CPU is as of its last tick. */
SEC("?raw_tp/task_rename")
int sched_names_rename(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 pid = BPF_CORE_READ(task, pid);
	struct task_slot now = {};
	struct task_death *note;

	if (!names_wanted || pid != (__u32)BPF_CORE_READ(task, tgid) || is_in_execve(task))
		return 0;
	describe(task, &now);
	if ((__u64)task != bpf_get_current_task())
		now.sums.cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	note = bpf_ringbuf_reserve(&deaths, sizeof(*note), 0);
	if (!note) {
		loss_add(&losses, SCHED_LOSS_NAME_UNTOLD, 1);
		return 0;
	}
	fill_note(note, &now, pid, TASK_NOTE_NAMED);
	bpf_probe_read_kernel_str(note->comm, SCHED_COMM_LEN, (const char *)ctx->args[1]);
	wake_reader(note);
	return 0;
}

/* Attached behind on_exec, whose note of a thread that took its leader's place comes first. The
 * page that argv[0] lies in has just been written by the kernel, so the read finds it. */
SEC("?raw_tp/sched_process_exec")
int sched_names_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	const char *argv0 = (const char *)BPF_CORE_READ(task, mm, arg_start);
	struct task_program *note;
	struct task_slot now = {};

	if (!names_wanted)
		return 0;
	describe(task, &now);
	note = bpf_ringbuf_reserve(&deaths, sizeof(*note), 0);
	if (!note) {
		loss_add(&losses, SCHED_LOSS_NAME_UNTOLD, 1);
		return 0;
	}
	fill_note(&note->task, &now, BPF_CORE_READ(task, pid), TASK_NOTE_PROGRAM);
	note->reserved = 0;
	note->argv0[0] = 0;
	note->argv0_bytes = bpf_probe_read_user_str(note->argv0, sizeof(note->argv0), argv0);
	if (note->argv0_bytes < 0)
		loss_add(&losses, SCHED_LOSS_ARGV_UNREAD, 1);
	wake_reader(&note->task);
	return 0;
}
