/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/jit_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

#define UNPACK_BYTES (32u << 20) /* of all packed files of one list */
#define TAKE_NS      (300 * 1000 * 1000ull)
#define MAX_PLACES   (1u << 18)
#define LOOK_BACK    16 /* overlapping places that are looked at */
#define ENTRY_BYTES  (sizeof(struct jit_entry) + 4 * sizeof(void *))

static size_t bytes_of(const struct jit_entry *entry)
{
	/* each range is a place as well */
	return ENTRY_BYTES + (entry->bytes ? entry->key.size : 0) +
	       entry->count * (sizeof(struct jit_range) + sizeof(struct jit_place));
}

static void drop(struct jit_table *table, struct jit_entry *entry,
		 void (*entry_gone)(void *ctx, struct jit_entry *entry), void *ctx)
{
	entry_gone(ctx, entry);
	table->bytes -= bytes_of(entry);
	HASH_DEL(table->by_key, entry);
	free(entry->bytes);
	free(entry->ranges);
	free(entry);
}

/* Where its code is. A file that makes no sense stays as an entry without code, so that it is
 * looked at once. */
static void read_ranges(struct jit_table *table, struct jit_entry *entry, size_t *unpack)
{
	size_t limit = *unpack < JIT_UNPACK_BYTES ? *unpack : JIT_UNPACK_BYTES, left = limit;
	struct jit_elf *elf = jit_elf_new(entry->bytes, entry->key.size, table->arch, &left);
	int count = elf ? jit_elf_ranges(elf, &entry->ranges) : -errno;

	*unpack -= limit - left;
	jit_elf_free(elf);
	if (count > 0) {
		entry->count = (uint32_t)count;
		return;
	}
	table->malformed++;
	free(entry->bytes);
	entry->bytes = NULL;
}

static struct jit_entry *add(struct jit_table *table, const struct jit_key *key,
			     const uint8_t *bytes, size_t *unpack)
{
	struct jit_entry *entry = calloc(1, sizeof(*entry));

	if (!entry || !(entry->bytes = malloc(key->size))) {
		free(entry);
		return NULL;
	}
	memcpy(entry->bytes, bytes, key->size);
	entry->key = *key;
	read_ranges(table, entry, unpack);
	HASH_ADD(hh, table->by_key, key, sizeof(entry->key), entry);
	table->bytes += bytes_of(entry);
	return entry;
}

static int compare(const void *a, const void *b)
{
	const struct jit_place *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int sort_places(struct jit_table *table)
{
	struct jit_entry *entry, *next;
	size_t count = 0;

	free(table->places);
	table->places = NULL;
	table->place_count = 0;
	HASH_ITER (hh, table->by_key, entry, next)
		count += entry->count;
	if (count > MAX_PLACES)
		count = MAX_PLACES;
	table->places = malloc((count ? count : 1) * sizeof(*table->places));
	if (!table->places)
		return -ENOMEM;
	HASH_ITER (hh, table->by_key, entry, next) {
		for (uint32_t i = 0; i < entry->count && table->place_count < count; i++)
			table->places[table->place_count++] = (struct jit_place){
				entry->ranges[i].start, entry->ranges[i].end, entry};
	}
	if (table->place_count)
		qsort(table->places, table->place_count, sizeof(*table->places), compare);
	return 0;
}

int jit_table_take(struct jit_table *table, const struct jit_list *list, size_t room,
		   void (*entry_gone)(void *ctx, struct jit_entry *entry), void *ctx)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + TAKE_NS;
	size_t unpack = UNPACK_BYTES, limit = table->bytes + room;
	struct jit_entry *entry, *next;

	table->looks++;
	table->missing = 0;
	for (uint32_t i = 0; i < list->header.count; i++) {
		const struct jit_list_entry *from = &list->entries[i];
		const uint8_t *bytes = from->offset ? list->bytes + from->offset - 1 : NULL;
		struct jit_key key = {from->address, from->timestamp, from->symfile, from->size,
				      from->seqlock};

		HASH_FIND(hh, table->by_key, &key, sizeof(key), entry);
		/* Without timestamps another entry can look the same. */
		if (entry && bytes && entry->bytes && list->header.layout == JIT_PLAIN &&
		    memcmp(entry->bytes, bytes, key.size)) {
			drop(table, entry, entry_gone, ctx);
			entry = NULL;
		}
		if (!entry && bytes && table->bytes + ENTRY_BYTES + key.size < limit &&
		    clock_now_ns(CLOCK_MONOTONIC) < until_ns)
			entry = add(table, &key, bytes, &unpack);
		if (entry)
			entry->look = table->looks;
		else
			table->missing++;
	}
	HASH_ITER (hh, table->by_key, entry, next) {
		if (entry->look != table->looks)
			drop(table, entry, entry_gone, ctx);
	}
	return sort_places(table);
}

struct jit_entry *jit_table_find(const struct jit_table *table, uint64_t address)
{
	struct jit_entry *best = NULL;
	size_t low = 0, high = table->place_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->places[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t back = 0; back < LOOK_BACK && back < low; back++) {
		const struct jit_place *place = &table->places[low - 1 - back];

		if (address < place->end &&
		    (!best || place->entry->key.timestamp > best->key.timestamp))
			best = place->entry;
	}
	return best;
}

void jit_table_free(struct jit_table *table, void (*entry_gone)(void *ctx, struct jit_entry *entry),
		    void *ctx)
{
	struct jit_entry *entry, *next;

	HASH_ITER (hh, table->by_key, entry, next)
		drop(table, entry, entry_gone, ctx);
	free(table->places);
	*table = (struct jit_table){0};
}
