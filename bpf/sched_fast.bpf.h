/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The switch that nearly all switches are: both tasks are as their slots have them, and the one
 * that leaves is preempted or sleeps. Everything is checked before anything is written; where one
 * check fails nothing has happened, and sched.bpf.c goes the whole way. There is no call to a part
 * here but the probe reads, so that the values stay in registers. */
#pragma once
#include "sched_slot.bpf.h"

/* From run_delay to start_boottime, which takes 552 bytes on 6.18 x86_64 and 608 on 5.10 arm64: a
 * byte of a probe read costs 0.05 ns, and another read 30 to 40. */
#define FAST_SPAN_BYTES 640
/* Before 5.18: from state to sum_exec_runtime, 240 bytes on 5.10 arm64. */
#define FAST_HEAD_BYTES 320
#define FAST_RECENT     64
/* How kernel threads wait for work. */
#define FAST_TASK_IDLE (TASK_UNINTERRUPTIBLE_BIT | TASK_NOLOAD_BIT)

/* What the program without direct loads keeps for each CPU: the copies, and the tids of tasks that
 * came lately, found by the task's address and believed where the slot of the tid has that address
 * too. */
struct fast_cpu {
	char span[FAST_SPAN_BYTES];
	char head[FAST_HEAD_BYTES];
	__u32 recent[FAST_RECENT];
	__u32 idle_hash; /* task_hash_of the CPU's idle task; 0: not seen yet */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs, where loads are not direct */
	__type(key, __u32);
	__type(value, struct fast_cpu);
} fast_cpus SEC(".maps");

/* Set before load: the fields lie in this order and in these bounds (sched_layout.c). */
const volatile bool has_fast_layout = true;

#define SPAN_FROM         FIELD_AT(sched_info.run_delay)
#define SPAN(type, field) (*(type *)(fast->span + (FIELD_AT(field) - SPAN_FROM)))
#define HEAD_FROM                                                  \
	(bpf_core_field_exists(((struct task_struct *)0)->__state) \
		 ? FIELD_AT(__state)                               \
		 : bpf_core_field_offset(struct task_struct___before_5_14, state))

/* Copies what is needed of the task that leaves, by two reads. */
static __always_inline bool fast_copy(const struct task_struct *prev, struct fast_cpu *fast)
{
	__u32 sum = FIELD_AT(se.sum_exec_runtime), from = has_prev_state ? sum : HEAD_FROM;

	return !bpf_probe_read_kernel(fast->span, FIELD_AT(start_boottime) + 8 - SPAN_FROM,
				      (const void *)prev + SPAN_FROM) &&
	       !bpf_probe_read_kernel(fast->head, sum + 8 - from, (const void *)prev + from);
}

static __always_inline __u64 head_sum(const struct fast_cpu *fast)
{
	if (has_prev_state)
		return *(const __u64 *)fast->head;
	return *(const __u64 *)(fast->head + (FIELD_AT(se.sum_exec_runtime) - HEAD_FROM));
}

/* Of the task that leaves. */
#define SEEN(type, field) (direct ? (type)prev->field : SPAN(type, field))

/* Who comes, without a probe read if it came lately. ids->tgid is 0 where its slot has it. */
static __always_inline void fast_ids(__u64 next, struct fast_cpu *fast, struct task_ids *ids)
{
	__u32 hash = task_hash_of(next), *recent;
	struct task_slot *slot;

	ids->tid = ids->tgid = 0;
	if (hash == fast->idle_hash)
		return;
	recent = &fast->recent[(hash ^ hash >> 7) & (FAST_RECENT - 1)];
	ids->tid = *recent;
	slot = bpf_map_lookup_elem(&tasks, &ids->tid);
	if (slot && slot->task_hash == hash && !(slot->flags & TASK_SLOT_DEAD))
		return;
	read_ids((struct task_struct *)next, ids, false);
	if (ids->tid)
		*recent = ids->tid;
	else
		fast->idle_hash = hash;
}

/* Its own run queue's, as rq_clock_of says, but by one read: the CPU's queue is known. */
static __always_inline __u64 fast_clock(const struct cpu_slot *cpu, struct task_struct *prev,
					bool direct)
{
	struct rq *rq = (struct rq *)cpu->rq;

	return direct ? prev->se.cfs_rq->rq->clock : BPF_CORE_READ(rq, clock);
}

