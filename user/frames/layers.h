/* SPDX-License-Identifier: BSD-2-Clause */
/* The layers of a trace: who drew it and what it is called. The name alone is not enough, for each
 * process counts its layers anew. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum layer_source { LAYER_TIMELINE = 0, LAYER_BUFFER = 1, LAYER_CHOREOGRAPHER = 2, LAYER_DUMP = 3 };

struct layer {
	char *name;
	uint32_t name_size;
	uint32_t machine;
	int32_t pid;
	uint32_t hash;
	uint64_t name_hash; /* of the whole name, of which the first part is kept */
	enum layer_source source;
	uint32_t jank_rows[16]; /* rows with each bit; index is the bit's number */
	uint32_t rows, janky;   /* janky: a bit that is neither NONE nor of a jank nobody sees */
	uint32_t buffers;       /* frames with a buffer: those that an app drew */
	int64_t first_row_ns;   /* when the first row of FrameTimeline began; INT64_MAX: none */
	uint32_t dropped, no_display, unfinished, no_buffer, severity[4];
	/* groups of causes, by rows; one row may be in several */
	uint32_t cause_app, cause_sf, cause_sf_perfetto, cause_hw, cause_stuffing, cause_dropped,
		cause_unknown, cause_non_perceivable;
};

/* All zero but max: empty. */
struct layer_table {
	struct layer *items;
	size_t count, capacity, max;
	uint32_t *slots;         /* hash table of indices + 1 */
	size_t slot_count, last; /* last: the one that was asked for before */
	uint64_t lost;           /* asked for when the table was full */
};

void layer_table_free(struct layer_table *table);
/* Index of the layer of that name, made when it is new; UINT32_MAX where there is no room. */
uint32_t layer_table_get(struct layer_table *table, uint32_t machine, int32_t pid, const char *name,
			 size_t size);

/* Add the bits of one row to the layer's cause counters. */
void layer_count_causes(struct layer *layer, uint32_t jank, bool dropped);

/* "BufferTX - name" and "TX - name" are the same layer: the name behind that. */
const char *layer_bare_name(const char *name);

/* From when on FrameTimeline has the frames of a layer that another source sees too. */
struct layer_cover;
struct layer_covers {
	struct layer_cover *by_pid, *by_name;
};
/* Take in the layers that FrameTimeline has rows of. 0 or -ENOMEM. */
int layer_covers_add(struct layer_covers *covers, const struct layer *layers, size_t count);
/* INT64_MAX: it has none of this layer, or is where they come from. */
int64_t layer_covered_from(const struct layer_covers *covers, const struct layer *layer);
void layer_covers_free(struct layer_covers *covers);
