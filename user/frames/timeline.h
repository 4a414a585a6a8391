/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs the FrameTimeline events of a trace by cookie, as Perfetto's trace_processor does, and
 * joins each app frame with the display frame that it was shown in.
 * Keeps a window of rows that may still change and 40 bytes for every frame that was shown. */
#pragma once
#include "frames/layers.h"
#include "jankscope/timeline.h"

#define TIMELINE_NONE INT64_MIN /* a time that is not known */

/* One row of actual_frame_timeline_slice. */
struct timeline_row {
	int64_t ts_ns, dur_ns; /* -1: it never ended */
	int64_t token, display_token;
	uint64_t order; /* of the start in the trace */
	int32_t pid;
	uint32_t machine, layer; /* index of the layer */
	uint32_t jank;
	uint8_t present_type, prediction_type, severity;
	bool surface, on_time, gpu, has_severity, has_layer;
	bool has_name; /* of the layer; it may be empty */
};

/* An app frame that reached the screen, or should have. */
struct frame {
	int64_t present_ns; /* of a dropped one, when it was due */
	union {
		int64_t predicted_ns; /* predicted present, or TIMELINE_NONE */
		int64_t period_ns;    /* with FRAME_PERIOD: of the display then; 0: not known */
	};
	int64_t work_ns; /* from the app's wake-up to its buffer being ready, or TIMELINE_NONE */
	int64_t cookie;
	uint32_t layer;
	uint32_t flags; /* jank bits in the lower 16, FRAME_ flags above */
};

#define FRAME_JANK_MASK 0xffffu
#define FRAME_NO_BUFFER (1u << 16) /* a transaction of properties only */
#define FRAME_LATE      (1u << 17) /* present_type */
#define FRAME_DUE       (1u << 18) /* a latch: the app began it right after the one before */
#define FRAME_DROPPED   (1u << 19) /* it never reached the screen: time in which one was due */
#define FRAME_PERIOD    (1u << 20) /* nothing was predicted; the period stands there instead */

_Static_assert(sizeof(struct frame) == 40, "the memory limit of frames counts on it");

/* What is known about a frame at the moment when it can no longer change. */
struct timeline_finished {
	const struct frame *frame;
	int64_t start_ns, end_ns, token, expected_start_ns, expected_end_ns;
	int32_t pid;
	uint32_t machine;
};

/* A row of an app that was shown late or never; what is not known is TIMELINE_NONE. Tokens are any
 * number. Of a doFrame that took longer than a period, where there are no rows, they are -1. */
struct timeline_late {
	int64_t start_ns, end_ns, token, display_token, expected_start_ns, expected_end_ns;
	int64_t present_ns, predicted_ns; /* on the screen, and when that was predicted */
	/* Of the display's frame that it was in: when it was begun, and when that was predicted. */
	int64_t compose_start_ns, compose_due_ns;
	int32_t pid;
	uint32_t machine, layer, jank;
	bool dropped, is_row;
};

/* A doFrame that took longer than the display's period, of a trace without rows: what no row tells
 * is TIMELINE_NONE, and it has no tokens. layer: as in the rows; times in nanoseconds of the
 * trace's clock. */
struct timeline_late timeline_late_doframe(int64_t start_ns, int64_t end_ns, int64_t period_ns,
					   int32_t pid, uint32_t layer);

struct timeline_counts {
	uint64_t expected, actual, unpaired, unpaired_ends, rejected, unknown_enums, layers_lost;
};

struct timeline_options {
	size_t max_layers;
	/* Called once for each actual row, near the order of the starts. May be NULL. */
	void (*row)(void *ctx, const struct timeline_row *row);
	void *row_ctx;
	void (*finished)(void *ctx, const struct timeline_finished *finished);
	/* Each row that was late and has an end, near the order of the starts. May be NULL. */
	void (*late)(void *ctx, const struct timeline_late *late);
	void *ctx;
};

struct timeline;

/* NULL with errno on failure. */
struct timeline *timeline_new(const struct timeline_options *options);
void timeline_free(struct timeline *timeline);

#define TIMELINE_REJECTED 1
/* Take one event. 0; TIMELINE_REJECTED: without cookie, token or pid, or of an impossible time, and
 * counted; -ENOMEM. */
int timeline_add(struct timeline *timeline, const struct timeline_event *event);
/* Settle all rows that started before this time: what comes for them later is lost. */
int timeline_settle(struct timeline *timeline, int64_t before_ns);
/* Number of the newest row, for timeline_settle_to. */
uint64_t timeline_newest(const struct timeline *timeline);
/* Settle what had come when timeline_newest gave this number. */
int timeline_settle_to(struct timeline *timeline, uint64_t number);
/* Settle everything. */
int timeline_finish(struct timeline *timeline);

/* Index of the layer of that name, made when it is new; UINT32_MAX where there is no room. */
uint32_t timeline_layer(struct timeline *timeline, uint32_t machine, int32_t pid, const char *name,
			size_t size);
struct layer *timeline_layers(const struct timeline *timeline, size_t *count);
/* Add a frame of another source to the list. 0 or -ENOMEM. */
int timeline_add_frame(struct timeline *timeline, const struct frame *frame);
/* The frames in the order they were settled; the caller may sort them in place. */
struct frame *timeline_frames(const struct timeline *timeline, size_t *count);
/* Predicted presents of the display frames, as they were settled; sortable in place. */
int64_t *timeline_vsyncs(const struct timeline *timeline, size_t *count);
/* Keep only the first of the predicted presents: the rest were doubles. */
void timeline_keep_vsyncs(struct timeline *timeline, size_t count);
/* Keep only the first of the frames (not the layers), and of the predicted presents only the last
 * from this index on. */
void timeline_take(struct timeline *timeline, size_t keep_frames, size_t first_vsync);
/* When the first and the last of the display's frames that came were on the screen. False: none. */
bool timeline_shown(const struct timeline *timeline, int64_t *first_ns, int64_t *last_ns);
const struct timeline_counts *timeline_counts(const struct timeline *timeline);

/* Texts of Perfetto's tables. jank needs a buffer of at least 400 bytes. */
const char *timeline_present_text(uint32_t present_type);
const char *timeline_prediction_text(uint32_t prediction_type);
const char *timeline_severity_text(bool has_severity, uint32_t severity, uint32_t jank);
const char *timeline_jank_text(uint32_t jank, char *buffer, size_t size);
const char *timeline_tag_text(uint32_t jank, uint32_t present_type, bool surface);
