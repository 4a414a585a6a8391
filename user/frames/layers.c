/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/layers.h"
#include "frames/timeline.h"
#include "util/hash.h"
#include <errno.h>
#include <stdlib.h>

#define MAX_NAME 1024

void layer_table_free(struct layer_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->items[i].name);
	free(t->items);
	free(t->slots);
}

static bool is_layer(const struct layer *layer, uint32_t machine, int32_t pid, const char *name,
		     size_t size, uint64_t name_hash)
{
	return layer->pid == pid && layer->machine == machine && layer->name_size == size &&
	       layer->name_hash == name_hash && !memcmp(layer->name, name, size);
}

static int grow(struct layer_table *t)
{
	size_t table_size = t->slot_count ? t->slot_count * 2 : 64;
	size_t capacity = table_size / 2;
	struct layer *layers = realloc(t->items, capacity * sizeof(*layers));
	uint32_t *table;

	if (!layers)
		return -ENOMEM;
	t->items = layers;
	table = calloc(table_size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < t->count; i++) {
		size_t at = t->items[i].hash % table_size;

		while (table[at])
			at = (at + 1) % table_size;
		table[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = table;
	t->slot_count = table_size;
	t->capacity = capacity;
	return 0;
}

uint32_t layer_table_get(struct layer_table *t, uint32_t machine, int32_t pid, const char *name,
			 size_t size)
{
	struct layer *layer;
	uint64_t name_hash = 0;
	uint32_t hash;
	size_t at;

	if (!name)
		name = "";
	if (size > MAX_NAME) {
		name_hash = hash_bytes(name, size, size);
		size = MAX_NAME;
	}
	if (t->count && is_layer(&t->items[t->last], machine, pid, name, size, name_hash))
		return (uint32_t)t->last;
	hash = (uint32_t)(hash_bytes(name, size, (uint64_t)machine << 32 | (uint32_t)pid) ^
			  name_hash);
	for (at = t->slot_count ? hash % t->slot_count : 0; t->slot_count && t->slots[at];
	     at = (at + 1) % t->slot_count) {
		size_t found = t->slots[at] - 1;

		if (t->items[found].hash == hash &&
		    is_layer(&t->items[found], machine, pid, name, size, name_hash)) {
			t->last = found;
			return (uint32_t)found;
		}
	}
	if (t->count >= t->max) {
		t->lost++;
		return UINT32_MAX;
	}
	if (t->count == t->capacity) {
		if (grow(t))
			return UINT32_MAX;
		for (at = hash % t->slot_count; t->slots[at]; at = (at + 1) % t->slot_count)
			;
	}
	layer = &t->items[t->count];
	memset(layer, 0, sizeof(*layer));
	layer->name = malloc(size + 1);
	if (!layer->name)
		return UINT32_MAX;
	memcpy(layer->name, name, size);
	layer->name[size] = 0;
	layer->name_size = (uint32_t)size;
	layer->machine = machine;
	layer->pid = pid;
	layer->hash = hash;
	layer->name_hash = name_hash;
	layer->first_row_ns = INT64_MAX;
	t->slots[at] = (uint32_t)++t->count;
	t->last = t->count - 1;
	return (uint32_t)t->last;
}

void layer_count_causes(struct layer *layer, uint32_t jank, bool dropped)
{
	const uint32_t app = JANK_APP_DEADLINE | JANK_APP_RESYNC;
	const uint32_t sf = JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING;
	const uint32_t hw = JANK_PREDICTION_ERROR | JANK_DISPLAY_HAL;
	const uint32_t hidden =
		JANK_NON_ANIMATING | JANK_DISPLAY_OFF | JANK_MODE_CHANGE | JANK_POWER_MODE;

	layer->rows++;
	for (uint32_t left = jank & FRAME_JANK_MASK; left; left &= left - 1)
		layer->jank_rows[__builtin_ctz(left)]++;
	if (jank & FRAME_JANK_MASK & ~(hidden | JANK_NONE))
		layer->janky++;
	if (jank & hidden)
		layer->cause_non_perceivable++;
	layer->cause_app += (jank & app) != 0;
	layer->cause_sf += (jank & sf) != 0;
	layer->cause_hw += (jank & hw) != 0;
	layer->cause_sf_perfetto += (jank & ((sf & ~(uint32_t)JANK_SF_STUFFING) | hw)) != 0;
	layer->cause_stuffing += jank == JANK_BUFFER_STUFFING;
	layer->cause_dropped += jank & JANK_DROPPED || dropped;
	layer->cause_unknown += (jank & JANK_UNKNOWN) != 0;
}
