/* SPDX-License-Identifier: BSD-2-Clause */
/* What atrace markers say about frames: Choreographer#doFrame on main threads, DrawFrame(s) on
 * render threads, the buffer counters and the vsync edges of SurfaceFlinger (README.md). Markers
 * may come in any order within a window; they are sorted first. */
#pragma once
#include "frames/metrics.h"
#include "jankscope/timeline.h"

struct slices;

/* A slice that ended. */
struct app_slice {
	int32_t pid, tid;
	uint8_t meaning; /* enum mark_meaning */
	int64_t id;      /* vsync id, or -1 */
	int64_t start_ns, end_ns;
};

struct slices_ops {
	/* Each slice that means something, when it ends. */
	void (*slice)(void *ctx, const struct app_slice *slice);
	void (*do_frame)(void *ctx, const struct app_slice *slice);
	void (*draw_frame)(void *ctx, const struct app_slice *slice);
	/* A frame of an app: doFrame and the DrawFrame that belongs to it. */
	void (*app_frame)(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns);
	/* Whether frames of that process may be the layer's. NULL: they all may. */
	bool (*may_draw)(void *ctx, int32_t pid, const char *layer);
	/* SurfaceFlinger took a buffer of that layer. due: the app had begun this frame at once
	 * after the latch before, so a long gap is not idle time. */
	void (*latch)(void *ctx, int32_t pid, const char *layer, int64_t present_ns, bool due);
	void (*vsync)(void *ctx, int64_t ts_ns);
};

/* Each op may be NULL. NULL with errno on failure. */
struct slices *slices_new(const struct slices_ops *ops, void *ctx);
void slices_free(struct slices *slices);
/* Take one marker. 0 or -ENOMEM. */
int slices_add(struct slices *slices, const struct trace_mark *mark);
/* A display frame was expected at about this time: the grid, where no counter shows its edges. */
void slices_add_predicted(struct slices *slices, int64_t ts_ns);
/* The period of the last of those, 0: there were too few. */
int64_t slices_predicted_period(struct slices *slices);
/* The newest marker's time, INT64_MIN before the first. */
int64_t slices_newest(const struct slices *slices);
/* Handle the markers before this time: none earlier will come. 0 or -ENOMEM. */
int slices_settle(struct slices *slices, int64_t before_ns);
/* Handle everything that still waits to be sorted. */
int slices_finish(struct slices *slices);

/* GT's SM of a process, NULL where its main thread had no doFrame. Valid until slices_free. */
struct sm *slices_sm(struct slices *slices, int32_t pid);

struct slices_counts {
	uint64_t marks, do_frames, draw_frames, latches, dropped_buffers, ends_without_begin,
		threads_lost, resynced;
};
const struct slices_counts *slices_counts(const struct slices *slices);
/* Median distance of vsync edges, 0: none seen. VSP-period wins over edges. */
int64_t slices_period(const struct slices *slices);
/* The same as of the marker that was handled last, where the rate changed; of 60 Hz where nothing
 * is known. To a half or a third of a rate it changes with the second edge where SurfaceFlinger
 * counts "VSP-period", else some 32 edges late: vsyncs that nobody asked for look like that too. */
int64_t slices_rate_period(struct slices *slices);
