/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps of the watched threads. sched.bpf.c makes them; looper.bpf.c is given the same ones. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/looper.h"
#include "loss.bpf.h"

/* Sized before load, for N threads that may be watched at a time; 1 of each where none is. Memory:
 * N x (slot 1,264 + stash 312 + about 80 of the hash) bytes, whole pages: 103 KiB for 64, 6.4 MiB
 * for 4,096; and the two rings, of which the one of events
 * grows with N (sched_kernel.c). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LOOPER_DEFAULT_WATCHED);
	__type(key, __u32);
	__type(value, struct looper_slot);
} looper_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LOOPER_DEFAULT_WATCHED);
	__type(key, __u32);
	__type(value, struct looper_registers);
} looper_stash SEC(".maps");

/* tid -> index of its slot. What the switch program finds in the task's own slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LOOPER_DEFAULT_WATCHED);
	__type(key, __u32);
	__type(value, __u32);
} looper_watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} looper_events SEC(".maps");

/* Only LOOPER_EVENT_BUSY, so that the process that samples takes them by itself. 300 parked threads
 * that start at once fill 17 KB; one that found no room wakes the sampler with its next period.
 * Whole pages, of which some kernels have 64 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} looper_wakes SEC(".maps");

DEFINE_LOSSES(looper_losses, LOOPER_LOSS_MAX);

static __always_inline struct looper_slot *looper_find(__u32 tid)
{
	__u32 *index = bpf_map_lookup_elem(&looper_watched, &tid);

	return index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
}

/* A uprobe program may be preempted by the switch program, which counts on the same CPU. */
static __always_inline void looper_loss(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&looper_losses, &reason);

	if (count)
		__sync_fetch_and_add(count, 1);
}
