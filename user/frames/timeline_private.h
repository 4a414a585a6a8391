/* SPDX-License-Identifier: BSD-2-Clause */
/* What pairing (timeline.c) and settling (timeline_settle.c) share. */
#pragma once
#include "frames/timeline.h"
#include "util/hash.h"

#ifdef FRAMES_SMALL_WINDOWS /* fuzzing: reach the ends of the rings, and start fast */
#define WINDOW 64
#else
#define WINDOW 16384 /* rows that may still change: a quarter of a minute at 120 Hz */
#endif
/* of chains; so many that most have one entry, for each further one is a cache miss */
#define HEADS     (4 * WINDOW)
#define MAX_CHAIN 64
#define KIND_FREE 0

/* A row that may still change, or an end without a start. */
struct slot {
	int64_t ts_ns, end_ns, cookie, token, display_token;
	uint32_t order, end_order; /* of the start and the end in the trace, the lower halves */
	uint32_t older;            /* the next older slot in the chain of this cookie's hash */
	uint32_t mark;             /* the entry of this row in the index of its kind */
	/* of a surface row, what it is joined with as far as that had come: entries, or 0 */
	uint32_t shown, due, expected;
	int32_t pid;
	uint32_t machine, layer, jank;
	uint8_t kind, present_type, prediction_type, severity;
	int8_t is_buffer;
	bool on_time, gpu, has_severity, has_name, tangled;
};

/* Times of a row by its token; outlives the slot. */
struct mark {
	int64_t token, ts_ns, end_ns;
	uint32_t older;
	int32_t pid;
	uint32_t machine;
	bool dropped, repeated; /* repeated: another entry has the same token */
};

/* Rings: entry n lies at n % WINDOW and is gone when the ring went round. Numbers start at 1; of a
 * number that is kept in an entry the lower half is enough, and small entries stay in the caches.
 */
struct index {
	struct mark *ring;
	uint32_t *heads;
	uint64_t last;
};

struct timeline {
	struct timeline_options options;
	struct slot *ring;
	uint32_t *heads;
	uint64_t last, settled; /* number of the newest slot, and of the newest settled one */
	uint64_t order;
	int64_t compose_ns; /* how long a display frame was expected to take, the last time */
	struct index expected_display, actual_display, expected_surface;
	struct layer_table layers;
	struct frame *frames;
	size_t frame_count, frame_capacity;
	int64_t *vsyncs;
	size_t vsync_count, vsync_capacity;
	struct timeline_counts counts;
	int64_t first_shown_ns, last_shown_ns; /* the display's frames that came; 0: none */
};

static inline uint32_t *index_head(const struct index *index, uint32_t machine, int32_t pid,
				   int64_t token)
{
	/* Tokens count up: neighbours stay neighbours, which the caches like, and a page of heads
	 * is full before the next is touched, so that a live run has touched all of them after
	 * minutes and not by lot after half an hour. */
	uint64_t first = hash_u64((uint64_t)(uint32_t)pid << 32 ^ machine);

	return &index->heads[((uint64_t)token + first) % HEADS];
}

/* The entry with this number, or NULL when the ring went round. */
static inline struct mark *index_at(const struct index *index, uint32_t number)
{
	if (!number || (uint32_t)index->last - number >= WINDOW)
		return NULL;
	return &index->ring[number % WINDOW];
}

/* The slot with this number, or NULL when it was settled. */
static inline struct slot *slot_at(const struct timeline *t, uint32_t number)
{
	if (!number || (uint32_t)t->last - number >= (uint32_t)(t->last - t->settled))
		return NULL;
	return &t->ring[number % WINDOW];
}

static inline struct index *timeline_index(struct timeline *t, uint8_t kind)
{
	switch (kind) {
	case TIMELINE_EXPECTED_DISPLAY:
		return &t->expected_display;
	case TIMELINE_ACTUAL_DISPLAY:
		return &t->actual_display;
	case TIMELINE_EXPECTED_SURFACE:
		return &t->expected_surface;
	}
	return NULL;
}

/* The best entry of a token near a time: one close by before one far away, then one that was
 * presented and has an end, then the first in the trace. */
struct mark *timeline_find_mark(const struct index *index, uint32_t machine, int32_t pid,
				int64_t token, int64_t near_ns);
/* The oldest slot leaves the window. 0 or -ENOMEM. */
int timeline_settle_oldest(struct timeline *t);
