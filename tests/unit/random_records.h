/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of random values, with every field that the table has: a new field is in them by itself.
 */
#pragma once
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "record/fields.h"

struct random_records {
	unsigned seed;
	bool all; /* optional fields too, always */
	/* The text of a row that is no word of a list. */
	void (*text)(void *ctx, const struct field *row, char *to, size_t size);
	void *ctx;
};

static inline json_t *random_object(struct random_records *r, const struct field_type *type,
				    int identity);

static inline unsigned random_below(struct random_records *r, unsigned limit)
{
	return (unsigned)rand_r(&r->seed) % limit;
}

static inline json_int_t random_number(struct random_records *r, const struct field *row)
{
	json_int_t value = 1 + (json_int_t)random_below(r, 1u << 30);

	if (row->kind == FIELD_I64 || row->kind == FIELD_OPT_I64 || row->kind == FIELD_ADDRESS)
		return random_below(r, 2) ? value * 1000 : -value;
	return row->kind == FIELD_U32 || row->kind == FIELD_I32 ? value : value * 5000;
}

static inline json_t *random_histogram(struct random_records *r)
{
	json_t *list = json_array();

	for (int low = 0; low < 100; low++)
		if (!random_below(r, 5))
			json_array_append_new(
				list, json_pack("[i,i,i]", low, low, 1 + (int)random_below(r, 50)));
	return list;
}

static inline json_t *random_names(struct random_records *r, const struct field *row, bool counts)
{
	json_t *object = json_object();
	char key[20], text[64];

	for (int i = 0; i < 4; i++) {
		snprintf(key, sizeof(key), "word_%d", i);
		if (!random_below(r, 2))
			continue;
		r->text(r->ctx, row, text, sizeof(text));
		json_object_set_new(object, key,
				    counts ? json_integer(1 + random_below(r, 1000))
					   : json_string(text));
	}
	return object;
}

/* Lists have at most four rows, whose keys are those of four things. */
static inline json_t *random_list(struct random_records *r, const struct field *row)
{
	json_t *list = json_array();

	for (int i = 0; i < 4; i++)
		if (random_below(r, 5) < 3)
			json_array_append_new(list, random_object(r, row->of, i));
	return list;
}

static inline json_t *random_value(struct random_records *r, const struct field *row, int identity)
{
	bool key = row->merge == MERGE_KEY;
	char text[64];
	int words = 0;

	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_ADDRESS:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
		return json_integer(key ? identity + 1 : random_number(r, row));
	case FIELD_DOUBLE:
		return json_real(random_below(r, 100) + 0.5);
	case FIELD_BOOL:
		return json_true();
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
		while (row->words && row->words[words])
			words++;
		if (words)
			return json_string(row->words[key ? identity % words
							  : (int)random_below(r, (unsigned)words)]);
		if (key)
			snprintf(text, sizeof(text), "thing %d", identity);
		else
			r->text(r->ctx, row, text,
				row->kind == FIELD_CHARS ? row->size : sizeof(text));
		return json_string(text);
	case FIELD_OBJECT:
	case FIELD_POINTER:
		return random_object(r, row->of, identity);
	case FIELD_LIST:
		return random_list(r, row);
	case FIELD_NAMED: {
		json_t *object = json_object();

		r->text(r->ctx, row, text, sizeof(text));
		json_object_set_new(object, text, random_object(r, row->of, 0));
		return object;
	}
	case FIELD_COUNTERS:
	case FIELD_MISSING:
		return random_names(r, row, row->kind == FIELD_COUNTERS);
	case FIELD_HISTOGRAM:
		return random_histogram(r);
	case FIELD_FIXED:
		return row->unit == UNIT_NAME ? json_string(row->words[0])
					      : json_integer(atoi(row->words[0]));
	case FIELD_INLINE:
	case FIELD_TOTALS:
	case FIELD_EVENT_KEYS:
	case FIELD_PARTS:
		break;
	}
	return NULL;
}

static inline void random_rows(struct random_records *r, const struct field_type *type,
			       json_t *object, int identity)
{
	for (size_t i = 0; i < type->count; i++) {
		const struct field *row = &type->fields[i], *part;

		if (row->kind == FIELD_INLINE)
			random_rows(r, row->of, object, identity);
		for (size_t k = 0; row->kind == FIELD_PARTS && (part = record_next_part(&k));)
			if (r->all || random_below(r, 4))
				json_object_set_new(object, part->key,
						    random_value(r, part, identity));
		if (!row->key || row->kind == FIELD_INLINE || row->kind == FIELD_PARTS)
			continue;
		if (r->all || row->need == FIELD_REQUIRED || row->merge == MERGE_KEY ||
		    random_below(r, 3))
			json_object_set_new(object, row->key, random_value(r, row, identity));
		/* The writer leaves a list out that is empty. */
		if (row->need == FIELD_NONZERO && row->kind == FIELD_LIST &&
		    !json_array_size(json_object_get(object, row->key)))
			json_object_del(object, row->key);
	}
}

static inline json_t *random_object(struct random_records *r, const struct field_type *type,
				    int identity)
{
	json_t *object = json_object();

	random_rows(r, type, object, identity);
	return object;
}
