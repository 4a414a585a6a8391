/* SPDX-License-Identifier: BSD-2-Clause */
/* Why the frames of a trace were late, each of them: collects late frames and threads in a first
 * pass, what the scheduler did to those threads in a second one, and judges by why/README.md. Its
 * memory is bounded; what finds no room is counted. */
#pragma once
#include "frames/analysis.h"
#include "frames/sched_log.h"
#include "jankscope/record.h"

#ifdef FRAMES_SMALL_WINDOWS /* as in timeline.c */
#define LATE_WHY_FRAMES 8
#else
#define LATE_WHY_FRAMES 65536
#endif

struct late_why;
struct trace_reader;

/* NULL with errno ENOMEM. */
struct late_why *late_why_new(void);
void late_why_free(struct late_why *why);
/* For struct analysis_options of the first pass: the callback that takes each late frame, and the
 * table that takes the names of threads. */
void late_why_frame(void *ctx, const struct timeline_late *late);
struct thread_table *late_why_threads(struct late_why *why);

/* The first pass is over; first: its reader, which knows by how much the trace's clocks may be off;
 * NULL: by nothing. The analysis must outlive the rest. 0 or -ENOMEM. */
int late_why_plan(struct late_why *why, const struct analysis *analysis,
		  const struct trace_reader *first);
/* Late frames that were asked for. */
size_t late_why_count(const struct late_why *why);
/* The events of the second pass, with the why as their ctx. */
const struct trace_events *late_why_events(void);
/* Whether a stretch of the trace that begins at that time can matter. */
bool late_why_wants(const struct late_why *why, int64_t first_ns);
/* The second pass is over; late_why_counts() is valid from then on. 0 or -ENOMEM. */
int late_why_finish(struct late_why *why);

struct late_why_counts {
	uint64_t switches; /* scheduler events of the whole trace: without them nothing is known */
	uint64_t frames_lost; /* late frames of which nothing is told */
	uint64_t events_lost; /* scheduler events that found no room */
	uint64_t names_lost;  /* names of threads that found no room in the table */
	uint64_t gaps; /* times that events of a CPU were lost in the trace, near late frames */
};
struct late_why_counts late_why_counts(const struct late_why *why);

/* Judge each late frame, in the order of their starts; what the visit gets is valid during the
 * call. 0, -ENOMEM, or what the visit returned if that is not 0. */
int late_why_each(struct late_why *why, int (*visit)(void *ctx, const struct record_jank *jank),
		  void *ctx);
