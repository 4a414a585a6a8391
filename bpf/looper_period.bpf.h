/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The state machine of a watched thread: it enters the wait of its loop, it leaves it. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "abi/sched.h"
#include "bits.bpf.h"
#include "compat.bpf.h"
#include "looper_wait.bpf.h"
#include "order.bpf.h"

static __always_inline void looper_begin(struct looper_slot *slot)
{
	fetch_add(&slot->begun, 1);
}

static __always_inline void looper_end(struct looper_slot *slot)
{
	fetch_add(&slot->ended, 1);
}

/* A program for this slot is in the middle: only a uprobe program of the thread itself can be,
 * which was preempted there (preemptible since 8c7dcb84e3b7, 6.0). */
static __always_inline bool looper_is_amid(const struct looper_slot *slot)
{
	return *(volatile __u32 *)&slot->begun != *(volatile __u32 *)&slot->ended;
}

/* Its place among those who wait for the CPU. */
static __always_inline bool looper_has_row(const struct looper_slot *slot,
					   const struct cpu_slot *cpu, __u32 index)
{
	__u32 row = slot->waiting_row & (SCHED_MAX_WAITERS - 1);

	return (cpu->looper_waiting >> row & 1) && cpu->waiters[row] == index;
}

static __always_inline void looper_leave_row(const struct looper_slot *slot, struct cpu_slot *cpu,
					     __u32 index)
{
	if (looper_has_row(slot, cpu, index))
		cpu->looper_waiting &= ~(1u << (slot->waiting_row & (SCHED_MAX_WAITERS - 1)));
}

/* It waits for a CPU now: who runs there runs in its place. Under that CPU's run-queue lock. A row
 * of an earlier wait stays where that went on at another CPU, until this one switches, and a task
 * that is ready already may be woken once more. */
static __always_inline void looper_wait_for(struct looper_slot *slot, struct cpu_slot *cpu,
					    __u32 cpu_id, __u32 index, __u64 now_ns)
{
	bool has_row = looper_has_row(slot, cpu, index);
	__u32 row;

	if (has_row && slot->waiting && slot->waiting_cpu == cpu_id)
		return;
	slot->waiting = 1;
	slot->waiting_cpu = cpu_id;
	slot->waiting_since_ns = now_ns;
	if (has_row)
		return;
	if (cpu->looper_waiting == ~0u) {
		looper_loss(LOOPER_LOSS_WAITER_UNPLACED);
		return;
	}
	row = first_bit((__u32)~cpu->looper_waiting) & (SCHED_MAX_WAITERS - 1);
	cpu->waiters[row] = index;
	cpu->looper_waiting |= 1u << row;
	slot->waiting_row = row;
}

static __always_inline __u64 looper_cpu_ns(const struct looper_slot *slot, __u64 now_ns)
{
	return slot->on_cpu ? slot->in_cpu_ns + (now_ns - slot->in_ns) : slot->out_cpu_ns;
}

/* What the thread ran in this period. A begin amid a run is reckoned by the clock, with what
 * interrupts and the hypervisor took of it, and may be beyond what the kernel charged since. */
static __always_inline __u64 looper_ran_ns(const struct looper_slot *slot, __u64 now_ns)
{
	__u64 cpu_ns = looper_cpu_ns(slot, now_ns);

	return cpu_ns > slot->begin_cpu_ns ? cpu_ns - slot->begin_cpu_ns : 0;
}

static __always_inline void looper_fill_head(struct looper_event *head, __u32 type, __u32 index,
					     const struct looper_slot *slot)
{
	head->type = type;
	head->index = index;
	head->slot_id = slot->slot_id;
	head->period = slot->periods;
}

