/* SPDX-License-Identifier: BSD-2-Clause */
/* What stream.c (events come in) and stream_take.c (layers go out) share. */
#pragma once
#include "frames/stream.h"
#include "frames/flow.h"
#include "frames/slices.h"

#define STREAM_CHECKPOINTS 64
#define STREAM_LOSSES      64

/* What a layer was when it was last looked at. */
struct stream_past {
	struct layer counts;
	struct flow flow;
};

struct stream_checkpoint {
	uint64_t at_ns, row;
	int64_t newest_mark_ns;
};

struct stream_loss {
	const char *reason;
	uint64_t count;
};

struct frame_stream {
	struct timeline *timeline;
	struct slices *slices;
	struct launches *launches;
	struct name_table *names;
	struct stream_past *past;
	size_t past_count;
	struct stream_layer *taken;
	size_t taken_count, taken_capacity;
	struct stream_checkpoint checkpoints[STREAM_CHECKPOINTS]; /* oldest first */
	size_t checkpoint_count;
	struct stream_loss losses[STREAM_LOSSES];
	size_t loss_count;
	int64_t period_ns, stated_period_ns, cookie;
	int64_t handled_ns;     /* the markers up to there were handled */
	int64_t newest_mark_ns; /* when somebody last looked, as the next */
	uint64_t newest_row;
	uint64_t quiet_since_ns; /* nothing came since then */
	bool ended;              /* nothing more will come */
	bool quiet;              /* nothing came for QUIET_NS */
	stream_shown shown;      /* NULL: nobody watches */
	void *shown_ctx;
	stream_late late; /* NULL: nobody watches */
	stream_clock boot_of;
	void *late_ctx;
	int err;
};

/* Count a loss of the stream. */
void stream_lose(struct frame_stream *stream, const char *reason, uint64_t count);
/* An empty timeline of the stream's bounds, which tells it of late frames. NULL with errno ENOMEM.
 */
struct timeline *stream_new_timeline(struct frame_stream *stream);
/* Free the layers that were handed out. */
void stream_free_taken(struct frame_stream *stream);
