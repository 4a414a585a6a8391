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
#include "record/json_read_private.h"
#include "util/arena.h"
#include "util/crc32c.h"

struct parsed_memory *record_memory_new(void)
{
	return calloc(1, sizeof(struct parsed_memory));
}

void record_memory_free(struct parsed_memory *memory)
{
	if (!memory)
		return;
	for (size_t i = 0; i < memory->histogram_count; i++)
		histogram_free(memory->histograms[i]);
	arena_free(&memory->arena);
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

static int fill(struct reading *r, const struct field_type *type, const json_t *object, void *out,
		const struct place *place);

/* ---- values ---- */

static int fill_unsigned(struct reading *r, const json_t *value, uint64_t max, uint64_t *out,
			 const struct place *place)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return record_refuse(r, place, " is no whole number of at least 0");
	*out = (uint64_t)json_integer_value(value);
	return *out > max ? record_refuse(r, place, " is too large") : 0;
}

static int fill_number(struct reading *r, const struct field *row, const json_t *value, void *out,
		       const struct place *place)
{
	uint64_t number = 0;
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
		if (!json_is_number(value))
			return record_refuse(r, place, " is no number");
		*(double *)out = json_number_value(value);
		return 0;
	default:
		if (!json_is_integer(value))
			return record_refuse(r, place, " is no whole number");
		if (row->kind == FIELD_OPT_I64)
			*(struct opt_i64 *)out = SOME_I64((int64_t)json_integer_value(value));
		else
			*(int64_t *)out = (int64_t)json_integer_value(value);
		return 0;
	}
}

/* The writer put U+FFFD for a byte that was no UTF-8: it becomes such a byte again, so that a name
 * never grows beyond its struct. What does not fit is cut. */
static void fill_chars(const char *text, char *out, size_t size)
{
	size_t n = 0;

	while (*text && n + 1 < size) {
		if (!strncmp(text, "\xef\xbf\xbd", 3)) {
			out[n++] = '\xff';
			text += 3;
		} else {
			out[n++] = *text++;
		}
	}
	out[n] = 0;
}

static int fill_text(struct reading *r, const struct field *row, const json_t *value, void *out,
		     const struct place *place)
{
	const char *text = json_string_value(value);
	size_t i = 0;

	if (!text)
		return record_refuse(r, place, " is no text");
	while (row->words && row->words[i] && strcmp(row->words[i], text))
		i++;
	if (row->words && !row->words[i])
		return record_refuse(r, place, " is none of its words: \"%.40s\"", text);
	if (row->kind == FIELD_CHOICE)
		*(unsigned *)out = (unsigned)i;
	else if (row->kind == FIELD_CHARS)
		fill_chars(text, out, row->size);
	else
		*(const char **)out = text;
	return 0;
}

static int fill_object(struct reading *r, const struct field *row, const json_t *value,
		       char *object, const struct place *place)
{
	char *out = object + row->offset;

	if (!json_is_object(value))
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
static int fill_list(struct reading *r, const struct field *row, const json_t *value, char *object,
		     const struct place *place)
{
	void **rows = (void **)(object + row->offset);
	size_t *count = (size_t *)(object + row->more_offset), i;
	json_t *element;
	int err;

	if (!json_is_array(value))
		return record_refuse(r, place, " is no list");
	json_array_foreach (value, i, element) {
		struct place here = {place, NULL, i};

		if (!json_is_object(element))
			return record_refuse(r, &here, " is no object");
		*rows = record_grow(r, *rows, i, row->of->size);
		if (!*rows)
			return -ENOMEM;
		err = fill(r, row->of, element, (char *)*rows + i * row->of->size, &here);
		if (err)
			return err;
		*count = i + 1;
	}
	return 0;
}

static int fill_named(struct reading *r, const struct field *row, const json_t *value, char *object,
		      const struct place *place)
{
	void **rows = (void **)(object + row->offset);
	size_t *count = (size_t *)(object + row->more_offset);
	const char *key;
	json_t *element;
	int err;

	if (!json_is_object(value))
		return record_refuse(r, place, " is no object");
	json_object_foreach ((json_t *)value, key, element) {
		struct place here = {place, key, 0};
		char *name = arena_take(&r->memory->arena, strlen(key) + 1), *out;

		if (!json_is_object(element))
			return record_refuse(r, &here, " is no object");
		*rows = record_grow(r, *rows, *count, row->of->size);
		if (!*rows || !name)
			return -ENOMEM;
		out = (char *)*rows + *count * row->of->size;
		strcpy(name, key);
		memcpy(out + row->of->name_offset, &name, sizeof(name));
		err = fill(r, row->of, element, out, &here);
		if (err)
			return err;
		++*count;
	}
	return 0;
}

static int fill_field(struct reading *r, const struct field_type *type, const struct field *row,
		      const json_t *object, char *out, const struct place *place)
{
	const json_t *value = row->key ? json_object_get(object, row->key) : NULL;
	struct place here = {place, row->key, 0};
	const struct field *part;
	int err = 0;

	if (row->key && !value)
		return row->need == FIELD_REQUIRED ? record_refuse(r, &here, " is absent") : 0;
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
		if (!json_is_boolean(value))
			return record_refuse(r, &here, " is neither true nor false");
		*(bool *)(out + row->offset) = json_is_true(value);
		return 0;
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
		return fill_text(r, row, value, out + row->offset, &here);
	case FIELD_FIXED:
		return 0;
	case FIELD_OBJECT:
	case FIELD_POINTER:
		return fill_object(r, row, value, out, &here);
	case FIELD_LIST:
		return fill_list(r, row, value, out, &here);
	case FIELD_NAMED:
		return fill_named(r, row, value, out, &here);
	case FIELD_INLINE:
		return fill(r, row->of, object, out + row->offset, place);
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
	case FIELD_PARTS:
		for (size_t i = 0; !err && (part = record_next_part(&i));)
			err = fill_field(r, type, part, object, out, place);
		return err;
	}
	return 0;
}

