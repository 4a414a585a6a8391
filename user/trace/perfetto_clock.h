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

/* The error bound of events in [from_ns, to_ns] of CLOCK_BOOTTIME whose times were converted from
 * another clock of the trace's own machine: MONOTONIC (FrameTimeline) or MONOTONIC_RAW (ftrace). It
 * is the difference of the offsets that the clock's snapshots around these events tell. Behind the
 * last snapshot nothing is known, and the conversion counts as right. In nanoseconds. */
int64_t trace_clocks_error(struct trace_clocks *clocks, int64_t from_ns, int64_t to_ns);
