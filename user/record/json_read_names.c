/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of a record whose keys no table declares: counters, reasons, totals, an event's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/histogram.h"
#include "record/json_read_private.h"

/* Summaries nest no deeper, and a key path is not longer. */
#define MAX_DEPTH 8
#define MAX_PATH  128

/* ---- what is in lists of names ---- */

int record_fill_counters(struct reading *r, const json_t *value, struct counter_list *list,
			 const struct place *place)
{
	const char *key;
	json_t *count;

	if (!json_is_object(value))
		return record_refuse(r, place, " is no object");
	list->items = arena_take(&r->memory->arena, json_object_size(value) * sizeof(*list->items));
	if (!list->items)
		return -ENOMEM;
	json_object_foreach ((json_t *)value, key, count) {
		struct place here = {place, key, 0};

		if (!json_is_integer(count) || json_integer_value(count) < 0)
			return record_refuse(r, &here, " is no whole number of at least 0");
		list->items[list->count++] =
			(struct counter){(char *)key, (uint64_t)json_integer_value(count)};
	}
	return 0;
}

int record_fill_missing(struct reading *r, const json_t *value, struct missing_list *list,
			const struct place *place)
{
	const char *key;
	json_t *reason;

	if (!json_is_object(value))
		return record_refuse(r, place, " is no object");
	list->items = arena_take(&r->memory->arena, json_object_size(value) * sizeof(*list->items));
	if (!list->items)
		return -ENOMEM;
	json_object_foreach ((json_t *)value, key, reason) {
		struct place here = {place, key, 0};

		if (!json_is_string(reason))
			return record_refuse(r, &here, " is no text");
		list->items[list->count++] =
			(struct missing){(char *)key, (char *)json_string_value(reason)};
	}
	return 0;
}

int record_fill_histogram(struct reading *r, const json_t *value, const struct histogram **out,
			  const struct place *place)
{
	struct histogram *histogram;
	json_t *bucket;
	size_t i;
	int err;

	if (!json_is_array(value))
		return record_refuse(r, place, " is no list");
	if (r->memory->histogram_count == MAX_HISTOGRAMS)
		return record_refuse(r, place, " is one histogram too many");
	histogram = histogram_new();
	if (!histogram)
		return -ENOMEM;
	r->memory->histograms[r->memory->histogram_count++] = histogram;
	json_array_foreach (value, i, bucket) {
		struct place here = {place, NULL, i};
		json_int_t parts[3] = {-1, -1, -1};

		for (size_t k = 0; k < 3 && json_array_size(bucket) == 3; k++)
			if (json_is_integer(json_array_get(bucket, k)))
				parts[k] = json_integer_value(json_array_get(bucket, k));
		if (parts[0] < 0 || parts[1] < parts[0] || parts[2] < 0)
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

static bool is_distribution(const json_t *object)
{
	if (json_object_size(object) != DISTRIBUTION_KEYS)
		return false;
	for (size_t i = 0; i < DISTRIBUTION_KEYS; i++)
		if (!json_is_number(json_object_get(object, distribution_keys[i])))
			return false;
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
		     const json_t *value)
{
	struct summary_total *rows =
		record_grow(r, footer->totals, footer->total_count, sizeof(*footer->totals));
	char *key = arena_take(&r->memory->arena, strlen(path) + 1);

	if (!rows || !key)
		return -ENOMEM;
	strcpy(key, path);
	footer->totals = rows;
	rows[footer->total_count++] = (struct summary_total){key, json_number_value(value)};
	return 0;
}

static int add_distribution(struct reading *r, struct record_footer *footer, const char *path,
			    const json_t *object)
{
	struct record_distribution *rows =
		record_grow(r, footer->distributions, footer->distribution_count,
			    sizeof(*footer->distributions));
	char *key = arena_take(&r->memory->arena, strlen(path) + 1);
	double values[DISTRIBUTION_KEYS];

	if (!rows || !key)
		return -ENOMEM;
	strcpy(key, path);
	for (size_t i = 0; i < DISTRIBUTION_KEYS; i++)
		values[i] = json_number_value(json_object_get(object, distribution_keys[i]));
	footer->distributions = rows;
	rows[footer->distribution_count++] = (struct record_distribution){
		key,       values[0] > 0 && values[0] < 0x1p63 ? (uint64_t)values[0] : 0,
		values[1], values[2],
		values[3], values[4],
		values[5], values[6],
		values[7]};
	return 0;
}

static int fill_totals(struct reading *r, const struct field_type *type, const json_t *object,
		       struct record_footer *footer, char path[MAX_PATH], size_t prefix,
		       const struct place *place)
{
	const char *key;
	json_t *value;
	int err = 0;

	json_object_foreach ((json_t *)object, key, value) {
		const struct field *row = record_declared(type, key);
		struct place here = {place, key, 0};
		size_t length = strlen(key), depth = 0;

		if (err)
			return err;
		/* Declared objects may hold totals beside their rows. */
		if (row && row->kind != FIELD_OBJECT)
			continue;
		for (const struct place *p = place; p; p = p->outer)
			depth++;
		if (prefix + length + 2 > MAX_PATH || depth > MAX_DEPTH)
			return record_refuse(r, &here, " is too deep or too long");
		memcpy(path + prefix, key, length + 1);
		if (json_is_number(value)) {
			err = add_total(r, footer, path, value);
		} else if (is_distribution(value)) {
			err = add_distribution(r, footer, path, value);
		} else if (json_is_object(value)) {
			path[prefix + length] = '.';
			err = fill_totals(r, row ? row->of : NULL, value, footer, path,
					  prefix + length + 1, &here);
		} else {
			return record_refuse(r, &here, " is neither a number nor an object");
		}
	}
	return err;
}

int record_fill_totals(struct reading *r, const struct field_type *type, const json_t *object,
		       struct record_footer *footer, const struct place *place)
{
	char path[MAX_PATH];

	return fill_totals(r, type, object, footer, path, 0, place);
}

/* ---- an event's own keys ---- */

int record_fill_event_keys(struct reading *r, const struct field_type *type, const json_t *object,
			   struct record_event *event, const struct place *place)
{
	static const char *const common[] = {"type", "seq", "t_boot_ns", "crc"};
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		struct place here = {place, key, 0};
		bool own = !record_declared(type, key);

		for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
			own &= strcmp(key, common[i]) != 0;
		if (!own)
			continue;
		if (event->key_count == sizeof(event->keys) / sizeof(*event->keys))
			return record_refuse(r, &here, " is one key too many");
		if (!json_is_string(value) && !json_is_number(value))
			return record_refuse(r, &here, " is neither a number nor a text");
		event->keys[event->key_count++] = (struct event_key){
			.name = key,
			.text = json_string_value(value),
			.value = (int64_t)json_integer_value(value),
			.real = json_is_real(value),
			.number = json_real_value(value),
		};
	}
	return 0;
}
