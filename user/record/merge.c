/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_read.h"
#include "record/json_write.h"
#include "record/merge_values.h"

#define IDENTITY_BYTES 512

struct interval_merge {
	json_t *sum; /* NULL: none was added */
	size_t count;
};

struct interval_merge *interval_merge_new(void)
{
	return calloc(1, sizeof(struct interval_merge));
}

void interval_merge_free(struct interval_merge *merge)
{
	if (!merge)
		return;
	json_decref(merge->sum);
	free(merge);
}

size_t interval_merge_count(const struct interval_merge *merge)
{
	return merge->count;
}

static int merge_type(const struct field_type *type, json_t *sum, json_t *more,
		      const struct merge_weights *weights);

/* ---- lists ---- */

/* What the keys of a row are, as text. */
static size_t identity(const struct field_type *type, const json_t *row, char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < type->count; i++) {
		const struct field *field = &type->fields[i];
		const json_t *value;

		if (n >= size)
			return n;
		if (field->kind == FIELD_INLINE)
			n += identity(field->of, row, text + n, size - n);
		if (field->merge != MERGE_KEY || n >= size)
			continue;
		value = json_object_get(row, field->key);
		if (json_is_string(value))
			n += (size_t)snprintf(text + n, size - n, "\"%s\"",
					      json_string_value(value));
		else
			n += (size_t)snprintf(text + n, size - n, "%" JSON_INTEGER_FORMAT "/",
					      value ? json_integer_value(value) : -1);
	}
	return n;
}

/* The rows of the sum by their identity: borrowed references in a new object. */
static json_t *rows_by_identity(const struct field_type *type, json_t *rows)
{
	json_t *map = json_object(), *row;
	char text[IDENTITY_BYTES];
	size_t i;

	json_array_foreach (rows, i, row)
		if (identity(type, row, text, sizeof(text)) >= sizeof(text) ||
		    json_object_set_nocheck(map, text, row)) {
			json_decref(map);
			return NULL;
		}
	return map;
}

static int merge_rows(const struct field_type *type, json_t *sum, json_t *more,
		      const struct merge_weights *weights)
{
	json_t *map = rows_by_identity(type, sum), *row, *same;
	char text[IDENTITY_BYTES];
	int err = map ? 0 : -ENOTSUP;
	size_t i;

	json_array_foreach (more, i, row) {
		if (err || identity(type, row, text, sizeof(text)) >= sizeof(text)) {
			err = err ? err : -ENOTSUP;
			break;
		}
		same = json_object_get(map, text);
		if (same)
			err = merge_type(type, same, row, weights);
		else if (json_array_append(sum, row) || json_object_set_nocheck(map, text, row))
			err = -ENOMEM;
	}
	json_decref(map);
	return err;
}

/* ---- a row of the table ---- */

/* Both have a value. */
static int merge_values(const struct field *row, json_t *sum, json_t *a, json_t *b,
			const struct merge_weights *weights)
{
	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_ADDRESS:
	case FIELD_DOUBLE:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
		return merge_values_number(row, sum, a, b, weights);
	case FIELD_OBJECT:
	case FIELD_POINTER:
		return merge_type(row->of, a, b, weights);
	case FIELD_LIST:
		if (row->merge == MERGE_LAST)
			return merge_values_put(sum, row->key, json_incref(b));
		return merge_rows(row->of, a, b, weights);
	case FIELD_COUNTERS:
		return merge_values_counts(a, b);
	case FIELD_MISSING:
		return json_object_update(a, b) ? -ENOMEM : 0;
	case FIELD_HISTOGRAM:
		return merge_values_histogram(row, sum, a, b);
	case FIELD_BOOL: /* it is only written where it is set, or says the same in both */
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
		if (row->kind == FIELD_BOOL && json_is_true(a))
			return 0;
		return merge_values_put(sum, row->key, json_incref(b));
	case FIELD_FIXED:
	case FIELD_NAMED:
	case FIELD_INLINE:
	case FIELD_TOTALS:
	case FIELD_EVENT_KEYS:
	case FIELD_PARTS:
		break; /* of no interval, or without a key */
	}
	return -ENOTSUP;
}

