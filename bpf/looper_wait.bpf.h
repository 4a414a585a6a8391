/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which wait is a thread's loop. A wait is told by its kind and descriptor, or, where it has none
 * (poll, select), by its depth: the stack pointer. */
#pragma once
#include "looper_maps.bpf.h"

/* asm/unistd.h; arm64 has no epoll_wait, poll, select */
#ifdef __TARGET_ARCH_x86
#define NR_EPOLL_WAIT      232
#define NR_EPOLL_PWAIT     281
#define NR_POLL            7
#define NR_PPOLL           271
#define NR_SELECT          23
#define NR_PSELECT6        270
#define NR_RESTART_SYSCALL 219
#else
#define NR_EPOLL_WAIT      22
#define NR_EPOLL_PWAIT     22
#define NR_POLL            73
#define NR_PPOLL           73
#define NR_SELECT          72
#define NR_PSELECT6        72
#define NR_RESTART_SYSCALL 128
#endif
#define NR_EPOLL_PWAIT2   441
#define NR_IO_URING_ENTER 426

#define IORING_ENTER_GETEVENTS_BIT 1

/* The stubs of one C library differ by so much at their system call instruction: the one for many
 * threads has a frame. */
#define CALL_SLACK_BYTES 64
/* Between a function's entry and its system call instruction (musl goes through two calls). */
#define STUB_BYTES 256
/* A loop that changes all the time (two descriptors in turns) is told once in such a time. */
#define LOOP_TOLD_NS      1000000000ull
#define LOOP_TOLD_CHANGES 8

struct wait {
	__u32 kind; /* enum looper_wait */
	__s32 fd;
	__u64 stack;
	__u32 way; /* enum looper_way */
};

/* False: no wait of a loop's kind. */
static __always_inline bool wait_of_call(__s64 nr, __u64 first, __u64 second, __u64 third,
					 __u64 fourth, struct wait *wait)
{
	wait->kind = LOOPER_WAIT_NONE;
	wait->fd = -1;
	if (nr == NR_EPOLL_WAIT || nr == NR_EPOLL_PWAIT || nr == NR_EPOLL_PWAIT2) {
		wait->kind = LOOPER_WAIT_EPOLL;
		wait->fd = (__s32)first;
	} else if (nr == NR_POLL || nr == NR_PPOLL) {
		if ((__u32)second)
			wait->kind = LOOPER_WAIT_POLL;
	} else if (nr == NR_SELECT || nr == NR_PSELECT6) {
		if ((__s32)first > 0)
			wait->kind = LOOPER_WAIT_SELECT;
	} else if (nr == NR_IO_URING_ENTER) {
		if ((__u32)third && ((__u32)fourth & IORING_ENTER_GETEVENTS_BIT)) {
			wait->kind = LOOPER_WAIT_URING;
			wait->fd = (__s32)first;
		}
	}
	return wait->kind != LOOPER_WAIT_NONE;
}

/* Above 0: the wait is shallower than the known one; 0: at its depth; below: deeper. */
static __always_inline int depth_against(__u64 by_probe, __u64 by_call, __u64 stack, __u32 way)
{
	__u64 low, high;

	if (way == LOOPER_WAY_PROBE && by_probe) {
		low = high = by_probe;
	} else if (way == LOOPER_WAY_CALL && by_call) {
		low = by_call - CALL_SLACK_BYTES;
		high = by_call + CALL_SLACK_BYTES;
	} else if (by_probe) {
		low = by_probe - STUB_BYTES;
		high = by_probe;
	} else if (by_call) {
		low = by_call;
		high = by_call + STUB_BYTES;
	} else {
		return 0;
	}
	return stack > high ? 1 : stack < low ? -1 : 0;
}

static __always_inline bool has_descriptor(__u32 kind)
{
	return kind == LOOPER_WAIT_EPOLL || kind == LOOPER_WAIT_URING;
}

