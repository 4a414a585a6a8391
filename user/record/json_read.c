/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/histogram.h"
#include "record/json_double.h"
#include "record/json_read_private.h"
#include "util/arena.h"

struct parsed_memory *record_memory_new(void)
{
	return calloc(1, sizeof(struct parsed_memory));
}

void record_memory_empty(struct parsed_memory *memory)
{
	for (size_t i = 0; i < memory->histogram_count; i++)
		histogram_free(memory->histograms[i]);
	arena_free(&memory->arena);
}

void record_memory_free(struct parsed_memory *memory)
{
	if (memory)
		record_memory_empty(memory);
	free(memory);
}

static size_t put_place(const struct place *place, char *text, size_t size)
{
	size_t n = place->outer ? put_place(place->outer, text, size) : 0;

	if (n >= size)
		return n;
	if (!place->key)
		return n + (size_t)snprintf(text + n, size - n, "[%zu]", place->index);
	return n +
	       (size_t)snprintf(text + n, size - n, "%s%.64s", place->outer ? "." : "", place->key);
}

int record_text(struct reading *r, uint32_t value, const char **text, const struct place *place)
{
	int err = json_tree_text(&r->tree, value, &r->memory->arena, text);

	return err == -EBADMSG ? record_refuse(r, place, " is no text") : err;
}

int record_refuse(struct reading *r, const struct place *place, const char *format, ...)
{
	size_t n = place ? put_place(place, r->why, r->why_size) : 0;
	va_list arguments;

	va_start(arguments, format);
	if (n < r->why_size)
		vsnprintf(r->why + n, r->why_size - n, format, arguments);
	va_end(arguments);
	return -EBADMSG;
}

int record_refuse_double(struct reading *r, uint32_t object, const struct place *place)
{
	const char *text = NULL;
	uint32_t key;
	int err = json_double_key(&r->tree, object, &key);

	if (err || !key)
		return err;
	err = record_text(r, key, &text, place);
	return err ? err : record_refuse(r, &(struct place){place, text, 0}, " is there twice");
}

static int fill_from(struct reading *r, const struct field_type *type, uint32_t object,
		     uint32_t *hint, void *out, const struct place *place);

/* ---- values ---- */

static int fill_unsigned(struct reading *r, uint32_t value, uint64_t max, uint64_t *out,
			 const struct place *place)
{
	int64_t number;

	if (!json_tree_integer(&r->tree, value, &number) || number < 0)
		return record_refuse(r, place, " is no whole number of at least 0");
	*out = (uint64_t)number;
	return *out > max ? record_refuse(r, place, " is too large") : 0;
}

static int fill_number(struct reading *r, const struct field *row, uint32_t value, void *out,
		       const struct place *place)
{
	uint64_t number = 0;
	int64_t whole;
	int err = 0;

	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
		return fill_unsigned(r, value, UINT64_MAX, out, place);
	case FIELD_OPT_U64:
		err = fill_unsigned(r, value, UINT64_MAX, &number, place);
		*(struct opt_u64 *)out = SOME_U64(number);
		return err;
	case FIELD_U32:
		err = fill_unsigned(r, value, UINT32_MAX, &number, place);
		*(uint32_t *)out = (uint32_t)number;
		return err;
	case FIELD_I32:
		err = fill_unsigned(r, value, INT32_MAX, &number, place);
		*(int32_t *)out = (int32_t)number;
		return err;
	case FIELD_DOUBLE:
		return json_tree_number(&r->tree, value, out)
			       ? 0
			       : record_refuse(r, place, " is no number");
	default:
		if (!json_tree_integer(&r->tree, value, &whole))
			return record_refuse(r, place, " is no whole number");
		if (row->kind == FIELD_OPT_I64)
			*(struct opt_i64 *)out = SOME_I64(whole);
		else
			*(int64_t *)out = whole;
		return 0;
	}
}

/* The writer put U+FFFD for a byte that was no UTF-8: it becomes such a byte again, so that a name
 * never grows beyond its struct. What does not fit is cut. */
