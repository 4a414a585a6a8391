/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of a recording: its checksum, its type, and the record by the rows of that type. */
#include "record/json_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_read_private.h"
#include "util/crc32c.h"

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
	record_memory_empty(&parsed->memory);
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
	err = record_fill_field(r, NULL, &t_boot_ns, 0, &hint, (char *)record, NULL);
	/* What a summary holds has no rows of a table; there are few of these lines. */
	for (uint32_t at = 0; !err && record->type == RECORD_FOOTER && at < r->tree.count; at++)
		if (json_tree_is_object(&r->tree, at))
			err = record_refuse_double(r, at, NULL);
	if (err)
		return err;
	body = arena_take(&parsed->memory.arena, record_types[index]->size);
	if (!body)
		return -ENOMEM;
	err = record_fill_struct(r, record_types[index], 0, body, NULL);
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