static __always_inline void tell_loop(struct looper_slot *slot, __u32 index, __u64 now_ns)
{
	struct looper_loop_event *event = bpf_ringbuf_reserve(&looper_events, sizeof(*event), 0);

	if (!event) {
		looper_loss(LOOPER_LOSS_EVENT_RING_FULL);
		return;
	}
	event->head.type = LOOPER_EVENT_LOOP;
	event->head.index = index;
	event->head.slot_id = slot->slot_id;
	event->head.period = slot->periods;
	event->head.begin_ns = slot->busy_since_ns;
	event->head.end_ns = now_ns;
	event->loop_kind = slot->loop_kind;
	event->loop_fd = slot->loop_fd;
	event->how = slot->loop_how;
	event->changes = slot->loop_changes;
	slot->loop_told_ns = now_ns;
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void forget_nested(struct looper_slot *slot)
{
	slot->nested_kind = LOOPER_WAIT_NONE;
	slot->nested_fd = -1;
	slot->nested_waits = 0;
	slot->nested_stack[LOOPER_WAY_PROBE] = slot->nested_stack[LOOPER_WAY_CALL] = 0;
}

static __always_inline void nested_becomes_loop(struct looper_slot *slot, __u32 how)
{
	slot->loop_kind = slot->nested_kind;
	slot->loop_fd = slot->nested_fd;
	slot->loop_stack[LOOPER_WAY_PROBE] = slot->nested_stack[LOOPER_WAY_PROBE];
	slot->loop_stack[LOOPER_WAY_CALL] = slot->nested_stack[LOOPER_WAY_CALL];
	slot->loop_counter = 0;
	slot->loop_waits = slot->nested_waits < 2 ? 2 : slot->nested_waits;
	slot->loop_how = how;
	slot->loop_changes++;
	forget_nested(slot);
}

enum place {
	PLACE_NESTED = 0,
	PLACE_OWN = 1,
	PLACE_ADOPTED = 2, /* own from now on: the period that is over was none */
	PLACE_SHARED = 3,  /* what was its loop is a poller of several threads: no period at all */
};

/* A thread begins the wait that stands in its slot (waiting_kind, waiting_fd) at this stack
 * pointer: what place in the thread's life it has. The rules, with the reason for each:
 *  - the first wait is a candidate: a thread may wait once or twice while it starts
 *  - the same descriptor, or the same kind at the same depth, is the loop's own wait
 *  - one at a lesser depth or the same becomes the loop: who waits there has left the former loop
 *  - a deeper one is nested: the message that runs it goes on (node's spawnSync); but a candidate
 *    that was waited in once gives way
 *  - an epoll that other threads wait in too is nobody's loop: who comes next serves it
 *  - a nested one becomes the loop when the outer one is not waited in any more: a modal loop, or
 *    a second loop after the first
 * Not static, so that it is verified by itself and once. */
__noinline int looper_place(__u32 index, __u64 stack, __u32 way, __u64 now_ns)
{
	struct looper_slot *slot = bpf_map_lookup_elem(&looper_slots, &index);
	bool same, known, closed;
	__u32 kind;
	__s32 fd;
	int depth;

	if (!slot)
		return PLACE_NESTED;
	kind = slot->waiting_kind;
	fd = slot->waiting_fd;
	way &= 1;
	if (kind == LOOPER_WAIT_EPOLL && slot->shared == (__u32)fd + 1)
		return looper_is_shared(slot) ? PLACE_SHARED : PLACE_NESTED;
	known = looper_is_loop(slot);
	closed = looper_is_closed(slot);
	depth = depth_against(slot->loop_stack[LOOPER_WAY_PROBE], slot->loop_stack[LOOPER_WAY_CALL],
			      stack, way);
	same = kind == slot->loop_kind && (has_descriptor(kind) ? fd == slot->loop_fd : !depth);
	if (same) {
		slot->loop_waits++;
		slot->loop_stack[way] = stack;
		slot->loop_waited_ns = now_ns;
		forget_nested(slot);
		/* Another one of that number. */
		if (closed) {
			slot->loop_changes++;
			slot->loop_how = LOOPER_LOOP_FOUND;
			tell_loop(slot, index, now_ns);
			return PLACE_ADOPTED;
		}
		if (slot->loop_waits == 2 && slot->loop_how == LOOPER_LOOP_CANDIDATE) {
			slot->loop_how = LOOPER_LOOP_FOUND;
			tell_loop(slot, index, now_ns);
		}
		return PLACE_OWN;
	}
	if (depth >= 0 || !known) {
		bool told = slot->loop_changes > LOOP_TOLD_CHANGES &&
			    now_ns - slot->loop_told_ns < LOOP_TOLD_NS;
		bool first = slot->loop_kind == LOOPER_WAIT_NONE || looper_is_shared(slot);

		/* At the same depth it is the same piece of code that waits in turns. */
		if (first || (depth && !known))
			slot->loop_waits = 1;
		else if (depth)
			slot->loop_waits = 2;
		else
			slot->loop_waits++;
		slot->loop_kind = kind;
		slot->loop_fd = fd;
		if (first || depth)
			slot->loop_stack[way ^ 1] = 0;
		slot->loop_stack[way] = stack;
		slot->loop_counter = 0;
		slot->loop_waited_ns = now_ns;
		forget_nested(slot);
		if (!first)
			slot->loop_changes++;
		if (slot->loop_waits >= 2) {
			slot->loop_how = LOOPER_LOOP_OUTER;
			if (!told)
				tell_loop(slot, index, now_ns);
		} else {
			slot->loop_how = LOOPER_LOOP_CANDIDATE;
		}
		return PLACE_OWN;
	}
	if (slot->nested_kind) {
		depth = depth_against(slot->nested_stack[LOOPER_WAY_PROBE],
				      slot->nested_stack[LOOPER_WAY_CALL], stack, way);
		same = kind == slot->nested_kind &&
		       (has_descriptor(kind) ? fd == slot->nested_fd : !depth);
	} else {
		same = false;
		depth = 1;
	}
	if (same) {
		slot->nested_waits++;
		slot->nested_stack[way] = stack;
	} else if (depth >= 0 || slot->nested_waits < 2 || closed) {
		forget_nested(slot);
		slot->nested_kind = kind;
		slot->nested_fd = fd;
		slot->nested_stack[way] = stack;
		slot->nested_waits = 1;
		slot->nested_since_ns = now_ns;
	}
	if (closed)
		nested_becomes_loop(slot, LOOPER_LOOP_CLOSED);
	else if (same && slot->nested_waits >= LOOPER_ADOPT_WAITS &&
		 now_ns - slot->nested_since_ns >= LOOPER_ADOPT_NS)
		nested_becomes_loop(slot, LOOPER_LOOP_ADOPTED);
	else
		return PLACE_NESTED;
	slot->loop_waited_ns = now_ns;
	tell_loop(slot, index, now_ns);
	return PLACE_ADOPTED;
}
