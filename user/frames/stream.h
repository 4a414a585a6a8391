/* SPDX-License-Identifier: BSD-2-Clause */
/* Frame timing of a trace that has no end: takes events for ever and gives, interval by interval,
 * what was shown since the last time. Memory does not grow with time. */
#pragma once
#include "frames/names.h"
#include "frames/timeline.h"

struct histogram;
struct launches;
struct frame_stream;

/* One layer in one interval. */
struct stream_layer {
	const struct layer *layer;
	int64_t period_ns;
	uint64_t shown, dropped, janky;
	int64_t first_shown_ns;       /* when the first of shown was on the screen */
	uint64_t rows;                /* of FrameTimeline: frames that were to be shown */
	int64_t active_ns, intervals; /* fps_active = intervals / active */
	uint64_t app, sf, hw, stuffing, dropped_rows, unknown;
	struct histogram *hist; /* of present to present, in ns */
};

/* NULL with errno on failure. */
struct frame_stream *frame_stream_new(void);
void frame_stream_free(struct frame_stream *stream);

/* The events to feed, with the stream as their ctx. */
const struct trace_events *frame_stream_events(void);
/* An error that a callback could not return: 0 or -ENOMEM. */
int frame_stream_error(const struct frame_stream *stream);

/* Remember what has come by now_ns (any steady clock), and settle what had come window_ns before:
 * everything that belongs to it is there now. settle_all: nothing more will come. */
int frame_stream_settle(struct frame_stream *stream, uint64_t now_ns, uint64_t window_ns,
			bool settle_all);
/* The layers that showed something, or had rows, since the last call. Valid until the next call.
 * 0 or -ENOMEM. */
int frame_stream_take(struct frame_stream *stream, const struct stream_layer **layers,
		      size_t *count);

/* When the first and the last of the display's frames that came were on the screen. False: none. */
bool frame_stream_shown(const struct frame_stream *stream, int64_t *first_ns, int64_t *last_ns);

/* Called from frame_stream_take() for each frame that was shown; those of a layer in order. */
typedef void (*stream_shown)(void *ctx, const struct layer *layer, int64_t present_ns);
void frame_stream_watch(struct frame_stream *stream, stream_shown shown, void *ctx);

/* Called from frame_stream_settle() for each row of an app that was late or never shown, near the
 * order of their starts; in a trace without rows, for each doFrame that took longer than a period.
 */
typedef void (*stream_late)(void *ctx, const struct layer *layer, const struct timeline_late *late);
/* As boot_of of struct trace_events. */
typedef bool (*stream_clock)(void *ctx, int64_t mono_ns, int64_t *boot_ns);
void frame_stream_watch_late(struct frame_stream *stream, stream_late late, stream_clock boot_of,
			     void *ctx);

/* The launches that the markers told; frames are given to them by whoever knows packages. */
struct launches *frame_stream_launches(struct frame_stream *stream);
struct name_table *frame_stream_names(struct frame_stream *stream);
/* Called for each loss: a fixed word and how many. */
void frame_stream_each_loss(struct frame_stream *stream,
			    void (*visit)(void *ctx, const char *reason, uint64_t count),
			    void *ctx);
