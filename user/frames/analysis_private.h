/* SPDX-License-Identifier: BSD-2-Clause */
/* What collecting (analysis_events.c) and concluding (analysis.c) share. */
#pragma once
#include "frames/analysis.h"

#define ANALYSIS_LOSSES    64
#define ANALYSIS_RENDERERS 256
#define ANALYSIS_GFX       64
#define ANALYSIS_DUMP_ROWS 1000000 /* SurfaceFlinger keeps 128 of a layer, HWUI 120 of a window */

struct analysis {
	struct analysis_options options;
	struct timeline *timeline;
	struct slices *slices;
	struct name_table *names;
	struct loss_counter losses[ANALYSIS_LOSSES];
	size_t loss_count;
	struct worst_frame worst[ANALYSIS_MAX_WORST];
	size_t worst_count;
	struct {
		int32_t pid, tid;
	} renderers[ANALYSIS_RENDERERS]; /* which thread of a process draws */
	size_t renderer_count;
	int64_t period_ns, stated_period_ns;
	int64_t last_latency_ns; /* present of the row of --latency before */
	const char *period_source;
	struct refresh_change *changes;
	size_t change_count;
	struct layer_view *views;
	size_t view_count, left_out;
	uint64_t duplicates;
	struct gfx_summary gfx[ANALYSIS_GFX];
	size_t gfx_count;
	struct launches *launches;
	struct launch *launched; /* those that are complete */
	size_t launched_count;
	int64_t first_ns;
	uint64_t dump_rows;
	int64_t cookie; /* of frames that have none of their own */
	int err;
};

/* Whether the user asked for this layer. */
bool analysis_wants(const struct analysis *a, const struct layer *layer);

/* What the timeline and the slices tell of frames; ctx is the analysis. */
void analysis_on_finished(void *ctx, const struct timeline_finished *finished);
void analysis_on_late(void *ctx, const struct timeline_late *late);
bool analysis_may_draw(void *ctx, int32_t pid, const char *layer);
void analysis_on_latch(void *ctx, int32_t pid, const char *name, int64_t present_ns, bool due);
void analysis_on_draw_frame(void *ctx, const struct app_slice *slice);
void analysis_on_app_frame(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns);
