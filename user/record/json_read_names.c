/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of a record whose keys no table declares: counters, reasons, totals, an event's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/histogram.h"
#include "record/json_read_private.h"
#include "record/json_write.h"

/* Summaries nest no deeper, and a key path is not longer. */
#define MAX_DEPTH 8
#define MAX_PATH  128

/* ---- what is in lists of names ---- */

int record_fill_counters(struct reading *r, uint32_t value, struct counter_list *list,
			 const struct place *place)
{
	struct json_walk walk;
	int64_t count;
	const char *key;
	int err;

	if (!json_tree_is_object(&r->tree, value))
		return record_refuse(r, place, " is no object");
	err = record_refuse_double(r, value, place);
	if (err)
		return err;
	list->items = arena_take(&r->memory->arena,
				 json_tree_size(&r->tree, value) * sizeof(*list->items));
	if (!list->items)
		return -ENOMEM;
	for (walk = json_tree_walk(&r->tree, value); json_walk_next(&r->tree, &walk);) {
		struct place here = {place, NULL, 0};

		err = record_text(r, walk.key, &key, place);
		if (err)
			return err;
		here.key = key;
		if (!json_tree_integer(&r->tree, walk.value, &count) || count < 0)
			return record_refuse(r, &here, " is no whole number of at least 0");
		list->items[list->count++] = (struct counter){(char *)key, (uint64_t)count};
	}
	return 0;
}

int record_fill_missing(struct reading *r, uint32_t value, struct missing_list *list,
			const struct place *place)
{
	const char *key, *reason;
	struct json_walk walk;
	int err;

	if (!json_tree_is_object(&r->tree, value))
		return record_refuse(r, place, " is no object");
	err = record_refuse_double(r, value, place);
	if (err)
		return err;
	list->items = arena_take(&r->memory->arena,
				 json_tree_size(&r->tree, value) * sizeof(*list->items));
	if (!list->items)
		return -ENOMEM;
	for (walk = json_tree_walk(&r->tree, value); json_walk_next(&r->tree, &walk);) {
		struct place here = {place, NULL, 0};

		err = record_text(r, walk.key, &key, place);
		here.key = key;
		if (!err)
			err = record_text(r, walk.value, &reason, &here);
		if (err)
			return err;
		list->items[list->count++] = (struct missing){(char *)key, (char *)reason};
	}
	return 0;
}

/* [low, high, count]; false: it is none. */
static bool take_bucket(const struct json_tree *tree, uint32_t bucket, int64_t parts[3])
{
	struct json_walk walk = json_tree_walk(tree, bucket);

	if (!json_tree_is_list(tree, bucket) || json_tree_size(tree, bucket) != 3)
		return false;
	for (int i = 0; i < 3; i++)
		if (!json_walk_next(tree, &walk) || !json_tree_integer(tree, walk.value, &parts[i]))
			return false;
	return parts[0] >= 0 && parts[1] >= parts[0] && parts[2] >= 0;
}

int record_fill_histogram(struct reading *r, uint32_t value, const struct histogram **out,
			  const struct place *place)
{
	struct histogram *histogram;
	struct json_walk walk;
	int64_t parts[3];
	size_t i = 0;
	int err;

	if (!json_tree_is_list(&r->tree, value))
		return record_refuse(r, place, " is no list");
	if (r->memory->histogram_count == MAX_HISTOGRAMS)
		return record_refuse(r, place, " is one histogram too many");
	if (!r->memory->histograms)
		r->memory->histograms =
			arena_take(&r->memory->arena, MAX_HISTOGRAMS * sizeof(struct histogram *));
	histogram = r->memory->histograms ? histogram_new() : NULL;
	if (!histogram)
		return -ENOMEM;
	r->memory->histograms[r->memory->histogram_count++] = histogram;
	for (walk = json_tree_walk(&r->tree, value); json_walk_next(&r->tree, &walk); i++) {
		struct place here = {place, NULL, i};

		if (!take_bucket(&r->tree, walk.value, parts))
			return record_refuse(r, &here, " is no bucket");
		err = histogram_add_bucket(histogram, (uint64_t)parts[0], (uint64_t)parts[1],
					   (uint64_t)parts[2]);
		if (err)
			return err;
	}
	*out = histogram;
	return 0;
}

/* ---- the summary ---- */

static const char *const distribution_keys[] = {"n",   "min", "max", "mean",
						"p50", "p90", "p95", "p99"};
#define DISTRIBUTION_KEYS (sizeof(distribution_keys) / sizeof(*distribution_keys))

static bool take_distribution(const struct json_tree *tree, uint32_t object,
			      double values[DISTRIBUTION_KEYS])
{
	uint32_t hint = 0, value;

	if (!json_tree_is_object(tree, object) || json_tree_size(tree, object) != DISTRIBUTION_KEYS)
		return false;
	for (size_t i = 0; i < DISTRIBUTION_KEYS; i++) {
		value = json_tree_get(tree, object, distribution_keys[i], &hint);
		if (!value || !json_tree_number(tree, value, &values[i]))
			return false;
	}
	return true;
}

const struct field *record_declared(const struct field_type *type, const char *key)
{
	for (size_t i = 0; type && i < type->count; i++)
		if (type->fields[i].key && !strcmp(type->fields[i].key, key))
			return &type->fields[i];
	return NULL;
}

