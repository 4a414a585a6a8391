/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a switch needs of a task. Where fields are got by probe reads each costs 10 to 40 ns, but
 * neighbours come along: counts and start time are one read, tid and tgid too. One read over all of
 * them would be 550 bytes long, and cost more than it saves. */
#pragma once
#include "abi/sched.h"
#include "compat.bpf.h"

struct task_view {
	__u64 start_boot_ns;
	struct task_sums sums;
};

struct task_ids {
	__u32 tid, tgid;
};

#define FIELD_AT(field)   bpf_core_field_offset(struct task_struct, field)
#define SWITCH_SPAN_BYTES 64

static __always_inline void read_ids(struct task_struct *task, struct task_ids *ids, bool direct)
{
	if (direct) {
		ids->tid = task->pid;
		ids->tgid = task->tgid;
	} else if (FIELD_AT(tgid) == FIELD_AT(pid) + 4) {
		bpf_probe_read_kernel(ids, sizeof(*ids), (void *)task + FIELD_AT(pid));
	} else {
		ids->tid = BPF_CORE_READ(task, pid);
		ids->tgid = BPF_CORE_READ(task, tgid);
	}
}

/* nvcsw, nivcsw and, behind start_time, start_boottime */
static __always_inline void read_switch_span(struct task_struct *task, struct task_view *view)
{
	__u32 start = FIELD_AT(start_boottime) - FIELD_AT(nvcsw);
	__u64 words[SWITCH_SPAN_BYTES / 8];

	if (start > sizeof(words) - 8 || FIELD_AT(nivcsw) != FIELD_AT(nvcsw) + 8) {
		view->start_boot_ns = BPF_CORE_READ(task, start_boottime);
		view->sums.switches_voluntary = BPF_CORE_READ(task, nvcsw);
		view->sums.switches_involuntary = BPF_CORE_READ(task, nivcsw);
		return;
	}
	if (bpf_probe_read_kernel(words, start + 8, (void *)task + FIELD_AT(nvcsw)))
		return;
	view->sums.switches_voluntary = words[0];
	view->sums.switches_involuntary = words[1];
	view->start_boot_ns = *(__u64 *)((void *)words + start);
}

/* The sums of a task, outside of a switch: there a probe read each costs nothing that counts. */
static __always_inline void read_sums(struct task_struct *task, struct task_sums *sums, bool direct)
{
	sums->cpu_ns = TASK_FIELD(direct, task, se.sum_exec_runtime);
	sums->runnable_ns = TASK_FIELD(direct, task, sched_info.run_delay);
	sums->switches_voluntary = TASK_FIELD(direct, task, nvcsw);
	sums->switches_involuntary = TASK_FIELD(direct, task, nivcsw);
}

/* Where loads are direct nothing is kept: a value is loaded where it is stored. */
static __always_inline void view_task(struct task_struct *task, struct task_view *view, bool direct)
{
	if (direct)
		return;
	view->sums.cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	view->sums.runnable_ns = BPF_CORE_READ(task, sched_info.run_delay);
	read_switch_span(task, view);
}

/* How long a task has waited for a CPU in a wait that is not over, which the kernel adds to
 * run_delay when it is. queued_ns: sched_info.last_queued, of the run queue's clock
 * (sched_info_enqueue in kernel/sched/stats.h); 0: it does not wait. */
static __always_inline __u64 open_wait_ns(__u64 queued_ns, __s64 rq_clock_offset_ns)
{
	__u64 now_ns;

	if (!queued_ns || !HAS_RQ_CLOCK)
		return 0;
	now_ns = bpf_ktime_get_ns() + rq_clock_offset_ns;
	return now_ns > queued_ns ? now_ns - queued_ns : 0;
}

#define VIEWED(field, name) (direct ? (__u64)task->field : view->name)
