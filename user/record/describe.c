/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding and walking the rows of the table of fields. */
#include <stdio.h>
#include <string.h>

#include "jankscope/source.h"
#include "record/fields.h"

const struct field *record_next_part(size_t *index)
{
	while (*index < source_declaration_count) {
		const struct field *part = source_declarations[(*index)++]->part;

		if (part)
			return part;
	}
	return NULL;
}

const char *key_unit_name(const char *key)
{
	static const char *const units[] = {"ns", "bytes", "pct", "ua", "uv",
					    "mc", "uah",   "uj",  "khz"};
	const char *end = strrchr(key, '_');

	for (size_t i = 0; end && i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(end + 1, units[i]))
			return units[i];
	return "";
}

const char *field_unit_name(const struct field *field)
{
	static const char *const names[] = {
		[UNIT_NS] = "ns",   [UNIT_BYTES] = "bytes",    [UNIT_COUNT] = "count",
		[UNIT_ID] = "id",   [UNIT_PER_SECOND] = "1/s", [UNIT_UUID] = "UUID",
		[UNIT_HEX] = "hex",
	};
	const char *name = field->unit < sizeof(names) / sizeof(*names) ? names[field->unit] : NULL;

	if (!name && field->unit == UNIT_NONE && field->key)
		return key_unit_name(field->key);
	return name ? name : "";
}

/* Objects do not nest deeper: the fields of a chain of rows are known at build time. */
#define MAX_DEPTH 8

struct walk {
	struct field_visit visit;
	int (*fn)(void *ctx, const struct field_visit *visit);
	void *ctx;
	char path[160];
};

static int walk_type(struct walk *walk, const struct field_type *type, size_t prefix);

static int walk_row(struct walk *walk, const struct field *row, size_t prefix)
{
	size_t length;
	int err;

	if (row->kind == FIELD_INLINE)
		return walk_type(walk, row->of, prefix);
	if (row->kind == FIELD_PARTS) {
		const struct field *part;
		size_t i = 0;

		while ((part = record_next_part(&i))) {
			err = walk_row(walk, part, prefix);
			if (err)
				return err;
		}
		return 0;
	}
	if (!row->key)
		return 0;
	length = prefix + strnlen(row->key, sizeof(walk->path) - prefix - 1);
	memcpy(walk->path + prefix, row->key, length - prefix);
	walk->path[length] = 0;
	walk->visit.field = row;
	err = walk->fn(walk->ctx, &walk->visit);
	if (err || length + 2 > sizeof(walk->path) || walk->visit.depth == MAX_DEPTH ||
	    (row->kind != FIELD_OBJECT && row->kind != FIELD_POINTER && row->kind != FIELD_LIST &&
	     row->kind != FIELD_NAMED))
		return err;
	walk->path[length] = '.';
	walk->visit.depth++;
	err = walk_type(walk, row->of, length + 1);
	walk->visit.depth--;
	return err;
}

static int walk_type(struct walk *walk, const struct field_type *type, size_t prefix)
{
	int err = 0;

	for (size_t i = 0; i < type->count && !err; i++)
		err = walk_row(walk, &type->fields[i], prefix);
	return err;
}

int field_each(enum record_type type, int (*visit)(void *ctx, const struct field_visit *visit),
	       void *ctx)
{
	struct walk walk = {.fn = visit, .ctx = ctx};

	walk.visit.record = record_type_names[type];
	walk.visit.path = walk.path;
	return walk_type(&walk, record_types[type], 0);
}

struct search {
	const char *path;
	const struct field *found;
};

static int compare(void *ctx, const struct field_visit *visit)
{
	struct search *search = ctx;

	if (strcmp(visit->path, search->path))
		return 0;
	search->found = visit->field;
	return 1;
}

const struct field *field_find(const char *record, const char *path)
{
	struct search search = {path, NULL};

	for (int type = 0; type < RECORD_TYPES; type++)
		if (!strcmp(record_type_names[type], record))
			field_each((enum record_type)type, compare, &search);
	return search.found;
}

const char *field_meaning(const char *record, const char *path)
{
	const struct field *field = field_find(record, path);

	return field ? field->meaning : NULL;
}
