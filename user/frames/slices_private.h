/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the marker reader share: slices by thread (slices.c), the frames of apps
 * (slices_apps.c) and what SurfaceFlinger counts (slices_display.c). */
#pragma once
#include "frames/period.h"
#include "frames/slice_names.h"
#include "frames/slices.h"
#include <uthash.h>

#define SECOND_NS     1000000000LL
#define MAX_COUNTERS  1024
#define COUNTER_SLOTS ((size_t)4 * MAX_COUNTERS)
#define PENDING       8    /* doFrames that wait for their DrawFrame */
#define DRAWN         4096 /* frames that are remembered */
#define EDGES         256
#define RECENT_EDGES  32 /* tell the rate as of now: a change of it shows within some frames */
#define DISPLAYS      4

struct item {
	int64_t ts_ns, value; /* id of a slice, value of a counter */
	uint64_t order;
	int32_t tid, pid; /* pid of a buffer counter: its index */
	uint8_t kind, meaning;
};

struct open_slice {
	int64_t start_ns, id;
	uint8_t meaning;
};

/* A doFrame. resynced_id: the vsync that it moved to (Android 16), -1: none. */
struct ui_frame {
	int64_t start_ns, end_ns, id, resynced_id;
};

struct thread {
	int32_t tid, pid;
	uint32_t depth, capacity; /* depth counts slices that found no room too */
	struct open_slice *stack;
	int64_t queued_ns; /* end of the last queueBuffer inside the open DrawFrame; 0: none */
	int64_t drawn_ns;  /* start of the doFrame that the open DrawFrame began in; 0: none */
	UT_hash_handle hh;
};

struct app {
	int32_t pid, tid; /* tid: the thread whose doFrames count, the main thread if it has any */
	struct sm sm;
	int64_t next_tick_ns;
	struct ui_frame open; /* start_ns 0: none */
	bool open_is_drawn;
	struct ui_frame pending[PENDING];
	unsigned pending_count;
	bool draws;
	UT_hash_handle hh;
};

struct counter {
	uint64_t hash;
	int32_t pid;
	char *name;
	bool seen;
	int64_t value, last_ns;
};

struct drawn {
	int64_t start_ns, end_ns;
	int32_t pid;
};

/* Where vsync counters toggle: the best source of the period first. The hardware's are only
 * traced while SurfaceFlinger synchronises. */
enum edge_kind { EDGE_SF, EDGE_APP, EDGE_HW, EDGE_KINDS };

struct edges {
	int64_t times[EDGES]; /* ring */
	uint64_t count;
};

struct slices {
	const struct slices_ops *ops;
	void *ctx;
	struct item *items;
	size_t item_count;
	uint64_t order;
	int64_t newest_ns;
	struct thread *threads;
	struct app *apps;
	struct counter *counters;
	size_t counter_count;
	uint16_t *counter_table; /* index + 1 */
	struct drawn *drawn;     /* ring, by their ends */
	uint64_t drawn_count;
	struct edges edges[EDGE_KINDS];
	int32_t displays[DISPLAYS]; /* ring of process ids: SurfaceFlinger may start anew */
	uint64_t display_count;
	int64_t predicted[EDGES]; /* ring of FrameTimeline's, where nobody counts edges */
	uint64_t predicted_count, predicted_looked_at;
	int64_t last_edge_ns, period_ns, stated_period_ns, predicted_period_ns;
	int64_t coming_period_ns;       /* stated, and no edges tell it yet; 0: none */
	int64_t rate_period_ns;         /* of the last few edges, 0: not known */
	const struct edges *rate_edges; /* which they are */
	uint64_t rate_since;            /* how many of them were there when the rate changed */
	struct slices_counts counts;
};

/* The period by now, of whatever source. */
int64_t slices_period_or_default(struct slices *s);

/* The app of that pid; NULL where there is none and none can be made. */
struct app *slices_app(struct slices *s, int32_t pid, bool create);
void slices_app_free(struct slices *s, struct app *app);
/* A slice of a main thread, in no other, is over. 0 or -ENOMEM. */
int slices_main_thread_free(struct slices *s, const struct thread *thread, int64_t start_ns,
			    int64_t end_ns, bool do_frame);
/* The process is one that has frames: its ticks start here. 0 or -ENOMEM. */
int slices_start_ticks(struct slices *s, struct app *app, int64_t start_ns);
/* The process queued the buffer of a frame that began then. */
void slices_remember_drawn(struct slices *s, int32_t pid, int64_t start_ns, int64_t end_ns);
/* 0 or -ENOMEM. */
int slices_do_frame_began(struct slices *s, const struct item *item);
void slices_do_frame_resynced(struct slices *s, const struct item *item);
/* Start of the doFrame of that process that is open, 0: none. */
int64_t slices_open_do_frame(struct slices *s, int32_t pid);
void slices_do_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice);
void slices_draw_frame_ended(struct slices *s, struct thread *thread,
			     const struct app_slice *slice);
/* All markers before this time were handled. */
void slices_settle_app(struct slices *s, struct app *app, int64_t now_ns);
/* Nothing more will come for an app. 0 or -ENOMEM. */
int slices_app_finish(struct slices *s, struct app *app);

/* That process is SurfaceFlinger: it counts vsyncs, or latches buffers. */
void slices_note_display(struct slices *s, int32_t pid);
bool slices_is_display(const struct slices *s, int32_t pid);
/* The display's period, as SurfaceFlinger's model of it says: where that becomes longer, so does
 * the rate with the first edges that are as far apart. */
void slices_state_period(struct slices *slices, int64_t period_ns);
void slices_add_edge(struct slices *s, int64_t ts_ns, enum edge_kind kind);
/* The period of all edges, where there were too few for one before. */
void slices_finish_edges(struct slices *s);
/* Index of a buffer counter; -1: there is no memory for it, -2: the table is full. */
int slices_counter(struct slices *s, int32_t pid, const char *name, size_t size);
/* Layers come and go for days: forget them all. Nothing may wait that refers to one. */
void slices_forget_counters(struct slices *s);
void slices_buffer_counter(struct slices *s, const struct item *item);
