/* SPDX-License-Identifier: BSD-2-Clause */
/* When KOOM would call a process short of something, from the outside: its trackers FdOOMTracker
 * and ThreadOOMTracker with the limits of OOMMonitorConfig, every 15 s, three hits in a row. KOOM
 * has a limit of address space, too, that matters to 32-bit processes. */
#pragma once
#include <stdbool.h>

#include "jankscope/record.h"

#define KOOM_EVERY_NS  15000000000ull
#define KOOM_HITS      3
#define KOOM_FDS       1000
#define KOOM_THREADS   750 /* 450 on EMUI up to Android 8 */
#define KOOM_VSS_BYTES 3650000000ull
/* A count that falls by more than this between two looks begins anew. */
#define KOOM_GAP 50

enum koom_limit { KOOM_LIMIT_FDS, KOOM_LIMIT_THREADS, KOOM_LIMIT_VSS, KOOM_LIMITS };

/* Of one process; begins as 0. */
struct koom {
	uint64_t last[KOOM_LIMITS];
	unsigned hits[KOOM_LIMITS];
};

/* What the process has at one of the looks, which are KOOM_EVERY_NS apart; what is absent ends its
 * row of hits. The limits that it has been over for three looks, as bits 1 << enum koom_limit. */
unsigned koom_look(struct koom *koom, struct opt_u64 fds, struct opt_u64 threads,
		   struct opt_u64 vss_bytes, bool is_32_bit);
