/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Fields and arguments that kernels name differently. Each flavour cites its kernel commit. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* 2f064a59a11f (5.14) renamed task_struct.state to __state and made it 32 bits wide. */
struct task_struct___before_5_14 {
	volatile long state;
} __attribute__((preserve_access_index));

/* With CONFIG_IRQ_TIME_ACCOUNTING only (kernel/sched/sched.h). */
struct rq___irq_time {
	__u64 prev_irq_time;
} __attribute__((preserve_access_index));

/* Bits of task_struct.__state (include/linux/sched.h); they are macros, so BTF has none. */
#define TASK_INTERRUPTIBLE_BIT   0x0001
#define TASK_UNINTERRUPTIBLE_BIT 0x0002
#define TASK_STOPPED_BIT         0x0004
#define TASK_TRACED_BIT          0x0008
#define TASK_PARKED_BIT          0x0040
#define TASK_DEAD_BIT            0x0080
#define TASK_NOLOAD_BIT          0x0400
#define TASK_RTLOCK_WAIT_BIT     0x1000
#define TASK_FREEZABLE_BIT       0x2000 /* f5d39b020809 (6.1): how futex, epoll and timers sleep */
#define TASK_FROZEN_BIT          0x8000
/* Of task_struct.flags. */
#define PF_KTHREAD_BIT 0x00200000

/* Read p->field: directly where the verifier knows p's type (tp_btf, iter), else by probe read.
 * `direct` is a constant of each twin, so the other branch vanishes at compile time. */
#define TASK_FIELD(direct, p, field) \
	((direct) ? (p)->field : (typeof((p)->field))BPF_CORE_READ(p, field))

static __always_inline __u32 task_state(struct task_struct *task, bool direct)
{
	if (bpf_core_field_exists(task->__state))
		return TASK_FIELD(direct, task, __state);
	struct task_struct___before_5_14 *old = (void *)task;
	return (__u32)(direct ? old->state : BPF_CORE_READ(old, state));
}

static __always_inline __u32 task_uid(struct task_struct *task, bool direct)
{
	return direct ? task->cred->uid.val : BPF_CORE_READ(task, cred, uid.val);
}

/* Start time of the thread group's leader: the identity of the process. */
static __always_inline __u64 task_process_start(struct task_struct *task, bool direct)
{
	return direct ? task->group_leader->start_boottime
		      : BPF_CORE_READ(task, group_leader, start_boottime);
}
