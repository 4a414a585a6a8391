/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The state machine of a main thread: it enters the wait on its looper's own epoll, it leaves it.
 */
#pragma once
#include <bpf/bpf_core_read.h>
#include "abi/sched.h"
#include "compat.bpf.h"
#include "looper_maps.bpf.h"

/* asm/unistd.h; arm64 has no epoll_wait */
#ifdef __TARGET_ARCH_x86
#define NR_EPOLL_WAIT  232
#define NR_EPOLL_PWAIT 281
#else
#define NR_EPOLL_WAIT  22
#define NR_EPOLL_PWAIT 22
#endif
#define NR_EPOLL_PWAIT2 441

static __always_inline bool is_epoll_wait(__s64 nr)
{
	return nr == NR_EPOLL_WAIT || nr == NR_EPOLL_PWAIT || nr == NR_EPOLL_PWAIT2;
}

/* Programs for one thread never run at the same time, but the switch program may come in the middle
 * of a uprobe's: each adds one before and one behind. */
static __always_inline void looper_begin(struct looper_slot *slot)
{
	*(volatile __u32 *)&slot->begun += 1;
}

static __always_inline void looper_end(struct looper_slot *slot)
{
	*(volatile __u32 *)&slot->ended += 1;
}

/* It waits for a CPU now: who runs there runs in its place. More than there is room for go untold.
 */
static __always_inline void looper_wait_for(struct looper_slot *slot, struct cpu_slot *cpu,
					    __u32 cpu_id, __u32 index, __u64 now_ns)
{
	slot->waiting = 1;
	slot->waiting_cpu = cpu_id;
	slot->waiting_since_ns = now_ns;
	for (int i = 0; i < SCHED_MAX_WAITERS; i++) {
		if (cpu->waiters[i] && cpu->waiters[i] != index + 1)
			continue;
		cpu->waiters[i] = index + 1;
		return;
	}
}

static __always_inline __u64 looper_cpu_ns(const struct looper_slot *slot, __u64 now_ns)
{
	return slot->on_cpu ? slot->in_cpu_ns + (now_ns - slot->in_ns) : slot->out_cpu_ns;
}

static __always_inline void looper_fill_head(struct looper_event *head, __u32 type, __u32 index,
					     const struct looper_slot *slot)
{
	head->type = type;
	head->index = index;
	head->start_boot_ns = slot->start_boot_ns;
	head->period = slot->periods;
}

static __always_inline void looper_report(struct looper_slot *slot, __u32 index,
					  struct task_struct *task, __u64 now_ns, __u32 flags)
{
	struct looper_period_event *event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);

	if (!event) {
		loss_add(&looper_losses, LOOPER_LOSS_EVENT_RING_FULL, 1);
		return;
	}
	looper_fill_head(&event->head, LOOPER_EVENT_PERIOD, index, slot);
	event->head.begin_ns = slot->busy_since_ns;
	event->head.end_ns = now_ns;
	if (slot->detector == LOOPER_BY_SWITCH || (slot->flags & LOOPER_SLOT_MERGED))
		flags |= LOOPER_EVENT_MERGED;
	event->flags = flags;
	event->epfd = slot->epfd;
	event->cpu_ns = looper_cpu_ns(slot, now_ns) - slot->begin_cpu_ns;
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

	/* What it was stopped for is no block. */
	if (since_ns && !(slot->flags & LOOPER_SLOT_DISCARD) &&
	    now_ns - since_ns >= slot->block_ns + slot->sums.stopped_ns)
		looper_report(slot, index, task, now_ns, flags);
	slot->busy_since_ns = 0;
	slot->flags &= ~(LOOPER_SLOT_DISCARD | LOOPER_SLOT_MERGED);
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
	looper_begin(slot);
	loss_add(&looper_losses, LOOPER_LOSS_MISSED_SWITCH, 1);
	if (delay_ns > slot->out_delay_ns)
		slot->sums.runnable_ns += delay_ns - slot->out_delay_ns;
	slot->out_delay_ns = delay_ns;
	slot->out_switches = switches;
	looper_end(slot);
}

