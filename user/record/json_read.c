/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/histogram.h"
#include "record/json_double.h"
#include "record/json_read_private.h"
#include "util/arena.h"
#include "util/crc32c.h"

struct parsed_memory *record_memory_new(void)
{
	return calloc(1, sizeof(struct parsed_memory));
}

static void empty(struct parsed_memory *memory)
{
	for (size_t i = 0; i < memory->histogram_count; i++)
		histogram_free(memory->histograms[i]);
	arena_free(&memory->arena);
}

void record_memory_free(struct parsed_memory *memory)
{
	if (memory)
		empty(memory);
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

static int fill(struct reading *r, const struct field_type *type, uint32_t object, void *out,
		const struct place *place);
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
	return fill(r, row->of, value, out, place);
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
		err = fill(r, row->of, walk.value, (char *)*rows + i * row->of->size, &here);
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
		err = fill(r, row->of, walk.value, out, &here);
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

/* *hint: where the key is looked for first (json_tree_get). */
static int fill_field(struct reading *r, const struct field_type *type, const struct field *row,
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
			err = fill_field(r, type, part, object, hint, out, place);
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
		err = fill_field(r, type, &type->fields[i], object, hint, out, place);
	return err;
}

/* Rows nest as their structs do: the depth is that of the table and not of the text. */
static int fill(struct reading *r, const struct field_type *type, uint32_t object, void *out,
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
		err = fill(&r, type, 0, out, NULL);
	json_tree_free(&r.tree);
	free(text);
	return err;
}

/* ---- lines ---- */

/* What a longer line took is given back. */
#define KEPT_TOKENS 4096

struct parsed {
	struct parsed_record base;
	struct parsed_memory memory;
};

void parsed_record_free(struct parsed_record *record)
{
	struct parsed *parsed = (struct parsed *)record;

	if (!parsed)
		return;
	empty(&parsed->memory);
	free(parsed);
}

/* The checksum is that of the bytes before its own key, which is the last. */
static bool is_whole(const char *line, size_t length)
{
	static const char key[] = ",\"crc\":\"";
	const size_t tail = sizeof(key) - 1 + 8 + 2;
	char text[9];

	if (length < tail || memcmp(line + length - tail, key, sizeof(key) - 1) ||
	    memcmp(line + length - 2, "\"}", 2))
		return false;
	snprintf(text, sizeof(text), "%08x", crc32c(0, line, length - tail));
	return !memcmp(line + length - 10, text, 8);
}

static int parse(struct parsed *parsed, struct reading *r)
{
	static const struct field t_boot_ns =
		FIELD(struct record, t_boot_ns, REQUIRED, NS, "end of what the record tells of");
	struct record *record = &parsed->base.record;
	uint32_t hint = 0, type = json_tree_get(&r->tree, 0, "type", &hint), place;
	int64_t number;
	void *body;
	int index = 0, err;

	if (!type || !json_tree_is_text(&r->tree, type))
		return record_refuse(r, NULL, "no record");
	place = json_tree_get(&r->tree, 0, "seq", &hint);
	parsed->base.has_seq = place && json_tree_integer(&r->tree, place, &number) && number >= 0;
	if (parsed->base.has_seq)
		record->seq = (uint64_t)number;
	while (index < RECORD_TYPES && !json_tree_equals(&r->tree, type, record_type_names[index]))
		index++;
	if (index == RECORD_TYPES)
		return 0;
	record->type = (enum record_type)index;
	if (record->type == RECORD_HEADER) {
		place = json_tree_get(&r->tree, 0, "schema", &hint);
		parsed->base.schema =
			place && json_tree_integer(&r->tree, place, &number) ? number : -1;
		if (parsed->base.schema > RECORD_SCHEMA)
			return -EPROTONOSUPPORT;
		if (parsed->base.schema < 1)
			return record_refuse(r, NULL, "the header names no schema");
	}
	err = fill_field(r, NULL, &t_boot_ns, 0, &hint, (char *)record, NULL);
	/* What a summary holds has no rows of a table; there are few of these lines. */
	for (uint32_t at = 0; !err && record->type == RECORD_FOOTER && at < r->tree.count; at++)
		if (json_tree_is_object(&r->tree, at))
			err = record_refuse_double(r, at, NULL);
	if (err)
		return err;
	body = arena_take(&parsed->memory.arena, record_types[index]->size);
	if (!body)
		return -ENOMEM;
	err = fill(r, record_types[index], 0, body, NULL);
	record->header = body; /* all members of the union are pointers */
	if (!err && record->type == RECORD_STACK)
		((struct record_addition *)body)->stack.t_boot_ns = record->t_boot_ns;
	parsed->base.known = !err;
	return err;
}

int record_parse(const char *line, size_t length, struct parsed_record **out, char *why,
		 size_t why_size)
{
	return record_parse_shaped(NULL, line, length, out, why, why_size);
}

int record_parse_shaped(struct shapes *shapes, const char *line, size_t length,
			struct parsed_record **out, char *why, size_t why_size)
{
	struct parsed *parsed;
	struct reading r = {.shapes = shapes, .why = why, .why_size = why_size};
	int err;

	*out = NULL;
	if (!is_whole(line, length))
		return record_refuse(&r, NULL, "the checksum is wrong");
	parsed = calloc(1, sizeof(*parsed));
	if (!parsed)
		return -ENOMEM;
	r.memory = &parsed->memory;
	if (shapes)
		r.tree = *shapes_tree(shapes);
	err = json_tree_read_again(&r.tree, line, length);
	if (err == -EMSGSIZE)
		err = record_refuse(&r, NULL, "too many values, or too deep");
	else if (err == -EBADMSG)
		err = record_refuse(&r, NULL, "no JSON");
	else if (!err)
		err = parse(parsed, &r);
	if (!shapes || r.tree.room > KEPT_TOKENS)
		json_tree_free(&r.tree);
	if (shapes)
		*shapes_tree(shapes) = r.tree;
	*out = &parsed->base;
	return err;
}