static void fill_chars(const char *text, char *out, size_t size)
{
	size_t n = 0;

	while (*text && n + 1 < size) {
		if (*text == '\xef' && !strncmp(text, "\xef\xbf\xbd", 3)) {
			out[n++] = '\xff';
			text += 3;
		} else {
			out[n++] = *text++;
		}
	}
	out[n] = 0;
}

static int fill_text(struct reading *r, const struct field *row, uint32_t value, void *out,
		     const struct place *place)
{
	const char *text;
	size_t i = 0;
	int err;

	while (row->words && row->words[i] && !json_tree_equals(&r->tree, value, row->words[i]))
		i++;
	if (row->words && row->words[i]) {
		text = row->words[i];
	} else {
		err = record_text(r, value, &text, place);
		if (err)
			return err;
		if (row->words)
			return record_refuse(r, place, " is none of its words: \"%.40s\"", text);
	}
	if (row->kind == FIELD_CHOICE)
		*(unsigned *)out = (unsigned)i;
	else if (row->kind == FIELD_CHARS)
		fill_chars(text, out, row->size);
	else
		*(const char **)out = text;
	return 0;
}

static int fill_object(struct reading *r, const struct field *row, uint32_t value, char *object,
		       const struct place *place)
{
	char *out = object + row->offset;

	if (!json_tree_is_object(&r->tree, value))
		return record_refuse(r, place, " is no object");
	if (row->kind == FIELD_POINTER) {
		void *pointed = arena_take(&r->memory->arena, row->of->size);

		if (!pointed)
			return -ENOMEM;
		memcpy(out, &pointed, sizeof(pointed));
		out = pointed;
	}
	if (row->more_size == sizeof(bool))
		*(bool *)(object + row->more_offset) = true;
	return record_fill_struct(r, row->of, value, out, place);
}

/* Room comes with the elements that were read and not with those that are promised. */
static int fill_list(struct reading *r, const struct field *row, uint32_t value, char *object,
		     const struct place *place)
{
	void **rows = (void **)(object + row->offset);
	size_t *count = (size_t *)(object + row->more_offset), i = 0;
	struct json_walk walk;
	int err;

	if (!json_tree_is_list(&r->tree, value))
		return record_refuse(r, place, " is no list");
	for (walk = json_tree_walk(&r->tree, value); json_walk_next(&r->tree, &walk); i++) {
		struct place here = {place, NULL, i};

		if (!json_tree_is_object(&r->tree, walk.value))
			return record_refuse(r, &here, " is no object");
		*rows = record_grow(r, *rows, i, row->of->size);
		if (!*rows)
			return -ENOMEM;
		err = record_fill_struct(r, row->of, walk.value, (char *)*rows + i * row->of->size,
					 &here);
		if (err)
			return err;
		*count = i + 1;
	}
	return 0;
}

static int fill_named(struct reading *r, const struct field *row, uint32_t value, char *object,
		      const struct place *place)
{
	void **rows = (void **)(object + row->offset);
	size_t *count = (size_t *)(object + row->more_offset);
	struct json_walk walk;
	const char *name;
	char *out;
	int err;

	if (!json_tree_is_object(&r->tree, value))
		return record_refuse(r, place, " is no object");
	err = record_refuse_double(r, value, place);
	if (err)
		return err;
	for (walk = json_tree_walk(&r->tree, value); json_walk_next(&r->tree, &walk);) {
		struct place here = {place, NULL, 0};

		err = record_text(r, walk.key, &name, place);
		if (err)
			return err;
		here.key = name;
		if (!json_tree_is_object(&r->tree, walk.value))
			return record_refuse(r, &here, " is no object");
		*rows = record_grow(r, *rows, *count, row->of->size);
		if (!*rows)
			return -ENOMEM;
		out = (char *)*rows + *count * row->of->size;
		memcpy(out + row->of->name_offset, &name, sizeof(name));
		err = record_fill_struct(r, row->of, walk.value, out, &here);
		if (err)
			return err;
		++*count;
	}
	return 0;
}

