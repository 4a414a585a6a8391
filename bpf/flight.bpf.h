/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The flight recorder's part of the switch program: a ring of spells for each watched thread, and
 * for each CPU the turns of those who ran while one of them waited. Both are written under the
 * run-queue lock, by one CPU at a time, so that no position has to be claimed by an atomic that
 * kernels before 5.12 lack. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "flight_maps.bpf.h"
#include "looper_switch.bpf.h"
#include "order.bpf.h"

const volatile bool watch_flight;
/* Something is watched whose tid lies above the array of task slots, if anything is. */
__u32 flight_any;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flight_entry);
} flight_entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flight_turn);
} flight_turns SEC(".maps");

/* The spell that the thread's row has now, and that ended at in_ns. */
static __always_inline void flight_put(struct flight_thread *thread, __u64 off_ns, __u64 in_ns,
				       __u32 flags)
{
	__u32 key = thread->first + ((__u32)thread->count & thread->mask);
	struct flight_entry *entry = bpf_map_lookup_elem(&flight_entries, &key);

	if (!entry)
		return;
	ordered_add(&entry->sequence, 1);
	entry->off_ns = off_ns;
	entry->woken_ns = thread->woken_ns;
	entry->in_ns = in_ns;
	entry->waker_tid = thread->waker_tid;
	entry->waker_tgid = thread->waker_tgid;
	entry->syscall_nr = thread->syscall_nr;
	((__u64 *)entry->waker_comm)[0] = ((__u64 *)thread->waker_comm)[0];
	((__u64 *)entry->waker_comm)[1] = ((__u64 *)thread->waker_comm)[1];
	entry->state = thread->off_state;
	entry->reason = thread->reason;
	entry->flags = flags;
	entry->off_cpu = thread->off_cpu;
	entry->in_cpu = thread->in_cpu;
	ordered_add(&entry->sequence, 1);
	thread->count++;
}

static __always_inline void flight_gap(struct flight_thread *thread, __u64 from_ns, __u64 now_ns)
{
	thread->missed++;
	flight_put(thread, from_ns, now_ns, FLIGHT_GAP);
}

/* Which system call prev sleeps in: looper_switch.bpf.h says how a restarted one is taken. Only the
 * words that tell the reason are read. */
static __always_inline __u32 flight_reason(struct flight_thread *thread, struct task_struct *prev,
					   __u32 state, bool direct)
{
	__u64 *registers = task_registers(prev, direct);
	__u32 argument_1 = 0;
	__s32 nr = -1;

#ifdef __TARGET_ARCH_x86
	/* From the argument to cs: one read. */
	__u64 words[5] = {};

	if (!bpf_probe_read_kernel(words, sizeof(words), registers + WORD_ARGUMENT_1) &&
	    words[17 - WORD_ARGUMENT_1] != USER_CS_COMPAT) {
		nr = (__s32)words[WORD_SYSCALL - WORD_ARGUMENT_1];
		argument_1 = (__u32)words[0];
	}
#else
	__u64 argument = 0;

	bpf_probe_read_kernel(&nr, sizeof(nr), registers + WORD_SYSCALL);
	bpf_probe_read_kernel(&argument, sizeof(argument), registers + WORD_ARGUMENT_1);
	argument_1 = (__u32)argument;
#endif
	if (nr == NR_RESTART_SYSCALL && thread->last_nr >= 0)
		nr = thread->last_nr;
	else if (nr >= 0)
		thread->last_nr = nr;
	thread->syscall_nr = nr;
	return reason_of_sleep(state, nr, argument_1);
}

/* The task that leaves. A switch that was not shown before this one makes a gap and no guess. */
static __always_inline void flight_out(struct task_struct *prev, __u32 tid, struct cpu_slot *cpu,
				       __u32 cpu_id, const struct looper_switch *at, bool direct)
{
	__u64 switches, now_ns = at->now_ns;
	struct flight_thread *thread;
	__u32 index, state = at->state;

	thread = flight_of(tid, &index);
	if (!thread)
		return;
	switches = TASK_FIELD(direct, prev, nvcsw) + TASK_FIELD(direct, prev, nivcsw);
	ordered_add(&thread->begun, 1);
	if (thread->state == FLIGHT_UNSEEN)
		thread->since_ns = now_ns;
	else if (thread->state == FLIGHT_OFF)
		flight_gap(thread, thread->off_ns, now_ns);
	else if (thread->task != (__u64)prev || switches != thread->switches + 1)
		flight_gap(thread, thread->in_ns, now_ns);
	thread->task = (__u64)prev;
	thread->switches = switches;
	thread->state = FLIGHT_OFF;
	thread->off_ns = now_ns;
	thread->woken_ns = 0;
	thread->waker_tid = 0;
	thread->off_cpu = cpu_id;
	thread->reason = LOOPER_REASON_OTHER;
	thread->waiting = 0;
	if (state == OFF_CPU_RUNNABLE) {
		thread->syscall_nr = -1;
		if (is_throttled(prev))
			thread->reason = LOOPER_REASON_THROTTLED;
		flight_wait_for(thread, cpu, cpu_id, index, now_ns);
	} else if (is_frozen(prev, at->state_bits)) {
		state = OFF_CPU_STOPPED;
		thread->reason = LOOPER_REASON_FROZEN;
	} else {
		thread->reason = flight_reason(thread, prev, state, direct);
	}
	thread->off_state = state;
	if (state == OFF_CPU_DEAD)
		thread->dead = 1;
	ordered_add(&thread->ended, 1);
}

