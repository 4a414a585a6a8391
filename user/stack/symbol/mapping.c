/* SPDX-License-Identifier: BSD-2-Clause */
/* Loading a mapping: each line is checked once, and classes go into a table by their changed
 * names. Members are looked for within their class when a frame asks. */
#include <errno.h>
#include <stdlib.h>

#include "stack/symbol/mapping_find.h"
#include "util/hash.h"

#define NOT_A_LINE                                                                       \
	"no line of a mapping: give the mapping.txt that R8 or ProGuard wrote for this " \
	"build of the app"

static uint64_t hash_of(struct span name)
{
	return hash_bytes(name.at, name.length, 0);
}

/* original -> changed: */
static int parse_class(struct span line, struct mapping_class *class)
{
	const char *arrow = span_find(line, " -> ");

	if (!arrow || line.at[line.length - 1] != ':')
		return -EINVAL;
	class->original = span_trim((struct span){line.at, (size_t)(arrow - line.at)});
	class->obfuscated = span_trim(
		(struct span){arrow + 4, (size_t)(line.at + line.length - 1 - (arrow + 4))});
	class->body = (struct span){line.at + line.length, 0};
	return class->original.length && class->obfuscated.length &&
			       !memchr(class->original.at, ' ', class->original.length)
		       ? 0
		       : -EINVAL;
}

static struct mapping_class *add_class(struct mapping *mapping)
{
	struct mapping_class *more;
	size_t room = mapping->room ? 2 * mapping->room : 1024;

	if (mapping->count == mapping->room) {
		more = reallocarray(mapping->classes, room, sizeof(*more));
		if (!more)
			return NULL;
		mapping->classes = more;
		mapping->room = room;
	}
	return &mapping->classes[mapping->count++];
}

/* Of files that were joined, the lowest. */
static void take_api(struct mapping *mapping, struct span comment)
{
	static const char min_api[] = "# min_api: ";
	unsigned api = 0;

	if (!span_begins(comment, min_api))
		return;
	for (size_t i = sizeof(min_api) - 1; i < comment.length && api < 1000; i++)
		api = comment.at[i] >= '0' && comment.at[i] <= '9'
			      ? api * 10 + (unsigned)(comment.at[i] - '0')
			      : api;
	if (!mapping->min_api || api < mapping->min_api)
		mapping->min_api = api;
}

/* A line of a class, of a member, a comment or an empty one. 0, -EINVAL, -ENOMEM. */
static int take_line(struct mapping *mapping, struct span line)
{
	struct span text = span_trim(line);
	struct mapping_class parsed, *class;
	struct mapping_method method;

	/* Names become C strings. */
	if (text.length && memchr(text.at, 0, text.length))
		return -EINVAL;
	if (!text.length || text.at[0] == '#') {
		take_api(mapping, text);
		return 0;
	}
	if (line.at[0] == ' ' || line.at[0] == '\t') {
		if (!mapping->count)
			return -EINVAL;
		return mapping_parse_member(text, &method) < 0 ? -EINVAL : 0;
	}
	if (parse_class(text, &parsed))
		return -EINVAL;
	class = add_class(mapping);
	if (!class)
		return -ENOMEM;
	*class = parsed;
	return 0;
}

static int take_lines(struct mapping *mapping, struct span rest, struct mapping_error *error)
{
	struct span line;
	int err;

	if (span_begins(rest, "\xef\xbb\xbf")) { /* a byte order mark */
		rest.at += 3;
		rest.length -= 3;
	}
	while (span_line(&rest, &line)) {
		error->line++;
		err = take_line(mapping, line);
		if (err)
			return err;
		if (mapping->count) {
			struct span *body = &mapping->classes[mapping->count - 1].body;

			body->length = (size_t)(rest.at - body->at);
		}
	}
	error->line = 0;
	error->why = "no class in it: is this file whole?";
	return mapping->count ? 0 : -EINVAL;
}

/* Open addressing; at least half of the slots are empty. */
static int index_classes(struct mapping *mapping)
{
	size_t slots = 16;

	while (slots < 2 * mapping->count)
		slots *= 2;
	mapping->slots = calloc(slots, sizeof(*mapping->slots));
	if (!mapping->slots)
		return -ENOMEM;
	mapping->mask = slots - 1;
	for (size_t i = 0; i < mapping->count; i++) {
		size_t at = hash_of(mapping->classes[i].obfuscated) & mapping->mask;

		while (mapping->slots[at])
			at = (at + 1) & mapping->mask;
		mapping->slots[at] = (uint32_t)(i + 1);
	}
	return 0;
}

struct mapping *mapping_new(char *text, size_t length, struct mapping_error *error)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));
	int err = -ENOMEM;

	*error = (struct mapping_error){.why = "no memory"};
	if (!mapping) {
		free(text);
		errno = ENOMEM;
		return NULL;
	}
	mapping->text = text;
	mapping->names.part_bytes = ARENA_KEPT_BYTES;
	if (length > MAPPING_MAX_BYTES) {
		error->why = "larger than 1 GiB: this is no mapping";
		err = -EINVAL;
	} else {
		error->why = NOT_A_LINE;
		err = take_lines(mapping, (struct span){text, length}, error);
		if (!err)
			err = index_classes(mapping);
	}
	if (!err)
		return mapping;
	if (err == -ENOMEM)
		*error = (struct mapping_error){.why = "no memory"};
	mapping_free(mapping);
	errno = -err;
	return NULL;
}

void mapping_free(struct mapping *mapping)
{
	if (!mapping)
		return;
	HASH_CLEAR(hh, mapping->found);
	arena_free(&mapping->names);
	free(mapping->methods);
	free(mapping->classes);
	free(mapping->slots);
	free(mapping->text);
	free(mapping);
}

bool mapping_has_places(const struct mapping *mapping)
{
	return mapping->min_api >= 26;
}

size_t mapping_classes(const struct mapping *mapping)
{
	return mapping->count;
}

uint64_t mapping_left_out(const struct mapping *mapping)
{
	return mapping->left_out;
}

const struct mapping_class *mapping_class(const struct mapping *mapping, struct span obfuscated,
					  const struct mapping_class *after)
{
	size_t at = hash_of(obfuscated) & mapping->mask;
	bool passed = !after;

	for (; mapping->slots[at]; at = (at + 1) & mapping->mask) {
		const struct mapping_class *class = &mapping->classes[mapping->slots[at] - 1];

		if (!span_equal(class->obfuscated, obfuscated))
			continue;
		if (passed)
			return class;
		passed = class == after;
	}
	return NULL;
}
