/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which enum off_cpu_state the state bits of a task stand for. */
#pragma once
#include "abi/sched.h"
#include "compat.bpf.h"

/* Of a task that was not preempted, and whose state is not 0 (running). Most sleep interruptibly.
 */
static __always_inline __u32 blocked_state_of(__u32 state)
{
	if (state == TASK_INTERRUPTIBLE_BIT)
		return OFF_CPU_SLEEPING;
	if (state & TASK_DEAD_BIT)
		return OFF_CPU_DEAD;
	if (state & (TASK_STOPPED_BIT | TASK_TRACED_BIT | TASK_PARKED_BIT | TASK_FROZEN_BIT))
		return OFF_CPU_STOPPED;
	/* TASK_IDLE is how kernel threads sleep without counting as load. */
	if ((state & (TASK_UNINTERRUPTIBLE_BIT | TASK_RTLOCK_WAIT_BIT)) &&
	    !(state & TASK_NOLOAD_BIT))
		return OFF_CPU_UNINTERRUPTIBLE;
	return OFF_CPU_SLEEPING;
}

static __always_inline __u32 off_state_of(__u32 state, bool preempted)
{
	return preempted || state == 0 ? OFF_CPU_RUNNABLE : blocked_state_of(state);
}