void *record_grow(struct reading *r, const void *rows, size_t count, size_t size)
{
	void *more;

	if (count & (count - 1) || count == 1)
		return (void *)rows; /* there is room up to the next power of two */
	more = arena_take(&r->memory->arena, (count ? 2 * count : 2) * size);
	if (more && count)
		memcpy(more, rows, count * size);
	return more;
}

static int add_total(struct reading *r, struct record_footer *footer, const char *path,
		     double value)
{
	struct summary_total *rows =
		record_grow(r, footer->totals, footer->total_count, sizeof(*footer->totals));
	char *key = arena_take(&r->memory->arena, strlen(path) + 1);

	if (!rows || !key)
		return -ENOMEM;
	strcpy(key, path);
	footer->totals = rows;
	rows[footer->total_count++] = (struct summary_total){key, value};
	return 0;
}

static int add_distribution(struct reading *r, struct record_footer *footer, const char *path,
			    const double values[DISTRIBUTION_KEYS])
{
	struct record_distribution *rows =
		record_grow(r, footer->distributions, footer->distribution_count,
			    sizeof(*footer->distributions));
	char *key = arena_take(&r->memory->arena, strlen(path) + 1);

	if (!rows || !key)
		return -ENOMEM;
	strcpy(key, path);
	footer->distributions = rows;
	rows[footer->distribution_count++] = (struct record_distribution){
		key,       values[0] > 0 && values[0] < 0x1p63 ? (uint64_t)values[0] : 0,
		values[1], values[2],
		values[3], values[4],
		values[5], values[6],
		values[7]};
	return 0;
}

/* Names between dots, which can be written again: each has a length, and no great one. */
static bool is_path(const char *key)
{
	for (size_t length;; key += length + 1) {
		length = strcspn(key, ".");
		if (!length || length >= RECORD_TOTAL_NAME)
			return false;
		if (!key[length])
			return true;
	}
}

static int fill_totals(struct reading *r, const struct field_type *type, uint32_t object,
		       struct record_footer *footer, char path[MAX_PATH], size_t prefix,
		       const struct place *place)
{
	double values[DISTRIBUTION_KEYS], number;
	struct json_walk walk;
	const char *key;
	int err = 0;

	for (walk = json_tree_walk(&r->tree, object); json_walk_next(&r->tree, &walk);) {
		const struct field *row;
		struct place here = {place, NULL, 0};
		size_t length, depth = 0;

		if (!err)
			err = record_text(r, walk.key, &key, place);
		if (err)
			return err;
		row = record_declared(type, key);
		here.key = key;
		length = strlen(key);
		/* Declared objects may hold totals beside their rows. */
		if (row && row->kind != FIELD_OBJECT)
			continue;
		for (const struct place *p = place; p; p = p->outer)
			depth++;
		if (prefix + length + 2 > MAX_PATH || depth > MAX_DEPTH)
			return record_refuse(r, &here, " is too deep or too long");
		if (!is_path(key))
			return record_refuse(r, &here, " is no name");
		memcpy(path + prefix, key, length + 1);
		if (json_tree_number(&r->tree, walk.value, &number)) {
			err = add_total(r, footer, path, number);
		} else if (take_distribution(&r->tree, walk.value, values)) {
			err = add_distribution(r, footer, path, values);
		} else if (json_tree_is_object(&r->tree, walk.value)) {
			path[prefix + length] = '.';
			err = fill_totals(r, row ? row->of : NULL, walk.value, footer, path,
					  prefix + length + 1, &here);
		} else {
			return record_refuse(r, &here, " is neither a number nor an object");
		}
	}
	return err;
}

int record_fill_totals(struct reading *r, const struct field_type *type, uint32_t object,
		       struct record_footer *footer, const struct place *place)
{
	char path[MAX_PATH];

	return fill_totals(r, type, object, footer, path, 0, place);
}

/* ---- an event's own keys ---- */

int record_fill_event_keys(struct reading *r, const struct field_type *type, uint32_t object,
			   struct record_event *event, const struct place *place)
{
	static const char *const common[] = {"type", "seq", "t_boot_ns", "crc"};
	struct json_walk walk;
	const char *key;
	int err;

	for (walk = json_tree_walk(&r->tree, object); json_walk_next(&r->tree, &walk);) {
		struct place here = {place, NULL, 0};
		struct event_key *out;
		bool own;

		err = record_text(r, walk.key, &key, place);
		if (err)
			return err;
		here.key = key;
		own = !record_declared(type, key);
		for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
			own &= strcmp(key, common[i]) != 0;
		if (!own)
			continue;
		if (event->key_count == sizeof(event->keys) / sizeof(*event->keys))
			return record_refuse(r, &here, " is one key too many");
		out = &event->keys[event->key_count++];
		*out = (struct event_key){.name = key};
		if (json_tree_is_text(&r->tree, walk.value)) {
			err = record_text(r, walk.value, &out->text, &here);
			if (err)
				return err;
		} else if (!json_tree_integer(&r->tree, walk.value, &out->value)) {
			out->real = true;
			if (!json_tree_number(&r->tree, walk.value, &out->number))
				return record_refuse(r, &here, " is neither a number nor a text");
		}
	}
	return 0;
}