static __always_inline void looper_enter_wait(struct looper_slot *slot, __u32 index,
					      struct task_struct *task, __s32 epfd, __u64 now_ns,
					      __u32 flags)
{
	looper_begin(slot);
	/* The first one that it waits on; the reader puts it right if that fd goes away. */
	if (slot->epfd < 0)
		slot->epfd = epfd;
	slot->polling = epfd;
	if (epfd == slot->epfd) {
		looper_close(slot, index, task, now_ns, flags);
	} else {
		/* A nested loop on another fd: the message that runs it goes on. */
		slot->other_epfd = epfd;
		slot->other_waits++;
	}
	looper_end(slot);
}

static __always_inline void looper_leave_wait(struct looper_slot *slot, __u32 index,
					      struct task_struct *task, __u64 now_ns,
					      bool by_switch)
{
	bool own = slot->polling == slot->epfd;

	looper_begin(slot);
	slot->polling = -1;
	if (own) {
		slot->busy_since_ns = now_ns;
		slot->periods++;
		slot->begin_cpu_ns = looper_cpu_ns(slot, now_ns);
		slot->begin_faults_minor = BPF_CORE_READ(task, min_flt);
		slot->begin_faults_major = BPF_CORE_READ(task, maj_flt);
		__builtin_memset(&slot->sums, 0, sizeof(slot->sums));
		slot->preempted_other_ns = 0;
		/* A row with ns 0 is free, whoever stands in it. */
		for (int i = 0; i < LOOPER_PREEMPTORS; i++)
			slot->preemptors[i].ns = 0;
		if (by_switch)
			slot->flags |= LOOPER_SLOT_MERGED;
	}
	looper_end(slot);
	if (own && (slot->flags & LOOPER_SLOT_PARKED)) {
		struct looper_event *event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);

		slot->flags &= ~LOOPER_SLOT_PARKED;
		if (!event)
			return; /* the reader looks by itself too, only later */
		looper_fill_head(event, LOOPER_EVENT_BUSY, index, slot);
		event->begin_ns = event->end_ns = now_ns;
		bpf_ringbuf_submit(event, 0);
	}
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
	event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);
	if (!event) {
		loss_add(&looper_losses, LOOPER_LOSS_EVENT_RING_FULL, 1);
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
 */
static __always_inline void looper_came(struct looper_slot *slot, __u32 index,
					struct task_struct *task, __u64 now_ns)
{
	struct looper_registers *stash;
	__u64 ran_ns, delay_ns, in_ns;

	if (slot->on_cpu)
		return;
	ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime) - slot->out_cpu_ns;
	delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	in_ns = now_ns > ran_ns ? now_ns - ran_ns : 0;
	looper_begin(slot);
	loss_add(&looper_losses, LOOPER_LOSS_MISSED_SWITCH, 1);
	if (slot->off_ns && in_ns > slot->off_ns)
		book_spell(slot, index, in_ns, delay_ns - slot->out_delay_ns);
	slot->on_cpu = 1;
	slot->in_ns = in_ns;
	slot->in_cpu_ns = slot->out_cpu_ns;
	slot->out_delay_ns = delay_ns;
	slot->out_switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	slot->waiting = 0;
	stash = bpf_map_lookup_elem(&looper_stash, &index);
	if (stash && stash->sequence && !(stash->sequence & 1))
		__sync_fetch_and_add(&stash->sequence, 1);
	looper_end(slot);
	if ((slot->flags & LOOPER_SLOT_BY_SWITCH) && slot->polling >= 0) {
		slot->flags &= ~LOOPER_SLOT_BY_SWITCH;
		looper_leave_wait(slot, index, task, in_ns, slot->detector != LOOPER_BY_SYSCALL);
	}
}
