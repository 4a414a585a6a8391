/* SPDX-License-Identifier: BSD-2-Clause */
/* What planning (late_why.c), the second pass (late_why_events.c) and judging (late_why_judge.c)
 * share. */
#pragma once
#include "frames/late_why.h"
#include "why/judge.h"

#define MAX_CREW 32 /* threads that make the frames of one process, or of the display */
#define QUEUES   64 /* threads whose last queueBuffer is remembered */

struct crew {
	int32_t pid; /* of the display: 0 */
	struct member {
		int32_t tid, pid;
		enum jank_role role;
	} members[MAX_CREW];
	size_t count;
	struct sched_window *windows;
	size_t window_count;
};

struct late {
	struct timeline_late row;
	int64_t begin_ns, end_ns, handed_ns, queued_ns;
	int64_t clock_error_ns;
	int64_t key; /* what its doFrame is found by: its token, or where there is none its start */
};

struct late_why {
	struct late *frames; /* sorted by process and time, once they are planned */
	size_t count, capacity;
	uint64_t frames_lost;
	struct thread_table *threads;
	const struct analysis *analysis;
	struct crew *crews; /* one a process with late frames */
	size_t crew_count;
	/* SurfaceFlinger's; its windows are all. Where it starts anew amid the trace there are
	 * several. */
	struct crew display;
	struct crew hal; /* the composer's, in the same windows */
	struct late **by_key, **by_time;
	struct slices *slices;
	struct sched_log *log;
	struct {
		int32_t tid;
		int64_t end_ns;
	} queued[QUEUES];
	int err;
};

/* The threads of a process; NULL: no frame of it was late. */
struct crew *late_why_crew(struct late_why *why, int32_t pid);
/* A SurfaceFlinger. */
bool late_why_is_display(const struct late_why *why, int32_t pid);
/* What slices of the second pass tell; their ctx is the why. */
const struct slices_ops *late_why_slices(void);
