/* SPDX-License-Identifier: BSD-2-Clause */
/* Clock snapshots of a Perfetto trace: from any clock to CLOCK_BOOTTIME. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_ID_MONOTONIC     3
#define CLOCK_ID_MONOTONIC_RAW 5
#define CLOCK_ID_BOOTTIME      6
/* 64 to 127 belong to one packet sequence each. */
#define CLOCK_ID_SEQUENCE_FIRST 64
#define CLOCK_ID_SEQUENCE_LAST  127

struct trace_clocks;

struct trace_clocks *trace_clocks_new(void);
void trace_clocks_free(struct trace_clocks *clocks);

/* A snapshot said that this clock showed clock_ns when CLOCK_BOOTTIME showed boot_ns. sequence is 0
 * unless the id belongs to a sequence. 0 or -ENOMEM. */
int trace_clocks_add(struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
		     uint32_t clock_id, int64_t clock_ns, int64_t boot_ns);

/* Convert by the latest snapshot at or before the time, else by the first one. False where no
 * snapshot knows that clock. */
bool trace_clocks_convert(struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
			  uint32_t clock_id, int64_t clock_ns, int64_t *boot_ns);

/* By how much a time of the trace's own machine in [from_ns, to_ns] of CLOCK_BOOTTIME may be off
 * from one that was told by CLOCK_BOOTTIME, where it was converted: what the snapshots around it
 * differ by, of FrameTimeline's clock (MONOTONIC) and one of ftrace (MONOTONIC_RAW). Beyond the
 * last snapshot nothing is known, and it counts as right. */
int64_t trace_clocks_error(const struct trace_clocks *clocks, int64_t from_ns, int64_t to_ns);