/* The row's key has this value; 0: the row has no key of its own. */
static int fill_value(struct reading *r, const struct field_type *type, const struct field *row,
		      uint32_t object, uint32_t value, char *out, const struct place *place)
{
	struct place here = {place, row->key, 0};

	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_ADDRESS:
	case FIELD_DOUBLE:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
		return fill_number(r, row, value, out + row->offset, &here);
	case FIELD_BOOL:
		return json_tree_bool(&r->tree, value, (bool *)(out + row->offset))
			       ? 0
			       : record_refuse(r, &here, " is neither true nor false");
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
		return fill_text(r, row, value, out + row->offset, &here);
	case FIELD_OBJECT:
	case FIELD_POINTER:
		return fill_object(r, row, value, out, &here);
	case FIELD_LIST:
		return fill_list(r, row, value, out, &here);
	case FIELD_NAMED:
		return fill_named(r, row, value, out, &here);
	case FIELD_COUNTERS:
		return record_fill_counters(r, value, (struct counter_list *)(out + row->offset),
					    &here);
	case FIELD_MISSING:
		return record_fill_missing(r, value, (struct missing_list *)(out + row->offset),
					   &here);
	case FIELD_HISTOGRAM:
		return record_fill_histogram(r, value,
					     (const struct histogram **)(out + row->offset), &here);
	case FIELD_TOTALS:
		return record_fill_totals(r, type, object, (struct record_footer *)out, place);
	case FIELD_EVENT_KEYS:
		return record_fill_event_keys(r, type, object, (struct record_event *)out, place);
	case FIELD_FIXED:
	case FIELD_INLINE:
	case FIELD_PARTS:
		break;
	}
	return 0;
}

int record_fill_field(struct reading *r, const struct field_type *type, const struct field *row,
		      uint32_t object, uint32_t *hint, char *out, const struct place *place)
{
	struct place here = {place, row->key, 0};
	const struct field *part;
	uint32_t value;
	int err = 0;

	if (row->kind == FIELD_INLINE)
		return fill_from(r, row->of, object, hint, out + row->offset, place);
	if (row->kind == FIELD_PARTS) {
		for (size_t i = 0; !err && (part = record_next_part(&i));)
			err = record_fill_field(r, type, part, object, hint, out, place);
		return err;
	}
	value = row->key ? json_tree_get(&r->tree, object, row->key, hint) : 0;
	if (row->key && !value)
		return row->need == FIELD_REQUIRED ? record_refuse(r, &here, " is absent") : 0;
	return fill_value(r, type, row, object, value, out, place);
}

static int fill_from(struct reading *r, const struct field_type *type, uint32_t object,
		     uint32_t *hint, void *out, const struct place *place)
{
	int err = 0;

	for (size_t i = 0; i < type->count && !err; i++)
		err = record_fill_field(r, type, &type->fields[i], object, hint, out, place);
	return err;
}

/* Rows nest as their structs do: the depth is that of the table and not of the text. */
int record_fill_struct(struct reading *r, const struct field_type *type, uint32_t object, void *out,
		       const struct place *place)
{
	uint32_t hint = 0, values[SHAPE_KEYS];
	struct shape *shape =
		r->shapes ? shape_of(r->shapes, type, &r->tree, object, values) : NULL;
	int err = 0;

	if (!shape) {
		err = record_refuse_double(r, object, place);
		return err ? err : fill_from(r, type, object, &hint, out, place);
	}
	for (size_t i = 0; i < shape->row_count && !err; i++) {
		const struct shape_row *row = &shape->rows[i];

		err = fill_value(r, row->type, row->field, object,
				 row->key == UINT32_MAX ? 0 : values[row->key],
				 (char *)out + row->base, place);
	}
	shape_end(shape);
	return err;
}

int record_fill(const struct field_type *type, const json_t *object, void *out,
		struct parsed_memory *memory, char *why, size_t why_size)
{
	struct reading r = {.memory = memory, .why = why, .why_size = why_size};
	char *text = json_dumps(object, JSON_COMPACT);
	int err = text ? json_tree_read(&r.tree, text, strlen(text)) : -ENOMEM;

	if (err == -EBADMSG || err == -EMSGSIZE)
		err = record_refuse(&r, NULL,
				    err == -EBADMSG ? "no JSON" : "too many values, or too deep");
	if (!err)
		err = record_fill_struct(&r, type, 0, out, NULL);
	json_tree_free(&r.tree);
	free(text);
	return err;
}