static __always_inline void looper_report(struct looper_slot *slot, __u32 index,
					  struct task_struct *task, __u64 now_ns, __u32 flags)
{
	struct looper_period_event *event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);

	if (!event) {
		looper_loss(LOOPER_LOSS_EVENT_RING_FULL);
		return;
	}
	looper_fill_head(&event->head, LOOPER_EVENT_PERIOD, index, slot);
	event->head.begin_ns = slot->busy_since_ns;
	event->head.end_ns = now_ns;
	if (slot->detector == LOOPER_BY_SWITCH || slot->merged)
		flags |= LOOPER_EVENT_MERGED;
	if (!looper_is_loop(slot))
		flags |= LOOPER_EVENT_UNKNOWN_LOOP;
	if (slot->estimated)
		flags |= LOOPER_EVENT_ESTIMATED;
	event->flags = flags;
	event->loop_kind = slot->loop_kind;
	event->loop_fd = slot->loop_fd;
	event->reserved = 0;
	event->cpu_ns = looper_ran_ns(slot, now_ns);
	event->delay_ns = BPF_CORE_READ(task, sched_info.run_delay) - slot->begin_delay_ns;
	event->faults_minor = BPF_CORE_READ(task, min_flt) - slot->begin_faults_minor;
	event->faults_major = BPF_CORE_READ(task, maj_flt) - slot->begin_faults_major;
	__builtin_memcpy(&event->sums, &slot->sums, sizeof(event->sums));
	event->preempted_other_ns = slot->preempted_other_ns;
	__builtin_memcpy(event->preemptors, slot->preemptors, sizeof(event->preemptors));
	bpf_ringbuf_submit(event, 0);
}

/* The period, if there is one, is over. */
static __always_inline void looper_close(struct looper_slot *slot, __u32 index,
					 struct task_struct *task, __u64 now_ns, __u32 flags)
{
	__u64 since_ns = slot->busy_since_ns;

	/* A main thread that never waits in a loop has no periods, and its end is no block's. What
	 * the thread was stopped for is no block either. */
	if (since_ns && slot->loop_kind != LOOPER_WAIT_NONE && !looper_is_shared(slot) &&
	    !looper_is_closed(slot) && slot->discarded != slot->periods &&
	    now_ns - since_ns >= slot->block_ns + slot->sums.stopped_ns)
		looper_report(slot, index, task, now_ns, flags);
	slot->busy_since_ns = 0;
	slot->merged = 0;
}

/* About to wait: if it was preempted since it came, and no switch was shown, the kernel's sum says
 * how long it waited for its CPU. (How long it ran is only known as of the last tick, so a sleep is
 * not found here.) */
static __always_inline void book_unseen_wait(struct looper_slot *slot, struct task_struct *task)
{
	__u64 switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	__u64 delay_ns;

	if (!slot->on_cpu || !slot->busy_since_ns || switches <= slot->out_switches)
		return;
	delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	looper_loss(LOOPER_LOSS_MISSED_SWITCH);
	if (delay_ns > slot->out_delay_ns)
		slot->sums.runnable_ns += delay_ns - slot->out_delay_ns;
	slot->out_delay_ns = delay_ns;
	slot->out_switches = switches;
}

/* All of these are called between looper_begin and looper_end. */

/* It begins to wait. seen_by says who sees the end of the wait. */
static __always_inline void looper_enter_wait(struct looper_slot *slot, __u32 index,
					      struct task_struct *task, const struct wait *wait,
					      __u64 now_ns, __u32 flags, __u32 seen_by)
{
	int place;

	slot->waiting_kind = wait->kind;
	slot->waiting_fd = wait->fd;
	slot->waiting_stack[wait->way] = wait->stack;
	slot->waiting_stack[wait->way ^ 1] = 0;
	slot->waiting_seen_by = seen_by;
	place = looper_place(index, wait->stack, wait->way, now_ns);
	slot->waiting_own = place == PLACE_OWN || place == PLACE_ADOPTED;
	if (place == PLACE_OWN)
		looper_close(slot, index, task, now_ns, flags);
	else if (place != PLACE_NESTED)
		slot->busy_since_ns = slot->merged = 0;
}