static int merge_row(const struct field *row, json_t *sum, json_t *more,
		     const struct merge_weights *weights)
{
	json_t *a = json_object_get(sum, row->key), *b = json_object_get(more, row->key);

	if (row->merge == MERGE_ABSENT)
		return a ? (json_object_del(sum, row->key), 0) : 0;
	if (!b)
		return 0;
	if (!a)
		return merge_values_put(sum, row->key, json_incref(b));
	return merge_values(row, sum, a, b, weights);
}

/* A part of a source: in how many intervals of each side it is, is what its means are weighted by.
 */
static int merge_part(const struct field *part, json_t *sum, json_t *more)
{
	const json_t *parts = json_object_get(json_object_get(sum, "merged"), "parts");
	const json_t *more_parts = json_object_get(json_object_get(more, "merged"), "parts");
	const struct merge_weights weights = {
		json_integer_value(json_object_get(parts, part->key)),
		json_integer_value(json_object_get(more_parts, part->key)),
	};

	return merge_row(part, sum, more, &weights);
}

static int merge_type(const struct field_type *type, json_t *sum, json_t *more,
		      const struct merge_weights *weights)
{
	const struct field *part;
	int err = 0;

	for (size_t i = 0; i < type->count && !err; i++) {
		const struct field *row = &type->fields[i];

		if (row->kind == FIELD_INLINE)
			err = merge_type(row->of, sum, more, weights);
		else if (row->kind == FIELD_PARTS)
			for (size_t k = 0; !err && (part = record_next_part(&k));)
				err = merge_part(part, sum, more);
		/* What tells of the merge itself comes behind the parts, which are weighted by it.
		 */
		else if (strcmp(row->key, "merged"))
			err = merge_row(row, sum, more, weights);
	}
	return err;
}

/* ---- an interval ---- */

/* How many keys of an object the rows of its type know; -1: something in it is unknown. */
static int known_keys(const struct field_type *type, const json_t *object);

static bool row_is_known(const struct field *row, const json_t *value)
{
	json_t *element;
	size_t i;

	if ((row->kind == FIELD_OBJECT || row->kind == FIELD_POINTER) &&
	    known_keys(row->of, value) != (int)json_object_size(value))
		return false;
	if (row->kind == FIELD_LIST)
		json_array_foreach ((json_t *)value, i, element)
			if (known_keys(row->of, element) != (int)json_object_size(element))
				return false;
	return true;
}

static int known_keys(const struct field_type *type, const json_t *object)
{
	int count = 0;

	for (size_t i = 0; i < type->count; i++) {
		const struct field *row = &type->fields[i], *part;
		const json_t *value;

		if (row->kind == FIELD_INLINE)
			count += known_keys(row->of, object);
		for (size_t k = 0; row->kind == FIELD_PARTS && (part = record_next_part(&k));) {
			value = json_object_get(object, part->key);
			count += value && row_is_known(part, value);
		}
		value = row->key ? json_object_get(object, row->key) : NULL;
		count += value && row_is_known(row, value);
	}
	return count;
}

