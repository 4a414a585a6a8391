/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The switch that nearly all switches are: the task that leaves has switched since the last
 * read-out, so that the next one asks the kernel for its sums, and it is preempted or sleeps. Then
 * only the CPU's own line is written. Everything is checked before that; where one check fails
 * nothing has happened, and sched.bpf.c goes the whole way. There is no call to a part here but the
 * probe reads and, at the end, book_time, so that the values stay in registers. */
#pragma once
#include "flight.bpf.h"
#include "sched_slot.bpf.h"

/* How kernel threads wait for work. */
#define FAST_TASK_IDLE (TASK_UNINTERRUPTIBLE_BIT | TASK_NOLOAD_BIT)

/* Who comes, without a probe read if it came lately. ids->tgid is 0 where its slot has it. */
static __always_inline void fast_ids(__u64 next, struct fast_cpu *fast, struct task_ids *ids)
{
	__u32 hash = next >> 6, *recent;
	struct task_slot *slot;

	ids->tid = ids->tgid = 0;
	if (next == fast->idle)
		return;
	recent = &fast->recent[(hash ^ hash >> 7) & (FAST_RECENT - 1)];
	ids->tid = *recent;
	slot = bpf_map_lookup_elem(&tasks, &ids->tid);
	if (slot && slot->task == next && !(slot->flags & TASK_SLOT_DEAD))
		return;
	read_ids((struct task_struct *)next, ids, false);
	if (ids->tid)
		*recent = ids->tid;
	else
		fast->idle = next;
}

/* Its own run queue's, as rq_clock_of says, but by one read: the CPU's queue is known. */
static __always_inline __u64 fast_clock(const struct cpu_slot *cpu, struct task_struct *prev,
					bool direct)
{
	struct rq *rq = (struct rq *)cpu->rq;

	return direct ? prev->se.cfs_rq->rq->clock : BPF_CORE_READ(rq, clock);
}

/* Looks at what leaves: false if it is not of the common kind. *timed: its time is split. */
static __always_inline bool is_common(const struct task_slot *slot, const struct cpu_slot *cpu,
				      struct task_struct *prev, __u32 *timed, __u32 *flight,
				      bool direct)
{
	__u32 marks = *(volatile __u32 *)&slot->watch;

	if (watch_flight) {
		*flight = marks & FLIGHT_MARK ? FLIGHT_LEAVES : 0;
		marks &= ~FLIGHT_MARK;
	}
	if (split_time) {
		*timed = marks & (__u32)TASK_SLOT_TIMED << 24;
		marks &= ~((__u32)TASK_SLOT_TIMED << 24);
	}
	if (slot->task != (__u64)prev || slot->epoch != cpu->epoch)
		return false;
	/* watch, off_state and flags in one: nobody watches it, and it was neither dead nor in a
	 * state that is timed. */
	if (marks != (__u32)OFF_CPU_SLEEPING << 16 && marks != (__u32)OFF_CPU_RUNNABLE << 16)
		return false;
	return !watch_uids ||
	       slot->uid == (direct ? task_uid(prev, true) : (__u32)bpf_get_current_uid_gid());
}

/* ctx: the tracepoint's arguments. True: it was such a switch, and is booked, but for what flight
 * says then. What it touches is
 * what it costs: a cache line that only this program uses has left the caches since the last
 * switch. So one key serves all look-ups, and the rare parts stand behind. */
static __always_inline bool switch_fast(__u64 *ctx, struct flight_call *flight, bool direct)
{
	__u32 key = bpf_get_smp_processor_id(), tid, state, timed = 0, slice = 0, what = 0;
	struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &key);
	struct task_struct *prev = (struct task_struct *)ctx[1], *next;
	struct fast_cpu *fast = NULL;
	struct task_slot *slot;
	struct task_ids ids;
	/* The compiler moves these about also where nothing of it is reached. */
	__u64 now_ns, in_cpu_ns, was_in_ns = 0;

	/* It came here under the tid that the CPU's slot has, and the CPU is not seen for the first
	 * time. */
	if (!HAS_RQ_CLOCK || !cpu || cpu->task != (__u64)prev || !cpu->rq)
		return false;
	if (!direct) {
		fast = bpf_map_lookup_elem(&fast_cpus, &key);
		if (!fast)
			return false;
	}
	key = tid = cpu->tid;
	if (direct && tid != (__u32)prev->pid)
		return false;
	if (likely(tid)) {
		slot = bpf_map_lookup_elem(&tasks, &key);
		if (!slot || !is_common(slot, cpu, prev, &timed, &what, direct))
			return false;
		if (!ctx[0]) {
			state = has_prev_state ? ctx[3] : task_state(prev, direct);
			if (unlikely(state & ~(TASK_INTERRUPTIBLE_BIT | TASK_FREEZABLE_BIT)) &&
			    (state & ~TASK_FREEZABLE_BIT) != FAST_TASK_IDLE)
				return false;
		}
	}
	next = (struct task_struct *)ctx[2];
	if (direct) {
		read_ids(next, &ids, true);
		in_cpu_ns = next->se.sum_exec_runtime;
	} else {
		fast_ids((__u64)next, fast, &ids);
		if (is_hashed(ids.tid))
			return false;
		in_cpu_ns = ids.tid ? BPF_CORE_READ(next, se.sum_exec_runtime) : 0;
	}
	if (watch_loopers) {
		key = ids.tid;
		slot = bpf_map_lookup_elem(&tasks, &key);
		if (!watch_flight && (somebody_waits(cpu) || (key && (!slot || slot->watch))))
			return false;
		if (watch_flight) {
			__u32 watch = slot ? slot->watch : 0;

			if (cpu->looper_waiting || (key && !slot) || (watch & ~FLIGHT_MARK))
				return false;
			what |= (key && watch ? FLIGHT_COMES : 0) |
				(cpu->flight_waits ? FLIGHT_WAITS : 0);
		}
	}

	if (split_time) {
		was_in_ns = cpu->in_cpu_ns;
		slice = cpu->sequence;
	}
	if (likely(tid && ids.tid)) {
		ordered_add(&cpu->sequence, 1); /* odd: being written */
	} else {
		now_ns = fast_clock(cpu, prev, direct);
		ordered_add(&cpu->sequence, 1);
		if (!tid)
			cpu->idle_ns += now_ns - cpu->since_ns;
		cpu->since_ns = now_ns;
	}
	cpu->tid = ids.tid;
	cpu->tgid = ids.tgid;
	cpu->in_cpu_ns = in_cpu_ns;
	cpu->task = (__u64)next;
	ordered_add(&cpu->sequence, 1);
	if (watch_flight) {
		flight->what = what;
		flight->tid = tid;
	}
	/* Behind all the rest, so that nothing has to outlive the call. */
	if (split_time && timed && unlikely(!is_same_place(tid, slice)))
		book_time(tid, was_in_ns, TASK_FIELD(direct, prev, se.sum_exec_runtime), slice);
	return true;
}
