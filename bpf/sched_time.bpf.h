/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where the tasks of watched processes ran: on which CPU, and at which frequency, as AOSP's
 * time_in_state program counts it (system/bpfprogs timeInState.c): a slice belongs to the frequency
 * that the CPU has. A slice amid which the frequency changed is split here, where AOSP's program
 * gives all of it to the last one. Nothing of this is in the program unless a target is watched,
 * and a task that is not watched costs one test of a bit that is loaded anyway. */
#pragma once
#include "abi/flight.h"
#include "order.bpf.h"
#include "sched_maps.bpf.h"

const volatile bool split_time;
const volatile __u32 time_words; /* of a row */

/* How many watched processes have these low bits: nearly all others are told apart by one load. */
#define TIME_FILTER 4096
__u32 time_filter[TIME_FILTER];

/* Processes that are watched: tgid -> 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} time_watched SEC(".maps");

/* struct task_time. Memory: TIME_ROWS x (64 + 8 x words) bytes; of a phone with 8 CPUs and 60
 * frequencies 630 KiB. No types: the size of a value is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct task_time) + 8);
} task_times SEC(".maps");

/* Whose a row is: two CPUs may want the same one, and kernels before 5.12 have no
 * compare-and-exchange; the hash has its own lock. Row -> tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} time_claims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs */
	__type(key, __u32);
	__type(value, struct cpu_frequency);
} cpu_frequencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frequency_key);
	__type(value, __u32);
} frequency_steps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* clusters x FLIGHT_CHANGES, where the flight recorder runs */
	__type(key, __u32);
	__type(value, struct flight_change);
} flight_changes SEC(".maps");

/* Neighbouring tids are threads of one process: their rows lie side by side, and the other ways far
 * from there. */
static __always_inline __u32 time_row(__u32 tid, __u32 way)
{
	return (tid + way * 257) & (TIME_ROWS - 1);
}

static __always_inline struct task_time *find_time(__u32 tid)
{
	struct task_time *row;
	__u32 key, way;

#pragma unroll
	for (way = 0; way < TIME_WAYS; way++) {
		key = time_row(tid, way);
		row = bpf_map_lookup_elem(&task_times, &key);
		if (row && row->tid == tid && !row->dead)
			return row;
	}
	return NULL;
}

static __always_inline void add_time(struct task_time *row, __u32 word, __u64 ns)
{
	if (word < time_words)
		row->words[word] += ns;
}

/* Read anew for each word: what the verifier concludes of one sum must not tell the next one's
 * range, or it follows each of them by itself. */
#define BASE(frequency) (*(volatile __u32 *)&(frequency)->base)

/* The CPU's frequency changed amid the slice. What lies before the first change is what remains, so
 * that the parts are the whole. */
static __always_inline void split_slice(struct task_time *row, struct cpu_frequency *frequency,
					__u64 left_ns)
{
	__u64 now_ns = bpf_ktime_get_ns(), part_ns = now_ns - frequency->changed_ns;
	__u32 step;

	if (part_ns > left_ns)
		part_ns = left_ns;
	add_time(row, BASE(frequency) + frequency->step, part_ns);
	left_ns -= part_ns;
	for (step = 0; step < TIME_MAX_STEPS; step++) {
		part_ns = frequency->step_ns[step];
		if (!part_ns)
			continue;
		if (part_ns > left_ns)
			part_ns = left_ns;
		add_time(row, BASE(frequency) + step, part_ns);
		left_ns -= part_ns;
	}
	add_time(row, BASE(frequency) + frequency->first, left_ns);
}

/* The functions that are not static take numbers alone: the verifier looks at each of them once,
 * and not at each way that leads to it. */

/* What the task ran from the end of its words to its arrival here was where its row says, but for
 * what was not shown. */
