/* SPDX-License-Identifier: BSD-2-Clause */
/* Collects the events of one trace and turns them into layers with their frames: FrameTimeline
 * where there is one, else SurfaceFlinger's buffer counters, else what the apps' own slices or a
 * dump say. Pure: it is fed by a reader and asked at the end. */
#pragma once
#include "frames/late.h"
#include "frames/launches.h"
#include "frames/metrics.h"
#include "frames/names.h"
#include "frames/slices.h"
#include "frames/threads.h"
#include "frames/timeline.h"

#define ANALYSIS_MAX_LAYERS 32768
#define ANALYSIS_MAX_WORST  32

struct analysis_options {
	const char *layer_glob; /* NULL: all */
	const char *package;    /* NULL: all; its ":suffix" processes belong to it */
	unsigned worst;         /* how many of the worst frames to keep */
	void (*row)(void *ctx, const struct timeline_row *row);
	void *row_ctx;
	/* Rows that were late, of all layers; until there are rows, doFrames. NULL: nobody asks. */
	void (*late)(void *ctx, const struct timeline_late *late);
	void *late_ctx;
	struct thread_table *threads; /* gets what the trace says of threads; NULL: nobody asks */
};

/* One of the frames that were latest against their prediction. */
struct worst_frame {
	struct late_frame late; /* filled by a second pass */
	uint32_t layer, jank;
	int64_t ts_ns; /* of its row: it is shown in traces by this */
	int64_t present_ns, predicted_ns, work_ns;
	int64_t late_ns; /* by how much it missed its predicted present, or its work its deadline */
};

struct refresh_change {
	int64_t t_ns, period_ns;
};

struct loss_counter {
	const char *reason;
	uint64_t count;
};

/* What `gfxinfo` counted of a process, in its own words. */
struct gfx_summary {
	int32_t pid;
	char package[128];
	int64_t counters[GFX_COUNTERS]; /* -1: not in the dump */
};

/* A layer with the frames that it showed. */
struct layer_view {
	const struct layer *layer;
	struct frame *frames; /* sorted by present; metrics may use them up */
	size_t count, drawn;  /* drawn: those with a buffer */
	int64_t covered_ns;   /* FrameTimeline has the frames from then on, and shows them */
	const struct sm *sm;  /* of its process's main thread, NULL: not traced */
};

struct analysis;

/* NULL with errno on failure. The strings of options must outlive it. */
struct analysis *analysis_new(const struct analysis_options *options);
void analysis_free(struct analysis *analysis);
/* The events to feed, with the analysis as their ctx. */
const struct trace_events *analysis_events(void);
/* The same where the options have threads: the scheduler tells the names that threads run under. */
const struct trace_events *analysis_thread_events(void);
/* The part of them that names processes, for a pass before: rows are filtered by package when they
 * settle, and a process tree may stand at the end of the file. */
const struct trace_events *analysis_name_events(void);
/* All was fed. 0 or a negative errno. */
int analysis_finish(struct analysis *analysis);

/* The views of wanted layers, those with most frames first; valid until analysis_free. */
const struct layer_view *analysis_layers(const struct analysis *analysis, size_t *count);
/* Layers with frames that the user did not ask for. */
size_t analysis_left_out(const struct analysis *analysis);
/* Whether the user asked for this row: once all names are known, as late as can be. */
bool analysis_wants_row(const struct analysis *analysis, const struct timeline_row *row);
bool analysis_wants_layer(const struct analysis *analysis, uint32_t index);
/* Every metric of one view; its frames are used up. 0 or -ENOMEM. */
int analysis_metrics(struct analysis *analysis, const struct layer_view *view,
		     struct layer_metrics *metrics);
/* Frames that reached the screen with another one of their layer, in all metrics so far. */
const struct gfx_summary *analysis_gfx(const struct analysis *analysis, size_t *count);
/* Launches of activities (of the wanted package), and the last activity in focus: false, none. */
const struct launch *analysis_launches(const struct analysis *analysis, size_t *count);
bool analysis_focus(const struct analysis *analysis, struct focus *focus);
/* Time of the first event, INT64_MAX: there was none. */
int64_t analysis_first_ns(const struct analysis *analysis);
uint64_t analysis_duplicates(const struct analysis *analysis);
struct worst_frame *analysis_worst(struct analysis *analysis, size_t *count);
const struct refresh_change *analysis_refresh(const struct analysis *analysis, size_t *count);
/* The global period and where it comes from ("expected timeline", "assumed", ...). */
int64_t analysis_period(const struct analysis *analysis, const char **source);
const struct loss_counter *analysis_losses(const struct analysis *analysis, size_t *count);
const struct timeline_counts *analysis_counts(const struct analysis *analysis);
const struct slices_counts *analysis_slices(const struct analysis *analysis);
const struct layer *analysis_layer(const struct analysis *analysis, uint32_t index);
/* NULL: unknown. buffer may hold the answer. */
const char *analysis_package(const struct analysis *analysis, const struct layer *layer,
			     char *buffer, size_t size);
const char *analysis_process(const struct analysis *analysis, int32_t pid);
/* The thread that draws for a process, as its slices tell; 0: they do not. */
int32_t analysis_renderer(const struct analysis *analysis, int32_t pid);
