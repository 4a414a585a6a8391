/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_buffer.h"

static void __attribute__((format(printf, 2, 3)))
put(struct json_buffer *b, const char *format, ...)
{
	char text[256];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length >= 0 && (size_t)length < sizeof(text))
		json_put_raw(b, text, (size_t)length);
	else
		b->failed = true;
}

/* A value behind a colon and a blank: nothing is to be separated from it. */
static void put_text(struct json_buffer *b, const char *text)
{
	struct json_buffer quoted = {0};

	json_put_text(&quoted, text, SIZE_MAX);
	if (quoted.failed)
		b->failed = true;
	else
		json_put_raw(b, quoted.text, quoted.length);
	free(quoted.text);
}

static const char *number_of(const struct field *row)
{
	switch ((enum field_unit)row->unit) {
	case UNIT_NS:
		return "ns";
	case UNIT_BYTES:
		return "bytes";
	default:
		return "count";
	}
}

static void put_words(struct json_buffer *b, const char *const *words)
{
	put(b, "\"enum\": [");
	for (size_t i = 0; words[i]; i++) {
		put(b, i ? ", " : "");
		put_text(b, words[i]);
	}
	put(b, "]");
}

static void put_string(struct json_buffer *b, const struct field *row)
{
	if (row->kind != FIELD_FIXED && row->words) {
		put_words(b, row->words);
		return;
	}
	put(b, "\"type\": \"string\"");
	if (row->unit == UNIT_UUID)
		put(b, ", \"pattern\": \"^[0-9a-f-]{36}$\"");
	else if (row->unit == UNIT_HEX)
		put(b, ", \"pattern\": \"^[0-9a-f]*$\"");
	else if (row->kind == FIELD_CHARS)
		put(b, ", \"maxLength\": %d", row->size - 1);
	else if (row->kind == FIELD_TEXT && row->need == FIELD_REQUIRED)
		put(b, ", \"minLength\": 1");
}

static void put_constraint(struct json_buffer *b, const struct field *row)
{
	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_OPT_U64:
		put(b, "\"$ref\": \"#/$defs/%s\"", number_of(row));
		break;
	case FIELD_I64:
	case FIELD_OPT_I64:
	case FIELD_ADDRESS:
		put(b, "\"type\": \"integer\"");
		break;
	case FIELD_DOUBLE:
		put(b, "\"type\": \"number\", \"minimum\": 0");
		break;
	case FIELD_BOOL:
		put(b, row->need == FIELD_NONZERO ? "\"const\": true" : "\"type\": \"boolean\"");
		break;
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
		put_string(b, row);
		break;
	case FIELD_FIXED:
		if (row->unit == UNIT_NAME)
			put_string(b, row);
		else
			put(b, "\"const\": %s", row->words[0]);
		break;
	case FIELD_OBJECT:
	case FIELD_POINTER:
		put(b, "\"$ref\": \"#/$defs/%s\"", row->of->name);
		break;
	case FIELD_LIST:
		put(b, "\"type\": \"array\", \"items\": { \"$ref\": \"#/$defs/%s\" }",
		    row->of->name);
		break;
	case FIELD_NAMED:
		put(b,
		    "\"type\": \"object\", \"additionalProperties\": { \"$ref\": \"#/$defs/%s\" }",
		    row->of->name);
		break;
	case FIELD_COUNTERS:
		put(b, "\"$ref\": \"#/$defs/counters\"");
		break;
	case FIELD_MISSING:
		put(b, "\"$ref\": \"#/$defs/missing\"");
		break;
	case FIELD_HISTOGRAM:
		put(b, "\"type\": \"array\", \"items\": { \"type\": \"array\", \"items\": { "
		       "\"$ref\": \"#/$defs/count\" }, \"minItems\": 3, \"maxItems\": 3 }");
		break;
	case FIELD_INLINE:
	case FIELD_TOTALS:
	case FIELD_EVENT_KEYS:
	case FIELD_PARTS:
		break;
	}
}

/* Call fn for the rows of a type that have a key, those of inlined types and of sources too. */
static void each_row(const struct field *rows, size_t count,
		     void (*fn)(void *ctx, const struct field *row), void *ctx)
{
	for (size_t i = 0; i < count; i++) {
		const struct field *row = &rows[i], *part;

		if (row->kind == FIELD_INLINE)
			each_row(row->of->fields, row->of->count, fn, ctx);
		for (size_t k = 0; row->kind == FIELD_PARTS && (part = record_next_part(&k));)
			fn(ctx, part);
		if (row->key)
			fn(ctx, row);
	}
}