static __always_inline void add_before(struct task_time *row, __u64 in_cpu_ns)
{
	__u32 place = row->place, cpu = TIME_PLACE_CPU(place);
	struct cpu_frequency *frequency = bpf_map_lookup_elem(&cpu_frequencies, &cpu);
	__u64 ns = in_cpu_ns - row->until_ns, left_ns = row->left_ns;

	if (!(place & TIME_PLACED) || !frequency) {
		row->unseen_ns += ns;
		return;
	}
	if (place & TIME_LEFT_UNSEEN && left_ns >= row->until_ns && left_ns < in_cpu_ns) {
		row->unseen_ns += in_cpu_ns - left_ns;
		ns = left_ns - row->until_ns;
	}
	add_time(row, cpu, ns);
	add_time(row, BASE(frequency) + TIME_PLACE_STEP(place), ns);
}

static __always_inline __u32 place_here(const struct cpu_frequency *frequency, __u32 cpu)
{
	return TIME_PLACED | *(volatile __u32 *)&frequency->step << 16 | cpu;
}

/* A slice of a watched task is over, on this CPU: its sum before and behind it. slice: sequence of
 * the CPU's slot while it ran. */
__noinline int book_time(__u32 tid, __u64 in_cpu_ns, __u64 cpu_ns, __u32 slice)
{
	__u32 cpu = bpf_get_smp_processor_id(), place;
	struct cpu_frequency *frequency = bpf_map_lookup_elem(&cpu_frequencies, &cpu);
	struct task_time *row = find_time(tid);
	__u64 until_ns, slice_ns;

	if (!row || !frequency)
		return 0;
	until_ns = row->until_ns;
	if (in_cpu_ns < until_ns)
		in_cpu_ns = until_ns;
	if (cpu_ns <= until_ns)
		return 0;
	if (in_cpu_ns > cpu_ns)
		in_cpu_ns = cpu_ns;
	slice_ns = cpu_ns - in_cpu_ns;
	if (in_cpu_ns != until_ns)
		add_before(row, in_cpu_ns);
	place = place_here(frequency, cpu);
	add_time(row, cpu, slice_ns);
	if (unlikely(frequency->slice == slice))
		split_slice(row, frequency, slice_ns);
	else
		add_time(row, BASE(frequency) + TIME_PLACE_STEP(place), slice_ns);
	*(volatile __u32 *)&row->place = place;
	*(volatile __u64 *)&row->until_ns = cpu_ns;
	return 0;
}

/* The slice that nearly all are: the task has the first of its rows, its last slice was here and at
 * this frequency too, and that did not change. Then nothing is written. */
static __always_inline bool is_same_place(__u32 tid, __u32 slice)
{
	__u32 cpu = bpf_get_smp_processor_id(), key = time_row(tid, 0);
	struct cpu_frequency *frequency = bpf_map_lookup_elem(&cpu_frequencies, &cpu);
	struct task_time *row = bpf_map_lookup_elem(&task_times, &key);

	return row && frequency && row->tid == tid && !row->dead &&
	       row->place == place_here(frequency, cpu) && frequency->slice != slice;
}

/* The task left its CPU unseen, to which it had come with that sum. Where another CPU has booked a
 * slice of it since, the words are beyond that sum, and have that time at the place before. */
__noinline int leave_unseen(__u32 tid, __u64 in_cpu_ns)
{
	struct task_time *row = find_time(tid);

	if (!row || row->place & TIME_LEFT_UNSEEN || in_cpu_ns < row->until_ns)
		return 0;
	row->left_ns = in_cpu_ns;
	row->place |= TIME_LEFT_UNSEEN;
	return 0;
}

/* For the reader, who tells the time since until_ns by it. */
__noinline int note_time(__u32 tid, __u64 start_boot_ns, __u64 cpu_ns)
{
	struct task_time *row = find_time(tid);

	if (row && row->start_boot_ns == start_boot_ns)
		row->read_ns = cpu_ns;
	return row != NULL;
}

