/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps of the flight recorder. sched.bpf.c makes them; looper.bpf.c is given the same ones. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/flight.h"
#include "abi/sched.h"

/* Sized before load; 1 of each where nothing is recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flight_thread);
} flight_threads SEC(".maps");

/* tid -> index of its row of flight_threads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} flight_watched SEC(".maps");

/* By the low bits of the tid: index + 1 of a watched thread that has them; 0: none has. A hash
 * costs a switch three cache lines more. Each object has its own. */
__u8 flight_near[FLIGHT_NEAR];

static __always_inline __u8 flight_near_of(__u32 tid)
{
	return flight_near[tid & (FLIGHT_NEAR - 1)];
}

static __always_inline struct flight_thread *flight_of(__u32 tid, __u32 *index)
{
	struct flight_thread *thread;
	__u32 *found, near = flight_near_of(tid);

	if (!near)
		return NULL;
	*index = near - 1;
	thread = bpf_map_lookup_elem(&flight_threads, index);
	if (thread && thread->tid != tid) {
		found = bpf_map_lookup_elem(&flight_watched, &tid);
		if (!found)
			return NULL;
		*index = *found;
		thread = bpf_map_lookup_elem(&flight_threads, found);
	}
	return thread && thread->tid == tid && !thread->dead ? thread : NULL;
}

/* The thread waits for this CPU from now on: who runs there has its turn told. Under the CPU's
 * run-queue lock. */
static __always_inline void flight_wait_for(struct flight_thread *thread, struct cpu_slot *cpu,
					    __u32 cpu_id, __u32 index, __u64 now_ns)
{
	thread->off_cpu = cpu_id;
	thread->waiting = 1;
	/* While somebody waits each switch of the CPU writes it. */
	if (!cpu->flight_waits)
		cpu->flight_since_ns = now_ns;
	cpu->flight_waits = 1;
	cpu->flight_waiting[index / 64 % (FLIGHT_THREADS / 64)] |= 1ull << index % 64;
}
