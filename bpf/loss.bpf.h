/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Every failed insert is counted: a per-CPU array, summed by the reader at each interval. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define DEFINE_LOSSES(name, max)                         \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
		__uint(max_entries, max);                \
		__type(key, __u32);                      \
		__type(value, __u64);                    \
	} name SEC(".maps")

static __always_inline void loss_add(void *losses, __u32 reason, __u64 amount)
{
	__u64 *count = bpf_map_lookup_elem(losses, &reason);

	/* Per CPU and not from interrupts that nest in the same program: no atomic needed. */
	if (count)
		*count += amount;
}