/* Rows nest as their structs do: the depth is that of the table and not of the text. */
static int fill(struct reading *r, const struct field_type *type, const json_t *object, void *out,
		const struct place *place)
{
	int err = 0;

	for (size_t i = 0; i < type->count && !err; i++)
		err = fill_field(r, type, &type->fields[i], object, out, place);
	return err;
}

int record_fill(const struct field_type *type, const json_t *object, void *out,
		struct parsed_memory *memory, char *why, size_t why_size)
{
	struct reading r = {memory, why, why_size};

	return fill(&r, type, object, out, NULL);
}

/* ---- lines ---- */

struct parsed {
	struct parsed_record base;
	json_t *object;
	struct parsed_memory *memory;
};

void parsed_record_free(struct parsed_record *record)
{
	struct parsed *parsed = (struct parsed *)record;

	if (!parsed)
		return;
	json_decref(parsed->object);
	record_memory_free(parsed->memory);
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
	struct record *record = &parsed->base.record;
	const json_t *seq = json_object_get(parsed->object, "seq");
	const char *type = json_string_value(json_object_get(parsed->object, "type"));
	static const struct field t_boot_ns =
		FIELD(struct record, t_boot_ns, REQUIRED, NS, "end of what the record tells of");
	void *body;
	int index = 0, err;

	if (!type)
		return record_refuse(r, NULL, "no record");
	parsed->base.has_seq = json_is_integer(seq) && json_integer_value(seq) >= 0;
	if (parsed->base.has_seq)
		record->seq = (uint64_t)json_integer_value(seq);
	while (index < RECORD_TYPES && strcmp(record_type_names[index], type))
		index++;
	if (index == RECORD_TYPES)
		return 0;
	record->type = (enum record_type)index;
	if (record->type == RECORD_HEADER) {
		const json_t *schema = json_object_get(parsed->object, "schema");

		parsed->base.schema = json_is_integer(schema) ? json_integer_value(schema) : -1;
		if (parsed->base.schema > RECORD_SCHEMA)
			return -EPROTONOSUPPORT;
		if (parsed->base.schema < 1)
			return record_refuse(r, NULL, "the header names no schema");
	}
	err = fill_field(r, NULL, &t_boot_ns, parsed->object, (char *)record, NULL);
	if (err)
		return err;
	body = arena_take(&parsed->memory->arena, record_types[index]->size);
	if (!body)
		return -ENOMEM;
	err = fill(r, record_types[index], parsed->object, body, NULL);
	record->header = body; /* all members of the union are pointers */
	if (!err && record->type == RECORD_STACK)
		((struct record_addition *)body)->stack.t_boot_ns = record->t_boot_ns;
	parsed->base.known = !err;
	return err;
}

int record_parse(const char *line, size_t length, struct parsed_record **out, char *why,
		 size_t why_size)
{
	struct parsed *parsed;
	struct reading r = {NULL, why, why_size};
	int err;

	*out = NULL;
	if (!is_whole(line, length))
		return record_refuse(&r, NULL, "the checksum is wrong");
	parsed = calloc(1, sizeof(*parsed));
	if (parsed)
		parsed->memory = record_memory_new();
	if (!parsed || !parsed->memory) {
		parsed_record_free(&parsed->base);
		return -ENOMEM;
	}
	r.memory = parsed->memory;
	parsed->object = json_loadb(line, length, 0, NULL);
	err = parsed->object ? parse(parsed, &r) : record_refuse(&r, NULL, "no JSON");
	*out = &parsed->base;
	return err;
}
