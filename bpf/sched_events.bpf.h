/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a task does between two switches that splits its time: it changes its uid, or it ends. */
#pragma once
#include "sched_slot.bpf.h"

#define CAP_SETUID_NUMBER 7

/* run-queue clock - CLOCK_MONOTONIC as of the last sched_read_running */
__s64 rq_clock_offset_ns;

struct sum_reading {
	__u64 cpu_ns, exec_start, clock, clock_task;
};

static __always_inline void read_sum(struct task_struct *task, struct rq *rq,
				     struct sum_reading *sum)
{
	sum->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	sum->exec_start = BPF_CORE_READ(task, se.exec_start);
	sum->clock = BPF_CORE_READ(rq, clock);
	sum->clock_task = BPF_CORE_READ(rq, clock_task);
}

/* The CPU time of a task that runs on this run queue, its unfinished slice included
 * (bpf/README.md, "A task that runs"). */
static __always_inline __u64 live_sum(struct task_struct *task, struct rq *rq, __s64 offset_ns)
{
	struct sum_reading sum, again;
	__u64 now_ns;

	read_sum(task, rq, &sum);
	/* The tick may have come between the reads: then they do not belong together. */
	read_sum(task, rq, &again);
	if (again.cpu_ns != sum.cpu_ns)
		read_sum(task, rq, &again);
	now_ns = bpf_ktime_get_ns() + offset_ns;
	if (now_ns > again.clock)
		again.clock_task += now_ns - again.clock;
	/* A task that blocks or ends has its last time once it is off the queue, but its CPU's
	 * `curr` is still the task while __schedule() looks for another one, which takes
	 * milliseconds where newidle_balance() does. */
	if (!BPF_CORE_READ(task, on_rq))
		return BPF_CORE_READ(task, se.sum_exec_runtime);
	if (again.clock_task > again.exec_start)
		again.cpu_ns += again.clock_task - again.exec_start;
	return again.cpu_ns;
}

/* The current task as a slot would show it at this moment. */
static __always_inline void describe(struct task_struct *task, struct task_slot *now)
{
	now->start_boot_ns = BPF_CORE_READ(task, start_boottime);
	now->process_start_boot_ns = task_process_start(task, false);
	read_sums(task, &now->sums, false);
	now->tgid = BPF_CORE_READ(task, tgid);
	now->uid = task_uid(task, false);
	copy_comm(now->comm, task, false);
	if (HAS_RQ_CLOCK)
		now->sums.cpu_ns =
			live_sum(task, BPF_CORE_READ(task, se.cfs_rq, rq), rq_clock_offset_ns);
}

/* The current task may change its uid now. What it ran so far is told under the old one; where no
 * change follows nothing is wrong by it. The slot's next switch-out then takes the uid anew, and
 * must not tell of the whole slice. That holds where the ring is full too: the mark is all that
 * makes the switch program look where it does not watch the uids itself. */
static __always_inline int tell_old_uid(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 tid = BPF_CORE_READ(task, pid);
	struct task_slot now = {}, *slot = known_slot(tid);

	describe(task, &now);
	if (!tell(&now, tid, 0, TASK_NOTE_UID))
		loss_add(&losses, SCHED_LOSS_UID_UNSPLIT, 1);
	if (slot && slot->start_boot_ns == now.start_boot_ns && slot->uid == now.uid)
		slot->flags |= TASK_SLOT_UID_TOLD;
	return 0;
}

/* How often the kprobe ran: a kernel that lets kprobes be set may not run them
 * (/sys/kernel/debug/kprobes/enabled). */
__u32 kprobe_runs;

/* Where the kernel has kprobes (GKI): each change, and only changes. */
SEC("?kprobe/commit_creds")
int sched_uid_kprobe(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct cred *cred = (struct cred *)PT_REGS_PARM1(ctx);

	if (BPF_CORE_READ(cred, uid.val) == task_uid(task, false)) {
		kprobe_runs++;
		return 0;
	}
	return tell_old_uid();
}

/* Elsewhere from the check that comes before the change (the tracepoint is of 6.14). */
SEC("?raw_tp/cap_capable")
int sched_uid_capable(struct bpf_raw_tracepoint_args *ctx)
{
	return ctx->args[3] == CAP_SETUID_NUMBER ? tell_old_uid() : 0;
}

/* Without the switch hook: RCU frees the task milliseconds to seconds later, and its time would be
 * booked in a later interval. What it still runs from here on (4 to 130 us) is told at the free.
 * A ring that is half full is left to the deaths. */
SEC("?raw_tp/sched_process_exit")
int sched_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_slot now = {};

	if (bpf_ringbuf_query(&deaths, BPF_RB_AVAIL_DATA) > death_wakeup_bytes)
		return 0;
	describe(task, &now);
	tell(&now, BPF_CORE_READ(task, pid), 0, TASK_NOTE_EXIT);
	return 0;
}