/* type, seq, t_boot_ns and crc are of every record. */
static bool is_known(const json_t *interval)
{
	static const char *const common[] = {"type", "seq", "t_boot_ns", "crc"};
	int count = known_keys(record_types[RECORD_INTERVAL], interval);

	for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
		count += json_object_get(interval, common[i]) != NULL;
	return count == (int)json_object_size(interval);
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* An interval that was not merged is one of one. */
static int tell_merged(json_t *interval)
{
	json_int_t seq = number_of(interval, "seq");
	json_t *merged, *missing, *reason;
	const struct field *part;
	const char *key;
	int err = 0;

	if (json_object_get(interval, "merged"))
		return 0;
	merged = json_pack("{s:i,s:I,s:[{s:I,s:I}],s:{},s:{}}", "intervals", 1, "begin_boot_ns",
			   number_of(interval, "t_boot_ns") - number_of(interval, "dur_ns"), "seqs",
			   "first", seq, "last", seq, "parts", "absent");
	if (!merged)
		return -ENOMEM;
	for (size_t i = 0; !err && (part = record_next_part(&i));)
		if (json_object_get(interval, part->key))
			err = merge_values_put(json_object_get(merged, "parts"), part->key,
					       json_integer(1));
	missing = json_object_get(interval, "missing");
	json_object_foreach (missing, key, reason)
		err |= merge_values_put(json_object_get(merged, "absent"), key, json_integer(1));
	return merge_values_put(interval, "merged", merged) || err ? -ENOMEM : 0;
}

/* Ranges without a gap between them are one. */
static int add_seqs(json_t *seqs, json_t *more)
{
	json_t *last = json_array_get(seqs, json_array_size(seqs) - 1), *range;
	size_t i;

	json_array_foreach (more, i, range) {
		if (number_of(range, "first") <= number_of(last, "last"))
			return -ENOTSUP; /* not the next one */
		if (number_of(range, "first") == number_of(last, "last") + 1) {
			if (merge_values_put(last, "last", json_integer(number_of(range, "last"))))
				return -ENOMEM;
			continue;
		}
		if (json_array_append(seqs, range))
			return -ENOMEM;
		last = range;
	}
	return 0;
}

static int merge_merged(json_t *sum, const json_t *more)
{
	json_int_t intervals = number_of(sum, "intervals") + number_of(more, "intervals");
	int err = merge_values_put(sum, "intervals", json_integer(intervals));

	if (!err)
		err = add_seqs(json_object_get(sum, "seqs"), json_object_get(more, "seqs"));
	if (!err)
		err = merge_values_counts(json_object_get(sum, "parts"),
					  json_object_get(more, "parts"));
	return err ? err
		   : merge_values_counts(json_object_get(sum, "absent"),
					 json_object_get(more, "absent"));
}

int interval_merge_add(struct interval_merge *merge, json_t *interval)
{
	const struct merge_weights none = {1, 1};
	int err = is_known(interval) ? tell_merged(interval) : -ENOTSUP;

	if (err)
		return err;
	merge->count++;
	if (!merge->sum) {
		merge->sum = json_incref(interval);
		return 0;
	}
	err = merge_type(record_types[RECORD_INTERVAL], merge->sum, interval, &none);
	if (!err)
		err = merge_merged(json_object_get(merge->sum, "merged"),
				   json_object_get(interval, "merged"));
	if (!err)
		err = merge_values_put(merge->sum, "seq", json_integer(number_of(interval, "seq")));
	return err ? err
		   : merge_values_put(merge->sum, "t_boot_ns",
				      json_integer(number_of(interval, "t_boot_ns")));
}

/* ---- the line ---- */

struct ranked {
	json_int_t cpu_ns;
	size_t index;
	json_t *row;
};

static int heaviest_first(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Lists of who used CPUs are told heaviest first. */
static int sort_rows(json_t *rows)
{
	size_t count = json_array_size(rows), i;
	struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
	int err = 0;

	if (!ranked)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		json_t *row = json_array_get(rows, i);

		ranked[i] = (struct ranked){number_of(row, "cpu_ns"), i, json_incref(row)};
	}
	qsort(ranked, count, sizeof(*ranked), heaviest_first);
	json_array_clear(rows);
	for (i = 0; i < count; i++)
		if (json_array_append_new(rows, ranked[i].row))
			err = -ENOMEM;
	free(ranked);
	return err;
}

static int sort_cpu(json_t *interval)
{
	static const char *const lists[] = {"tasks", "processes", "uids"};
	const json_t *cpu = json_object_get(interval, "cpu");
	int err = 0;

	for (size_t i = 0; cpu && !err && i < sizeof(lists) / sizeof(*lists); i++)
		err = sort_rows(json_object_get(cpu, lists[i]));
	return err;
}

char *interval_merge_line(struct interval_merge *merge, size_t *length)
{
	struct parsed_memory *memory = record_memory_new();
	struct record_interval interval = {0};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	char why[160], *line = NULL;
	int err = memory ? 0 : -ENOMEM;

	if (!err)
		err = sort_cpu(merge->sum);
	if (!err)
		err = record_fill(record_types[RECORD_INTERVAL], merge->sum, &interval, memory, why,
				  sizeof(why));
	record.seq = (uint64_t)number_of(merge->sum, "seq");
	record.t_boot_ns = (uint64_t)number_of(merge->sum, "t_boot_ns");
	if (!err)
		line = record_to_line(&record, length);
	record_memory_free(memory);
	if (err)
		errno = err == -EBADMSG ? ENOTSUP : -err;
	return line;
}
