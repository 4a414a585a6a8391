/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The flight recorder's part of the switch program: a ring of spells for each watched thread, and
 * for each CPU the turns of those who ran while one of them waited. Both are written under the
 * run-queue lock, by one CPU at a time, so that no position has to be claimed by an atomic that
 * kernels before 5.12 lack. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "bits.bpf.h"
#include "flight_maps.bpf.h"
#include "looper_switch.bpf.h"
#include "order.bpf.h"
#include "sched_maps.bpf.h"
#include "sched_view.bpf.h"

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
static __always_inline void flight_put(struct flight_thread *thread, __u64 in_ns)
{
	__u64 count = thread->count;
	__u32 key = thread->first + ((__u32)count & thread->mask);
	__u32 sequence = 2 * (__u32)(count >> (thread->order & 31)) + 1;
	struct flight_entry *entry = bpf_map_lookup_elem(&flight_entries, &key);

	if (!entry)
		return;
	ordered_set(&entry->sequence, sequence, 1);
	entry->off_ns = thread->off_ns;
	entry->woken_ns = thread->woken_ns;
	entry->in_ns = in_ns;
	entry->waker_tid = thread->waker_tid;
	entry->waker_tgid = thread->waker_tgid;
	entry->syscall_nr = thread->syscall_nr;
	((__u64 *)entry->waker_comm)[0] = ((__u64 *)thread->waker_comm)[0];
	((__u64 *)entry->waker_comm)[1] = ((__u64 *)thread->waker_comm)[1];
	entry->state = thread->off_state;
	entry->reason = thread->reason;
	entry->flags = thread->flags;
	entry->off_cpu = thread->off_cpu;
	entry->in_cpu = thread->in_cpu;
	ordered_set(&entry->sequence, sequence + 1, 1);
	thread->count = count + 1;
}

/* [from_ns, ...) is a spell of which nothing is known but that a switch in it was not shown. */
static __always_inline void flight_gap(struct flight_thread *thread, __u64 from_ns)
{
	thread->missed++;
	thread->off_ns = from_ns;
	thread->woken_ns = 0;
	thread->waker_tid = thread->waker_tgid = 0;
	thread->flags = FLIGHT_GAP;
}

/* How long what was measured of the two clocks is believed. NTP makes CLOCK_MONOTONIC faster or
 * slower than the other one by 500 in a million at most: half a microsecond. */
#define FLIGHT_CLOCK_NS 1000000ull
#define FLIGHT_SLEW     2000
/* So many measurements in a row are not held up: the clocks differ in their rates, as where
 * CLOCK_MONOTONIC is not made of what the scheduler's clock is made of. */
#define FLIGHT_CLOCK_HELD 2

struct flight_clock {
	__u64 now_ns;       /* CLOCK_MONOTONIC of when the kernel began this switch */
	__u64 uncharged_ns; /* time of interrupts and of the hypervisor so far, of this CPU: its
			       kernel charges them to nobody; and what flight_overdue() adds */
};

/* Whom the recorder is asked for, of the two tasks of a switch; and whether somebody waits for the
 * CPU. */
enum { FLIGHT_LEAVES = 1, FLIGHT_COMES = 2, FLIGHT_WAITS = 4 };

/* What the switch program passes on to the recorder, because it knows it already. */
struct flight_call {
	__u32 what;
	__u32 tid; /* of the task that leaves; 0: idle */
};

/* Clock and clock_task of the CPU's run queue, which lie one cache line apart. */
static __always_inline void flight_rq_clocks(const struct cpu_slot *cpu, struct task_struct *prev,
					     __u64 clocks[2], bool direct)
{
	__u32 apart = bpf_core_field_offset(struct rq, clock_task) -
		      bpf_core_field_offset(struct rq, clock);
	struct rq *rq = (struct rq *)cpu->rq;
	__u64 words[9] = {};

	if (direct) {
		clocks[0] = prev->se.cfs_rq->rq->clock;
		clocks[1] = prev->se.cfs_rq->rq->clock_task;
	} else if (apart <= sizeof(words) - 8) {
		bpf_probe_read_kernel(words, apart + 8,
				      (void *)rq + bpf_core_field_offset(struct rq, clock));
		clocks[0] = words[0];
		clocks[1] = *(__u64 *)((void *)words + apart);
	} else {
		clocks[0] = BPF_CORE_READ(rq, clock);
		clocks[1] = BPF_CORE_READ(rq, clock_task);
	}
}

