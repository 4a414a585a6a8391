/* SPDX-License-Identifier: BSD-2-Clause */
/* The layers of a trace: who drew it and what it is called. The name alone is not enough, for each
 * process counts its layers anew (frame-timing.md 2.3). */
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
	enum layer_source source;
	uint32_t jank_rows[16]; /* rows with each bit; index is the bit's number */
	uint32_t rows, janky;   /* janky: any bit but NONE */
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
