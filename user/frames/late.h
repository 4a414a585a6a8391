/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a frame was late: what its main thread and its render thread did while it was made, out of
 * the scheduler events and markers of a second pass over the trace. */
#pragma once
#include "jankscope/timeline.h"

struct thread_time {
	bool known;
	int32_t tid;
	int64_t running_ns, runnable_ns, sleeping_ns, uninterruptible_ns;
};

struct late_frame {
	/* given */
	int32_t pid, render_tid; /* render_tid 0: not known */
	int64_t token;           /* vsync id, -1: none */
	int64_t start_ns, end_ns;
	/* found */
	bool has_do_frame, has_draw_frame;
	int64_t do_frame_ns, draw_frame_ns; /* how long they took */
	struct thread_time main, render;
};

struct late;

/* frames belong to the caller and outlive the pass. NULL with errno. */
struct late *late_new(struct late_frame *frames, size_t count);
void late_free(struct late *late);
/* The events that the pass listens to, with the late as their ctx. */
const struct trace_events *late_events(void);
/* Whether a stretch of the trace with events of this span can matter. */
bool late_wants(const struct late *late, int64_t first_ns, int64_t last_ns);
/* All was fed: fill in what was found. */
int late_finish(struct late *late);