static __always_inline void start_period(struct looper_slot *slot, struct task_struct *task,
					 __u64 now_ns, bool by_switch)
{
	slot->busy_since_ns = now_ns;
	slot->periods++;
	slot->begin_cpu_ns = looper_cpu_ns(slot, now_ns);
	/* At its switch-in the kernel has not added the wait that is over now; the slot has. */
	slot->begin_delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	if (slot->begin_delay_ns < slot->out_delay_ns)
		slot->begin_delay_ns = slot->out_delay_ns;
	slot->begin_faults_minor = BPF_CORE_READ(task, min_flt);
	slot->begin_faults_major = BPF_CORE_READ(task, maj_flt);
	__builtin_memset(&slot->sums, 0, sizeof(slot->sums));
	slot->preempted_other_ns = 0;
	slot->spells_told = 0;
	/* A row with ns 0 is free, whoever stands in it. */
	for (int i = 0; i < LOOPER_PREEMPTORS; i++)
		slot->preemptors[i].ns = 0;
	slot->merged = by_switch;
	slot->estimated = 0;
}

/* Its wait is over. by_switch: the switch program alone saw it, so that messages without a sleep
 * between them are one period. */
static __always_inline void looper_leave_wait(struct looper_slot *slot, __u32 index,
					      struct task_struct *task, __u64 now_ns,
					      bool by_switch)
{
	bool own = slot->waiting_own;

	/* User space saw, while the thread waited, that the loop it was in is gone. */
	if (!own && slot->waiting_kind && looper_is_closed(slot) &&
	    slot->waiting_kind == slot->nested_kind) {
		nested_becomes_loop(slot, LOOPER_LOOP_CLOSED);
		tell_loop(slot, index, now_ns);
		own = true;
	}
	slot->waiting_kind = LOOPER_WAIT_NONE;
	slot->waiting_fd = -1;
	slot->waiting_seen_by = LOOPER_SEEN_NOT;
	slot->waiting_own = 0;
	if (own)
		start_period(slot, task, now_ns, by_switch);
}

/* A parked thread works again: the sampler is woken. Behind looper_end, which orders the load of
 * parked behind the store of busy_since_ns. A sampler that parked the thread amid a period waits
 * for the next one: woken at each switch of this one it would take the thread's CPU, which is a
 * switch, and wake itself without end. */
static __always_inline void looper_wake(struct looper_slot *slot, __u32 index)
{
	__u32 parked = *(volatile __u32 *)&slot->parked;
	struct looper_event *event;

	if (!parked || parked == (__u32)slot->periods + 1 || !slot->busy_since_ns ||
	    slot->loop_kind == LOOPER_WAIT_NONE)
		return;
	event = bpf_ringbuf_reserve(&looper_wakes, sizeof(*event), 0);
	if (!event) {
		/* Still parked, so that the next period wakes the sampler. */
		looper_loss(LOOPER_LOSS_EVENT_RING_FULL);
		return;
	}
	slot->parked = 0;
	looper_fill_head(event, LOOPER_EVENT_BUSY, index, slot);
	event->begin_ns = event->end_ns = slot->busy_since_ns;
	bpf_ringbuf_submit(event, 0);
}

