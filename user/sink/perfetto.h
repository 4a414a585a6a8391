/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as a Perfetto trace (ui.perfetto.dev, trace_processor). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* Tracks that are written at the most. */
#define PERFETTO_TRACKS 65536

/* A sink that takes the records of recordings. Blocks are slices of their threads, named after the
 * function that tells, with the ledger, the waker, the owner of the lock and the stack as
 * arguments; scenes are slices; events are instants. Sums of intervals are counters, whose value
 * stands at the begin of the interval: CPU time of processes and of the targets' threads, bytes of
 * uids, frames of layers, losses. Their sum over the trace is the sum over the records. Memory,
 * current and temperatures are counters at the end of the interval. Times are of CLOCK_BOOTTIME,
 * with a snapshot of the clocks, so that the file merges with a trace of the same minutes. What
 * does not fit into PERFETTO_TRACKS is counted in `dropped`, in records. The caller owns `to` and
 * closes it after the sink. NULL with errno. */
struct sink *perfetto_sink_new(FILE *to);
