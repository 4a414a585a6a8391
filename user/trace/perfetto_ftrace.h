/* SPDX-License-Identifier: BSD-2-Clause */
/* The ftrace part of a Perfetto trace: bundles of one CPU's events. */
#pragma once
#include "jankscope/timeline.h"
#include "trace/perfetto_clock.h"
#include "trace/wire.h"

#define FTRACE_MAX_CPU 1024

struct ftrace_decoder {
	const struct trace_events *events;
	void *ctx;
	int32_t last_next_tid[FTRACE_MAX_CPU]; /* of each CPU's compact switches; 0: not known */
	bool lost[FTRACE_MAX_CPU];   /* of each CPU: events were, and no switch has come since */
	int64_t first_ns, last_ns;   /* span of what was seen; for the block index */
	struct trace_clocks *clocks; /* for bundles that have the time of one of them */
};

/* Bundles were lost before the next one, of any CPU. */
void ftrace_lost(struct ftrace_decoder *decoder);
/* Decode one FtraceEventBundle. 0 or -EBADMSG (events before the damage were handed out). */
int ftrace_bundle(struct ftrace_decoder *decoder, const uint8_t *data, size_t size);
