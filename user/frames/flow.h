/* SPDX-License-Identifier: BSD-2-Clause */
/* From the frames of one layer to what each added: its period, the time since the frame before, the
 * refreshes that were dropped in it. `frames` asks for the whole trace at once and `record`
 * interval by interval: what a frame adds depends on the times in the trace alone, so both have the
 * same sums. Rules: README.md of this folder. */
#pragma once
#include "frames/period.h"
#include "frames/timeline.h"

#define METRICS_IDLE_NS 100000000 /* the app asked for its next frame later than this */
#define FLOW_CADENCE    8         /* intervals whose median is the cadence */
#define FLOW_COVER_NS   2000000000LL
#define FLOW_RECENT     256 /* predicted presents that tell the period where few are near */

/* What is kept of a layer between two calls. All zero: nothing was seen. */
struct flow {
	struct frame last;
	int64_t recent[FLOW_CADENCE]; /* ring of the last intervals */
	uint64_t intervals;
	int64_t missed_ns; /* when the first frame was due that was dropped since `last` */
	bool has_last, has_missed;
};

/* The predicted presents of the displays, and the period around each time. */
struct flow_grid {
	struct period_window window;
	const int64_t *times_ns; /* sorted and distinct */
	size_t count;
	size_t recent_end; /* recent_ns is of the FLOW_RECENT times before this index */
	int64_t recent_ns;
	int64_t default_ns;
};

/* default_ns: where the times tell nothing. */
void flow_grid_init(struct flow_grid *grid, const int64_t *times_ns, size_t count,
		    int64_t default_ns);
/* The period at a time: from the presents within half a second, else from the last FLOW_RECENT up
 * to there, else the default. */
int64_t flow_grid_period(struct flow_grid *grid, int64_t time_ns);

/* What one frame that was shown is, after the one before. */
struct flow_step {
	const struct frame *frame;
	int64_t period_ns;
	bool follows;                            /* there was one before: the rest is filled in */
	int64_t interval_ns, active_ns, late_ns; /* late: more than was due */
	uint64_t dropped;
	bool idle, missed; /* missed: a frame between the two was dropped */
};

struct flow_input {
	struct frame *frames; /* of one layer, sorted by present and cookie */
	size_t count;
	struct flow_grid *grid;
	int64_t ready_ns;   /* leave those that were presented from then on for later */
	int64_t covered_ns; /* from then on FrameTimeline has the same frames: leave them out */
	bool unpredicted;
};

struct flow_counts {
	uint64_t duplicates; /* reached the screen together with another one */
	uint64_t late;       /* came after one that was presented later had been counted */
};

/* Go through them; visit is called for each that counts, in order. consumed: how many of the input
 * are done. 0 or what visit returned. */
int flow_feed(struct flow *flow, const struct flow_input *input, size_t *consumed,
	      struct flow_counts *counts, int (*visit)(void *ctx, const struct flow_step *step),
	      void *ctx);