/* 1: the task has a row. */
__noinline int claim_time(__u32 tid, __u32 tgid, __u64 start_boot_ns, __u64 in_cpu_ns)
{
	struct task_time *row;
	__u32 key, way;

	if (!bpf_map_lookup_elem(&time_watched, &tgid))
		return 0;
	row = find_time(tid);
	if (row && row->start_boot_ns == start_boot_ns)
		return 1;
	/* Its death was not shown: the tid has a new owner. */
	if (row)
		row->dead = 1;
#pragma unroll
	for (way = 0; way < TIME_WAYS; way++) {
		key = time_row(tid, way);
		row = bpf_map_lookup_elem(&task_times, &key);
		if (!row || row->tid || bpf_map_update_elem(&time_claims, &key, &tid, BPF_NOEXIST))
			continue;
		row->start_boot_ns = start_boot_ns;
		row->begin_ns = in_cpu_ns;
		row->until_ns = in_cpu_ns;
		row->place = 0;
		row->read_ns = 0;
		row->dead = 0;
		row->tid = tid;
		return 1;
	}
	loss_add(&losses, SCHED_LOSS_TIME_ROWS_FULL, 1);
	return 0;
}

/* The task is dead, or its row has other sums than it. 0: it has no row. */
__noinline int end_time(__u32 tid)
{
	struct task_time *row = find_time(tid);

	if (row)
		row->dead = 1;
	return row != NULL;
}

__noinline int has_time(__u32 tid)
{
	return find_time(tid) != NULL;
}

/* The whole way of a switch: slot has the sums behind the slice. Only here a task gets its row, at
 * its first switch and at the first one after each read-out. */
static __always_inline void time_slice(struct task_slot *slot, __u32 tid, __u64 in_cpu_ns,
				       __u32 slice)
{
	if (!(slot->flags & TASK_SLOT_TIMED)) {
		if (!claim_time(tid, slot->tgid, slot->start_boot_ns, in_cpu_ns))
			return;
		slot->flags |= TASK_SLOT_TIMED;
	}
	book_time(tid, in_cpu_ns, slot->sums.cpu_ns, slice);
	if (slot->off_state == OFF_CPU_DEAD)
		end_time(tid);
	else if (!has_time(tid))
		slot->flags &= ~TASK_SLOT_TIMED; /* the reader gave the row to another task */
}

/* For the flight recorder, which asks later at which frequency a run was. */
static __always_inline void log_change(struct cpu_frequency *frequency, __u32 khz, __u64 now_ns)
{
	__u32 key = (frequency->log - 1) * FLIGHT_CHANGES +
		    ((__u32)frequency->changes & (FLIGHT_CHANGES - 1));
	struct flight_change *change = bpf_map_lookup_elem(&flight_changes, &key);

	if (!change || frequency->khz == khz)
		return;
	ordered_add(&change->sequence, 1);
	change->since_ns = now_ns;
	change->khz = khz;
	ordered_add(&change->sequence, 1);
	frequency->khz = khz;
	*(volatile __u64 *)&frequency->changes += 1;
}

/* Of each CPU of the cluster in turn, also where it idles. */
SEC("?raw_tp/cpu_frequency")
int sched_frequency(struct bpf_raw_tracepoint_args *ctx)
{
	struct frequency_key key = {.khz = ctx->args[0]};
	__u32 cpu = ctx->args[1], slice, step = 0, *found;
	struct cpu_frequency *frequency = bpf_map_lookup_elem(&cpu_frequencies, &cpu);
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!frequency || !slot || frequency->base == TIME_NO_STEPS)
		return 0;
	if (watch_flight && frequency->log)
		log_change(frequency, key.khz, now_ns);
	key.base = frequency->base;
	found = bpf_map_lookup_elem(&frequency_steps, &key);
	if (found)
		step = *found;
	else
		frequency->unlisted++;
	if (step == frequency->step || step >= TIME_MAX_STEPS)
		return 0;
	/* Amid a switch it is the next slice that begins with the new frequency. */
	slice = (*(volatile __u32 *)&slot->sequence + 1) & ~1u;
	if (frequency->slice != slice) {
		*(volatile __u32 *)&frequency->slice = 1;
		__builtin_memset(frequency->step_ns, 0, sizeof(frequency->step_ns));
		frequency->first = frequency->step;
	} else {
		frequency->step_ns[frequency->step & (TIME_MAX_STEPS - 1)] +=
			now_ns - frequency->changed_ns;
	}
	frequency->changed_ns = now_ns;
	frequency->step = step;
	*(volatile __u32 *)&frequency->slice = slice;
	return 0;
}