/* Looks at the clock are this far apart in the mean, because one costs as much as all else at a
 * switch: two threads that wake each other are not looked at each time. */
#define FLIGHT_OVERDUE_NS 50000u
/* So many that were not made are made good, one behind the other: a switch that is asked for soon
 * behind another one is looked at. */
#define FLIGHT_OVERDUE_SAVED 64

/* A task that is to leave its CPU may be in the kernel for milliseconds more, where that is not
 * preempted, and the kernel takes the clock of when it asked for the switch (rq_clock_skip_update):
 * it charges the one that comes from then on. What the clock is behind is the leaving one's. */
static __always_inline void flight_overdue(struct cpu_slot *cpu, struct flight_clock *clock)
{
	__u32 since_ns = (__u32)clock->now_ns - cpu->overdue_ns;
	__s64 behind_ns;

	/* overdue_ns is ahead of the clock: what was saved is used up. */
	if (since_ns >= -2u * FLIGHT_OVERDUE_NS)
		return;
	behind_ns = bpf_ktime_get_ns() - clock->now_ns;
	if (behind_ns >= (__s64)FLIGHT_TURN_LEAST_NS) {
		clock->now_ns += behind_ns;
		clock->uncharged_ns += behind_ns;
	}
	if (since_ns > FLIGHT_OVERDUE_SAVED * FLIGHT_OVERDUE_NS)
		cpu->overdue_ns += since_ns - FLIGHT_OVERDUE_SAVED * FLIGHT_OVERDUE_NS;
	cpu->overdue_ns += FLIGHT_OVERDUE_NS;
}

/* prev: the task that leaves. The kernel has read its own clock at the begin of the switch, and
 * charges by it; what the clock of user space is ahead of it by is measured each millisecond,
 * because that reading costs more than all else here. A measurement that was held up by an
 * interrupt or the hypervisor is ahead by too much: the one before is believed then, and how much
 * it may have changed since. overdue: the kernel's clock may be that of before. */
static __always_inline void flight_clock(struct cpu_slot *cpu, struct task_struct *prev,
					 struct flight_clock *clock, bool overdue, bool direct)
{
	__u64 clocks[2] = {}, since_ns, offset_ns;

	clock->uncharged_ns = 0;
	if (!HAS_RQ_CLOCK || !cpu->rq) {
		clock->now_ns = bpf_ktime_get_ns();
		return;
	}
	flight_rq_clocks(cpu, prev, clocks, direct);
	clock->uncharged_ns = clocks[0] - clocks[1];
	since_ns = clocks[0] - cpu->clock_read_ns;
	if (unlikely(since_ns >= FLIGHT_CLOCK_NS << (overdue ? 3 : 0))) {
		offset_ns = bpf_ktime_get_ns() - clocks[0];
		if (since_ns < 64 * FLIGHT_CLOCK_NS && cpu->clock_held < FLIGHT_CLOCK_HELD &&
		    (__s64)(offset_ns - cpu->clock_offset_ns) > (__s64)(since_ns / FLIGHT_SLEW)) {
			offset_ns = cpu->clock_offset_ns + since_ns / FLIGHT_SLEW;
			cpu->clock_held++;
		} else {
			cpu->clock_held = 0;
		}
		cpu->clock_offset_ns = offset_ns;
		cpu->clock_read_ns = clocks[0];
	}
	clock->now_ns = clocks[0] + cpu->clock_offset_ns;
}

/* What the kernel keeps of a task that leaves or comes. */
struct flight_sums {
	__u64 arrivals; /* one more behind each arrival at a CPU; 0: the kernel counts none */
	__u64 delay_ns; /* run_delay */
	__u64 jobctl;
};

/* task: on cpu_id. From sched_info to jobctl it is one probe read where loads are not direct. */
static __always_inline bool flight_sums(struct task_struct *task, __u32 cpu_id,
					struct flight_sums *sums, bool direct)
{
	__u32 from = FIELD_AT(sched_info.pcount), delay = FIELD_AT(sched_info.run_delay) - from;
	__u32 jobctl = FIELD_AT(jobctl) - from, most = 8 * FAST_WORDS - 8;
	struct fast_cpu *fast = direct ? NULL : bpf_map_lookup_elem(&fast_cpus, &cpu_id);