/* The task that comes. */
static __always_inline void flight_in(struct task_struct *next, __u32 tid, struct cpu_slot *cpu,
				      __u32 cpu_id, __u64 now_ns, __u64 rq_clock_ns, bool direct)
{
	struct flight_thread *thread;
	__u64 queued_ns, switches;
	__u32 index, flags = 0;

	thread = flight_of(tid, &index);
	if (!thread)
		return;
	ordered_add(&thread->begun, 1);
	thread->in_cpu = cpu_id;
	if (thread->state == FLIGHT_OFF) {
		/* The wake-up was not shown, or came before the switch-out that it belongs to was
		 * told: the kernel's own time of the queueing stands in. */
		if (!thread->woken_ns && thread->off_state != OFF_CPU_RUNNABLE) {
			queued_ns = TASK_FIELD(direct, next, sched_info.last_queued);
			if (queued_ns && rq_clock_ns >= queued_ns &&
			    rq_clock_ns - queued_ns <= now_ns - thread->off_ns) {
				thread->woken_ns = now_ns - (rq_clock_ns - queued_ns);
				flags = FLIGHT_QUEUED;
			}
		}
		switches = TASK_FIELD(direct, next, nvcsw) + TASK_FIELD(direct, next, nivcsw);
		if (thread->task != (__u64)next || switches != thread->switches) {
			thread->missed++;
			flags = FLIGHT_GAP;
			thread->switches = switches;
		}
		flight_put(thread, thread->off_ns, now_ns, flags);
	} else {
		if (thread->state == FLIGHT_UNSEEN)
			thread->since_ns = now_ns;
		else
			flight_gap(thread, thread->in_ns, now_ns);
		thread->switches =
			TASK_FIELD(direct, next, nvcsw) + TASK_FIELD(direct, next, nivcsw);
	}
	thread->task = (__u64)next;
	thread->state = FLIGHT_ON;
	thread->in_ns = now_ns;
	thread->waiting = 0;
	for (int i = 0; i < SCHED_MAX_WAITERS; i++)
		if (cpu->waiters[i] == (FLIGHT_MARK | (index + 1)))
			cpu->waiters[i] = 0;
	ordered_add(&thread->ended, 1);
}

/* prev leaves a CPU on which somebody waits: is it a watched thread? Then it had its turn. */
static __always_inline void flight_turn(struct cpu_slot *cpu, __u32 cpu_id,
					struct task_struct *prev, __u32 tid, __u64 now_ns,
					bool direct)
{
	struct flight_cpu *place = bpf_map_lookup_elem(&flight_cpus, &cpu_id);
	struct flight_thread *thread;
	struct flight_turn *turn;
	bool waited = false;
	__u64 since_ns;
	__u32 index;

	if (!place)
		return;
	for (int i = 0; i < SCHED_MAX_WAITERS; i++) {
		if (!(cpu->waiters[i] & FLIGHT_MARK))
			continue;
		index = (cpu->waiters[i] & (FLIGHT_MARK - 1)) - 1;
		thread = bpf_map_lookup_elem(&flight_threads, &index);
		/* It waits no more, or elsewhere by now. */
		if (!thread || !thread->waiting || thread->off_cpu != cpu_id)
			cpu->waiters[i] = 0;
		else
			waited = true;
	}
	since_ns = place->since_ns;
	place->since_ns = now_ns;
	if (!waited || !tid || now_ns <= since_ns)
		return;
	index = cpu_id * FLIGHT_TURNS + ((__u32)place->count & (FLIGHT_TURNS - 1));
	turn = bpf_map_lookup_elem(&flight_turns, &index);
	if (!turn)
		return;
	ordered_add(&turn->sequence, 1);
	turn->begin_ns = since_ns;
	turn->end_ns = now_ns;
	turn->tid = tid;
	turn->tgid = TASK_FIELD(direct, prev, tgid);
	copy_comm(turn->comm, prev, direct);
	ordered_add(&turn->sequence, 1);
	*(volatile __u64 *)&place->count += 1;
}
