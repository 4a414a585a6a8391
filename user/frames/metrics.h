/* SPDX-License-Identifier: BSD-2-Clause */
/* Every metric of one layer from its frames, each under the name of who defined it
 *. Pure: no clock, no I/O. */
#pragma once
#include "compat/compat.h"
#include "frames/flow.h"
#include "frames/timeline.h"

#define METRICS_FROZEN_NS  700000000 /* Android vitals */
#define METRICS_SLOW_60_NS 16666667  /* Android vitals' slow frame, whatever the refresh rate */
#define METRICS_MAX_LOW    1000
#define SM_LOW             40
#define SM_RING            256 /* executions a second that are told apart */
#define SM_BIG_JANK_NS     70000000

struct distribution {
	uint64_t n;
	int64_t min, max;
	double mean, p50, p90, p95, p99;
};

/* Tencent Matrix: how many refreshes the work of a frame took too long. */
enum matrix_level {
	MATRIX_BEST = 0,
	MATRIX_NORMAL = 1,
	MATRIX_MIDDLE = 2,
	MATRIX_HIGH = 3,
	MATRIX_FROZEN = 4,
};

/* The level of one frame. */
enum matrix_level matrix_level(int64_t work_ns, int64_t period_ns);

/* PerfDog: a jank is twice as long as the three before it and longer than two film frames. */
struct perfdog {
	uint64_t jank, big_jank;
	int64_t janky_ns, total_ns, last[3];
	unsigned seen;
	struct compat_delta_ftime delta; /* Delta(FTime) */
	struct compat_drop_fps drop;     /* Drop(FPS) */
	int64_t second_ns;               /* of the present second */
	unsigned second_frames;
};

void perfdog_add(struct perfdog *perfdog, int64_t interval_ns);
double perfdog_stutter_pct(const struct perfdog *perfdog);

/* A stretch in which GT's SM was below SM_LOW. */
struct sm_low {
	int64_t start_ns,
		end_ns; /* end: the first moment when it was not low, or the last one seen */
	unsigned min;
	double mean;
};

/* GT's SM: executions of a frame callback in the last second. */
struct sm {
	int64_t recent[SM_RING]; /* ring of executions within one second */
	unsigned first, recent_count;
	bool started, low;
	int64_t start_ns, last_ns;
	uint64_t evaluations, low_evaluations;
	double sum, low_sum;
	unsigned min;
	uint64_t big_janks, low_lost;
	struct sm_low *lows;
	size_t low_count, low_capacity;
};

/* An execution at this time; times do not decrease. 0 or -ENOMEM. */
int sm_add(struct sm *sm, int64_t time_ns);
/* Nothing happened for so many refreshes, up to this time: the callback would have run at each. */
int sm_idle(struct sm *sm, int64_t time_ns, uint64_t refreshes, unsigned rate);
/* Close a stretch that is still open. */
int sm_finish(struct sm *sm);
void sm_free(struct sm *sm);

struct layer_metrics {
	uint64_t shown, duplicates, segments, switches;
	int64_t period_ns, first_ns, last_ns;
	bool has_fps;
	double fps_raw, fps_active;
	int64_t raw_ns, active_ns;
	struct distribution intervals; /* active ones */
	uint64_t dropped, dropped_interval;
	uint64_t worked; /* frames whose work time is known */
	uint64_t slow, slow_60, frozen;
	uint64_t matrix[5];
	double matrix_fps;
	bool has_sm, sm_estimated;
	double sm_mean;
	unsigned sm_min;
	uint64_t sm_big_janks;
	struct sm_low *sm_lows; /* owned by the metrics */
	size_t sm_low_count;
	struct perfdog perfdog, perfdog_active;
	/* frames that dropped at least one refresh, by the bits of their jank */
	uint64_t visible, visible_app, visible_sf, visible_hw, visible_stuffing, visible_dropped,
		visible_unknown, visible_none; /* none: FrameTimeline called it no jank */
};

struct metrics_input {
	struct frame *frames; /* of one layer, sorted by present and cookie; overwritten */
	size_t count;
	const int64_t *vsyncs_ns; /* predicted presents, sorted and distinct */
	size_t vsync_count;
	int64_t period_ns;  /* global period */
	int64_t default_ns; /* of a frame near which no vsync is known; 0: the global one */
	int64_t covered_ns; /* as in flow.h; INT64_MAX: not covered */
	bool unpredicted;   /* no predictions exist: latches of a buffer queue */
};

/* Compute everything. 0 or -ENOMEM. Free with layer_metrics_free. */
int layer_metrics_compute(struct layer_metrics *metrics, const struct metrics_input *input);
void layer_metrics_free(struct layer_metrics *metrics);

/* The value at rank p (n - 1), linearly interpolated. values are sorted. */
double percentile_i64(const int64_t *values, size_t count, double p);