	if (!direct && !fast)
		return false;
	if (!direct && delay <= most && jobctl <= most) {
		bpf_probe_read_kernel(fast->words, jobctl + 8, (void *)task + from);
		sums->arrivals = fast->words[0];
		sums->delay_ns = *(__u64 *)((void *)fast->words + delay);
		sums->jobctl = *(__u64 *)((void *)fast->words + jobctl);
	} else {
		sums->arrivals = TASK_FIELD(direct, task, sched_info.pcount);
		sums->delay_ns = TASK_FIELD(direct, task, sched_info.run_delay);
		sums->jobctl = TASK_FIELD(direct, task, jobctl);
	}
	return true;
}

/* The run that ends now, by the kernel's own sums, which were brought up to date before this
 * tracepoint: it began so long ago as it was charged and interrupted, which is before its switch-in
 * was told, because a CPU that idles counts from when the wake-up found it. A run whose
 * switch-in was not shown begins where the charge alone says. */
static __always_inline void flight_end_run(struct flight_thread *thread, __u64 now_ns, __u64 ran_ns,
					   __u64 delay_ns, __u64 uncharged_ns)
{
	__u64 in_ns = now_ns - ran_ns - uncharged_ns;

	/* The clocks of two CPUs are some 100 ns apart. */
	if ((__s64)(in_ns - thread->off_ns) < 0)
		in_ns = thread->off_ns;
	if ((__s64)(in_ns - thread->woken_ns) < 0)
		thread->woken_ns = in_ns;
	thread->charged_ns += ran_ns;
	thread->queued_ns += delay_ns;
	thread->uncharged_ns += uncharged_ns;
	/* The thread's wake-up was not shown, or the tracepoint of the wake-up ran before that of
	 * the switch-out. */
	if (!thread->woken_ns && thread->off_state != OFF_CPU_RUNNABLE &&
	    !(thread->flags & FLIGHT_GAP)) {
		thread->woken_ns =
			in_ns - thread->off_ns > delay_ns ? in_ns - delay_ns : thread->off_ns;
		thread->flags |= FLIGHT_QUEUED;
	}
	flight_put(thread, in_ns);
}

/* The number of the system call of prev, or -1. Without a probe read. */
static __always_inline __s32 flight_call_direct(struct task_struct *prev, __u32 *argument_1)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(prev);

#ifdef __TARGET_ARCH_x86
	if ((__u16)registers->cs == USER_CS_COMPAT)
		return -1;
	*argument_1 = (__u32)registers->si;
	return (__s32)registers->orig_ax;
#else
	*argument_1 = (__u32)registers->regs[1];
	return registers->syscallno;
#endif
}

static __always_inline __s32 flight_call(const __u64 *registers, __u32 *argument_1)
{
#ifdef __TARGET_ARCH_x86
	/* From the argument to cs: one read. */
	__u64 words[5] = {};

	if (bpf_probe_read_kernel(words, sizeof(words), registers + WORD_ARGUMENT_1) ||
	    (__u16)words[17 - WORD_ARGUMENT_1] == USER_CS_COMPAT)
		return -1;
	*argument_1 = (__u32)words[0];
	return (__s32)words[WORD_SYSCALL - WORD_ARGUMENT_1];
#else
	__u64 argument = 0;
	__s32 nr = -1;

	bpf_probe_read_kernel(&nr, sizeof(nr), registers + WORD_SYSCALL);
	bpf_probe_read_kernel(&argument, sizeof(argument), registers + WORD_ARGUMENT_1);
	*argument_1 = (__u32)argument;
	return nr;
#endif
}

/* A task keeps its stack. */
static __always_inline const __u64 *flight_registers(struct flight_thread *thread,
						     struct task_struct *prev, bool direct)
{
	if (thread->task != (__u64)prev || !thread->registers)
		thread->registers = (__u64)task_registers(prev, direct);
	return (const __u64 *)thread->registers;
}

/* Which system call prev sleeps in: looper_switch.bpf.h says how a restarted one is taken. Only the
 * words that tell the reason are read. */