static __always_inline bool is_watched(__u32 tid)
{
	struct task_slot *slot = bpf_map_lookup_elem(&tasks, &tid);

	return !slot || slot->watch;
}

/* Looks at what leaves: false if it is not of the common kind. */
static __always_inline bool is_common(const struct task_slot *slot, struct task_struct *prev,
				      const struct fast_cpu *fast, bool direct)
{
	__u32 marks = *(volatile __u32 *)&slot->watch;

	if (slot->start_boot_ns != SEEN(__u64, start_boottime) || slot->epoch != read_epoch ||
	    (!direct && slot->task_hash != task_hash_of((__u64)prev)))
		return false;
	/* watch, off_state and flags in one: nobody watches it, and it was neither dead nor in a
	 * state that is timed. */
	if (marks != (__u32)OFF_CPU_SLEEPING << 16 && marks != (__u32)OFF_CPU_RUNNABLE << 16)
		return false;
	return !watch_uids ||
	       slot->uid == (direct ? task_uid(prev, true) : (__u32)bpf_get_current_uid_gid());
}

/* ctx: the tracepoint's arguments. True: it was such a switch, and is booked. */
static __always_inline bool switch_fast(__u64 *ctx, bool direct)
{
	__u32 cpu_id = bpf_get_smp_processor_id(), tid, coming, key, state = 0, sequence;
	struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);
	struct task_struct *prev = (struct task_struct *)ctx[1], *next;
	struct task_slot *slot = NULL;
	struct fast_cpu *fast = NULL;
	struct task_ids ids;
	__u32 off_state = OFF_CPU_RUNNABLE;
	__u64 now_ns;

	if (!HAS_RQ_CLOCK || !cpu || (!direct && !has_fast_layout))
		return false;
	if (direct) {
		tid = prev->pid;
	} else {
		fast = bpf_map_lookup_elem(&fast_cpus, &cpu_id);
		if (!fast || cpu->task != (__u64)prev)
			return false;
		tid = cpu->tid;
		if (tid) {
			if (!fast_copy(prev, fast))
				return false;
			tid = SPAN(__u32, pid);
		}
	}
	/* It came here under this tid, and the CPU is not seen for the first time. */
	if (cpu->tid != tid || !cpu->rq)
		return false;
	if (tid) {
		key = tid;
		slot = bpf_map_lookup_elem(&tasks, &key);
		if (!slot || !is_common(slot, prev, fast, direct))
			return false;
		if (!ctx[0]) {
			if (has_prev_state)
				state = ctx[3];
			else
				state = direct ? task_state(prev, true) : *(__u32 *)fast->head;
			if (state > TASK_INTERRUPTIBLE_BIT && state != FAST_TASK_IDLE)
				return false;
			if (state)
				off_state = OFF_CPU_SLEEPING;
		}
	}
	next = (struct task_struct *)ctx[2];
	if (direct)
		read_ids(next, &ids, true);
	else
		fast_ids((__u64)next, fast, &ids);
	coming = ids.tid;
	if (!direct && is_hashed(coming))
		return false;
	if (watch_loopers && (*(__u64 *)cpu->waiters || (coming && is_watched(coming))))
		return false;

	if (slot && coming) {
		ordered_add(&cpu->sequence, 1); /* odd: being written */
	} else {
		now_ns = fast_clock(cpu, prev, direct);
		ordered_add(&cpu->sequence, 1);
		if (!slot)
			cpu->idle_ns += now_ns - cpu->since_ns;
		cpu->since_ns = now_ns;
	}
	cpu->tid = coming;
	cpu->tgid = ids.tgid;
	cpu->in_cpu_ns = direct ? next->se.sum_exec_runtime : SCHED_SUM_UNKNOWN;
	cpu->task = (__u64)next;
	ordered_add(&cpu->sequence, 1);
	if (!slot)
		return true;
	sequence = slot_begin(slot);
	slot->cpu_ns = direct ? prev->se.sum_exec_runtime : head_sum(fast);
	slot->runnable_ns = SEEN(__u64, sched_info.run_delay);
	slot->switches_voluntary = SEEN(__u64, nvcsw);
	slot->switches_involuntary = SEEN(__u64, nivcsw);
	slot->off_state = off_state;
	slot_end(slot, sequence);
	return true;
}