struct properties {
	struct json_buffer *b;
	size_t count;
};

static void put_required(void *ctx, const struct field *row)
{
	struct properties *p = ctx;

	if (row->need == FIELD_REQUIRED)
		put(p->b, "%s\"%s\"", p->count++ ? ", " : "", row->key);
}

static void put_property(void *ctx, const struct field *row)
{
	struct properties *p = ctx;

	put(p->b, "%s        \"%s\": { ", p->count++ ? ",\n" : "", row->key);
	put_constraint(p->b, row);
	put(p->b, ", \"description\": ");
	put_text(p->b, row->meaning);
	put(p->b, " }");
}

static void put_type(struct json_buffer *b, const struct field_type *type)
{
	struct properties p = {b, 0};

	put(b, "{\n      \"type\": \"object\",\n");
	if (type->meaning) {
		put(b, "      \"description\": ");
		put_text(b, type->meaning);
		put(b, ",\n");
	}
	if (type->some)
		put(b, "      \"minProperties\": 1,\n");
	put(b, "      \"required\": [");
	each_row(type->fields, type->count, put_required, &p);
	put(b, "],\n      \"properties\": {\n");
	p.count = 0;
	each_row(type->fields, type->count, put_property, &p);
	put(b, "\n      }\n    }");
}

/* ---- the whole schema ---- */

#define MAX_TYPES 128

struct types {
	const struct field_type *items[MAX_TYPES];
	size_t count;
};

static void add_types(void *ctx, const struct field *row);

/* Each type once. The rows nest as the structs do, so that this ends. */
static void add_type(struct types *types, const struct field_type *type)
{
	for (size_t i = 0; i < types->count; i++)
		if (types->items[i] == type)
			return;
	if (types->count == MAX_TYPES)
		return;
	types->items[types->count++] = type;
	each_row(type->fields, type->count, add_types, types);
}

static void add_types(void *ctx, const struct field *row)
{
	if (row->kind == FIELD_OBJECT || row->kind == FIELD_POINTER || row->kind == FIELD_LIST ||
	    row->kind == FIELD_NAMED)
		add_type(ctx, row->of);
}

static char *finish(struct json_buffer *b)
{
	if (!b->failed)
		return b->text;
	free(b->text);
	errno = ENOMEM;
	return NULL;
}

char *record_type_schema(const struct field_type *type)
{
	struct json_buffer b = {0};

	put_type(&b, type);
	return finish(&b);
}

char *record_schema(void)
{
	struct json_buffer b = {0};
	struct types types = {0};

	put(&b, "{\n"
		"  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
		"  \"title\": \"one line of a jankscope recording\",\n"
		"  \"type\": \"object\",\n"
		"  \"required\": [\"type\", \"seq\", \"t_boot_ns\", \"crc\"],\n"
		"  \"properties\": {\n");
	put(&b, "    \"type\": { ");
	put_words(&b, record_type_names);
	put(&b, " },\n"
		"    \"seq\": { \"$ref\": \"#/$defs/count\" },\n"
		"    \"t_boot_ns\": { \"$ref\": \"#/$defs/ns\" },\n"
		"    \"crc\": { \"type\": \"string\", \"pattern\": \"^[0-9a-f]{8}$\" }\n"
		"  },\n"
		"  \"allOf\": [\n");
	for (size_t i = 0; i < RECORD_TYPES; i++) {
		put(&b, "    { \"if\": { \"properties\": { \"type\": { \"const\": \"%s\" } } }, ",
		    record_type_names[i]);
		put(&b, "\"then\": { \"$ref\": \"#/$defs/%s\" } }%s\n", record_types[i]->name,
		    i + 1 < RECORD_TYPES ? "," : "");
		add_type(&types, record_types[i]);
	}
	put(&b, "  ],\n"
		"  \"$defs\": {\n"
		"    \"count\": { \"type\": \"integer\", \"minimum\": 0 },\n"
		"    \"ns\": { \"type\": \"integer\", \"minimum\": 0 },\n"
		"    \"bytes\": { \"type\": \"integer\", \"minimum\": 0 },\n");
	put(&b, "    \"counters\": { \"type\": \"object\", \"additionalProperties\": { \"$ref\": "
		"\"#/$defs/count\" } },\n"
		"    \"missing\": { \"type\": \"object\", \"additionalProperties\": { \"type\": "
		"\"string\", \"minLength\": 1 } }");
	for (size_t i = 0; i < types.count; i++) {
		put(&b, ",\n    \"%s\": ", types.items[i]->name);
		put_type(&b, types.items[i]);
	}
	put(&b, "\n  }\n}\n");
	return finish(&b);
}
