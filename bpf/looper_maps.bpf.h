/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps of the watched main threads. sched.bpf.c makes them; looper.bpf.c is given the same ones. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/looper.h"
#include "loss.bpf.h"

/* 1 of each where nothing is watched, set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LOOPER_MAX_WATCHED);
	__type(key, __u32);
	__type(value, struct looper_slot);
} looper_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LOOPER_MAX_WATCHED);
	__type(key, __u32);
	__type(value, struct looper_registers);
} looper_stash SEC(".maps");

/* tid -> index of its slot. What the switch program finds in the task's own slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LOOPER_MAX_WATCHED);
	__type(key, __u32);
	__type(value, __u32);
} looper_watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} looper_events SEC(".maps");

DEFINE_LOSSES(looper_losses, LOOPER_LOSS_MAX);

static __always_inline struct looper_slot *looper_find(__u32 tid)
{
	__u32 *index = bpf_map_lookup_elem(&looper_watched, &tid);

	return index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
}