/* Off the CPU from slot->off_ns until now_ns, of which wait_ns on a run queue at the end. */
static __always_inline void book_spell(struct looper_slot *slot, __u32 index, __u64 now_ns,
				       __u64 wait_ns)
{
	__u64 begin_ns = slot->off_ns, off_ns;
	__u32 reason = slot->reason & (LOOPER_REASON_MAX - 1);
	struct looper_spell_event *event;
	__u64 rest_ns;

	/* What lies before the period is none of its time. */
	if (begin_ns < slot->busy_since_ns)
		begin_ns = slot->busy_since_ns;
	if (now_ns < begin_ns)
		return;
	off_ns = now_ns - begin_ns;
	if (wait_ns > off_ns)
		wait_ns = off_ns;
	rest_ns = off_ns - wait_ns;
	switch (slot->off_state) {
	case OFF_CPU_RUNNABLE:
		wait_ns = off_ns;
		/* It counts as queued all the while; what it waited for is quota. */
		rest_ns = reason == LOOPER_REASON_THROTTLED ? off_ns : 0;
		break;
	case OFF_CPU_UNINTERRUPTIBLE:
		slot->sums.uninterruptible_ns += rest_ns;
		break;
	case OFF_CPU_STOPPED:
		slot->sums.stopped_ns += rest_ns;
		break;
	default:
		slot->sums.sleeping_ns += rest_ns;
	}
	slot->sums.runnable_ns += wait_ns;
	slot->sums.reason_ns[reason] += rest_ns;
	if (!slot->busy_since_ns || off_ns < LOOPER_SPELL_NS)
		return;
	if (slot->spells_told++ >= LOOPER_UNKNOWN_SPELLS && !looper_is_loop(slot))
		return;
	event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);
	if (!event) {
		looper_loss(LOOPER_LOSS_EVENT_RING_FULL);
		return;
	}
	looper_fill_head(&event->head, LOOPER_EVENT_SPELL, index, slot);
	event->head.begin_ns = begin_ns;
	event->head.end_ns = now_ns;
	event->spell = slot->spell;
	event->wait_ns = wait_ns;
	event->state = slot->off_state;
	event->reason = reason;
	event->syscall_nr = slot->syscall_nr;
	event->arguments[0] = slot->arguments[0];
	event->arguments[1] = slot->arguments[1];
	event->waker_tid = slot->woken_ns ? slot->waker_tid : 0;
	event->waker_tgid = slot->waker_tgid;
	event->reserved = 0;
	__builtin_memcpy(event->waker_comm, slot->waker_comm, LOOPER_COMM_LEN);
	/* The reader empties the ring when it looks at the thread, every 50 ms of a period. */
	bpf_ringbuf_submit(event, bpf_ringbuf_query(&looper_events, BPF_RB_AVAIL_DATA) > (1 << 16)
					  ? BPF_RB_FORCE_WAKEUP
					  : BPF_RB_NO_WAKEUP);
}

/* The thread itself is here, so it is on a CPU; if its switch-in was not shown, that is made good.
 * The stash is the switch program's alone; its reader compares the kernel's count of arrivals. */
static __always_inline void looper_came(struct looper_slot *slot, __u32 index,
					struct task_struct *task, __u64 now_ns)
{
	__u64 ran_ns, delay_ns, in_ns;

	if (slot->on_cpu)
		return;
	ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime) - slot->out_cpu_ns;
	delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	in_ns = now_ns > ran_ns ? now_ns - ran_ns : 0;
	looper_loss(LOOPER_LOSS_MISSED_SWITCH);
	if (slot->off_ns && in_ns > slot->off_ns)
		book_spell(slot, index, in_ns, delay_ns - slot->out_delay_ns);
	slot->on_cpu = 1;
	slot->in_ns = in_ns;
	slot->in_cpu_ns = slot->out_cpu_ns;
	slot->out_delay_ns = delay_ns;
	slot->out_switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	slot->waiting = 0;
	if (slot->waiting_seen_by == LOOPER_SEEN_BY_SWITCH) {
		looper_leave_wait(slot, index, task, in_ns, slot->detector != LOOPER_BY_SYSCALL);
		slot->estimated = 1;
	}
}

/* ---- another thread than the leader calls execve ---- */

/* It has the leader's tid from then on, and keeps its own sums (de_thread in fs/exec.c). The leader
 * may have left its CPU for the last time under that tid, or will under another one. Here its sums
 * are made not to count for the leader's period. */
static __always_inline void leave_to(struct looper_slot *slot, struct task_struct *task)
{
	slot->begin_delay_ns = BPF_CORE_READ(task, sched_info.run_delay) - slot->sums.runnable_ns;
	slot->begin_faults_minor = BPF_CORE_READ(task, min_flt);
	slot->begin_faults_major = BPF_CORE_READ(task, maj_flt);
}

static __always_inline void take_place(struct looper_slot *slot, struct task_struct *task,
				       __u64 now_ns)
{
	slot->dead = 0;
	slot->task = (__u64)task;
	slot->on_cpu = 1;
	slot->in_ns = now_ns;
	slot->in_cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	slot->out_delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	slot->out_switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	slot->waiting = 0;
}