static __always_inline __u32 flight_reason(struct flight_thread *thread, struct task_struct *prev,
					   __u32 state, bool direct)
{
	__u32 argument_1 = 0;
	__s32 nr = -1;

	if (direct && bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		nr = flight_call_direct(prev, &argument_1);
	else
		nr = flight_call(flight_registers(thread, prev, direct), &argument_1);
	if (nr == NR_RESTART_SYSCALL && thread->last_nr >= 0)
		nr = thread->last_nr;
	else if (nr >= 0)
		thread->last_nr = nr;
	thread->syscall_nr = nr;
	return reason_of_sleep(state, nr, argument_1);
}

/* What came before this switch-out. A switch that was not shown makes a gap and no guess, but for
 * one that came and went: whose time on the CPU the kernel's sum says. */
static __always_inline void flight_book(struct flight_thread *thread, struct task_struct *prev,
					const struct flight_sums *sums, __u32 cpu_id, __u64 now_ns,
					__u64 uncharged_ns, bool direct)
{
	__u64 cpu_ns = TASK_FIELD(direct, prev, se.sum_exec_runtime);
	__u64 arrivals = sums->arrivals - thread->arrivals;
	/* Since 4e29fb709885 (5.14) the arrival of a task that was preempted on its way to sleep is
	 * not counted. */
	bool whole = thread->task == (__u64)prev &&
		     (arrivals == 1 ||
		      (!arrivals && (!sums->arrivals || thread->off_state == OFF_CPU_RUNNABLE)));

	if (thread->state == FLIGHT_UNSEEN) {
		thread->since_ns = now_ns;
	} else if (!thread->off_ns && whole) {
		/* It was on a CPU when it was first seen. */
	} else if (whole) {
		if (thread->state == FLIGHT_ON) {
			uncharged_ns -= thread->in_uncharged_ns;
		} else {
			uncharged_ns = 0;
			thread->placed++;
			thread->flags |= FLIGHT_PLACED;
			thread->in_cpu = cpu_id;
		}
		flight_end_run(thread, now_ns, cpu_ns - thread->cpu_ns,
			       sums->delay_ns - thread->delay_ns, uncharged_ns);
	} else {
		/* Before its arrival or behind it, which is not known: the arrival reads no count.
		 */
		flight_gap(thread, thread->off_ns ?: thread->in_ns);
		flight_put(thread, now_ns);
	}
	thread->arrivals = sums->arrivals;
	thread->cpu_ns = cpu_ns;
	thread->delay_ns = sums->delay_ns;
}

/* The task that leaves. */
static __always_inline void flight_out(struct task_struct *prev, __u32 tid, struct cpu_slot *cpu,
				       __u32 cpu_id, __u32 state_bits, bool preempted,
				       const struct flight_clock *clock, bool direct)
{
	__u32 index, state = off_state_of(state_bits, preempted);
	__u64 now_ns = clock->now_ns;
	struct flight_thread *thread;
	struct flight_sums sums;

	thread = flight_of(tid, &index);
	if (!thread || !flight_sums(prev, cpu_id, &sums, direct))
		return;
	ordered_add(&thread->begun, 1);
	flight_book(thread, prev, &sums, cpu_id, now_ns, clock->uncharged_ns, direct);
	thread->state = FLIGHT_OFF;
	thread->off_ns = now_ns;
	thread->woken_ns = 0;
	thread->waker_tid = thread->waker_tgid = 0;
	thread->flags = 0;
	thread->off_cpu = cpu_id;
	thread->reason = LOOPER_REASON_OTHER;
	thread->waiting = 0;
	if (state == OFF_CPU_RUNNABLE) {
		thread->syscall_nr = -1;
		if (is_throttled(prev, direct))
			thread->reason = LOOPER_REASON_THROTTLED;
		flight_wait_for(thread, cpu, cpu_id, index, now_ns);
	} else if (state_bits & (TASK_FROZEN_BIT | TASK_UNINTERRUPTIBLE_BIT)
			   ? is_frozen(prev, state_bits, direct)
			   : sums.jobctl & JOBCTL_TRAP_FREEZE_BIT) {
		state = OFF_CPU_STOPPED;
		thread->reason = LOOPER_REASON_FROZEN;
	} else {
		thread->reason = flight_reason(thread, prev, state, direct);
	}
	thread->off_state = state;
	thread->task = (__u64)prev;
	if (state == OFF_CPU_DEAD)
		thread->dead = 1;
	ordered_add(&thread->ended, 1);
}

static __always_inline void flight_wait_ends(struct cpu_slot *cpu, __u32 index)
{
	cpu->flight_waiting[index / 64 % (FLIGHT_THREADS / 64)] &= ~(1ull << index % 64);
	cpu->flight_waits = (cpu->flight_waiting[0] | cpu->flight_waiting[1]) != 0;
}

/* The task that comes. */
static __always_inline void flight_in(struct task_struct *next, __u32 tid, struct cpu_slot *cpu,
				      __u32 cpu_id, const struct flight_clock *clock, bool direct)
{
	__u64 now_ns = clock->now_ns;
	struct flight_thread *thread;
	struct flight_sums sums;
	__u32 index;

	thread = flight_of(tid, &index);
	if (!thread)
		return;
	ordered_add(&thread->begun, 1);
	if (thread->state == FLIGHT_UNSEEN) {
		thread->since_ns = now_ns;
	} else if (thread->state == FLIGHT_ON) {
		if (thread->off_ns)
			flight_put(thread, thread->in_ns);
		flight_gap(thread, thread->in_ns);
	} else if (thread->task != (__u64)next) {
		flight_gap(thread, thread->off_ns);
	}
	/* The sum of the waits has no more than the last switch-out's yet: the kernel adds this one
	 * behind the tracepoint. */
	if (!thread->off_ns || (thread->flags & FLIGHT_GAP)) {
		if (!flight_sums(next, cpu_id, &sums, direct))
			sums.arrivals = sums.delay_ns = 0;
		thread->arrivals = sums.arrivals;
		thread->cpu_ns = TASK_FIELD(direct, next, se.sum_exec_runtime);
		thread->delay_ns = sums.delay_ns;
	}
	if (thread->task != (__u64)next)
		thread->registers = 0;
	thread->task = (__u64)next;
	thread->state = FLIGHT_ON;
	thread->in_ns = now_ns;
	thread->in_cpu = cpu_id;
	thread->in_uncharged_ns = clock->uncharged_ns;
	thread->waiting = 0;
	if (cpu->flight_waits)
		flight_wait_ends(cpu, index);
	ordered_add(&thread->ended, 1);
}

/* How many threads that were moved elsewhere are found at a switch; one more than those makes a
 * turn that nobody asks for. */
#define FLIGHT_STALE 4

/* Let those be forgotten who wait here no more. */
static __always_inline void flight_forget_moved(struct cpu_slot *cpu, __u32 cpu_id)
{
	struct flight_thread *thread;
	__u32 index;

	for (int i = 0; i < FLIGHT_STALE; i++) {
		if (cpu->flight_waiting[0])
			index = first_bit(cpu->flight_waiting[0]);
		else if (cpu->flight_waiting[1])
			index = 64 + first_bit(cpu->flight_waiting[1]);
		else
			break;
		thread = bpf_map_lookup_elem(&flight_threads, &index);
		if (thread && thread->waiting && thread->off_cpu == cpu_id)
			break;
		flight_wait_ends(cpu, index);
	}
}

/* prev leaves a CPU on which somebody waits, or waited until another CPU took it: prev had its
 * turn. */
static __always_inline void flight_turn(struct cpu_slot *cpu, __u32 cpu_id,
					struct task_struct *prev, __u32 tid, __u64 now_ns,
					bool direct)
{
	__u64 since_ns = cpu->flight_since_ns;
	struct flight_turn *turn;
	__u32 key;

	cpu->flight_since_ns = now_ns;
	flight_forget_moved(cpu, cpu_id);
	if (!tid || now_ns < since_ns + FLIGHT_TURN_LEAST_NS)
		return;
	key = cpu_id * FLIGHT_TURNS + ((__u32)cpu->flight_turns & (FLIGHT_TURNS - 1));
	turn = bpf_map_lookup_elem(&flight_turns, &key);
	if (!turn)
		return;
	ordered_add(&turn->sequence, 1);
	turn->begin_ns = since_ns;
	turn->end_ns = now_ns;
	turn->tid = tid;
	turn->tgid = TASK_FIELD(direct, prev, tgid);
	copy_comm(turn->comm, prev, direct);
	ordered_add(&turn->sequence, 1);
	*(volatile __u64 *)&cpu->flight_turns += 1;
}

/* What the recorder does at a switch, behind all else of the program. */
static __always_inline void flight_switch(struct cpu_slot *cpu, __u32 cpu_id,
					  struct task_struct *prev, struct task_struct *next,
					  const struct flight_call *call, __u32 state_bits,
					  bool preempted, bool direct)
{
	struct flight_clock clock;
	bool overdue;

	overdue = call->tid && (call->what & FLIGHT_COMES || cpu->flight_waits) &&
		  off_state_of(state_bits, preempted) == OFF_CPU_RUNNABLE;
	flight_clock(cpu, prev, &clock, overdue, direct);
	if (overdue)
		flight_overdue(cpu, &clock);
	if (cpu->flight_waits)
		flight_turn(cpu, cpu_id, prev, call->tid, clock.now_ns, direct);
	if (call->what & FLIGHT_LEAVES)
		flight_out(prev, call->tid, cpu, cpu_id, state_bits, preempted, &clock, direct);
	if (call->what & FLIGHT_COMES)
		flight_in(next, cpu->tid, cpu, cpu_id, &clock, direct);
}
