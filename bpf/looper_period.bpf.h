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
