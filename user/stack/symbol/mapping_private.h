/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the mapping share. */
#pragma once
#include <string.h>

#include "stack/symbol/mapping.h"

/* Bytes within the text. */
struct span {
	const char *at;
	size_t length;
};

static inline bool span_equal(struct span a, struct span b)
{
	return a.length == b.length && !memcmp(a.at, b.at, a.length);
}

static inline bool span_begins(struct span text, const char *with)
{
	size_t length = strlen(with);

	return text.length >= length && !memcmp(text.at, with, length);
}

/* The first place of a text in a span, or NULL. */
const char *span_find(struct span text, const char *what);
/* Without blanks at its ends, and without the CR of a line. */
struct span span_trim(struct span text);
/* Take the next line off *rest; false at its end. */
bool span_line(struct span *rest, struct span *line);

/* A class: its names, and the lines of its members. */
struct mapping_class {
	struct span original, obfuscated, body;
};

/* The class behind `after` that has this changed name (NULL: the first); NULL: there is no other.
 * Files that were joined may have several. */
const struct mapping_class *mapping_class(const struct mapping *mapping, struct span obfuscated,
					  const struct mapping_class *after);

/* One line of a method. */
struct mapping_method {
	struct span type, owner /* empty: its class */, name, arguments, obfuscated;
	bool has_range, has_original; /* lines in the changed code, lines in the source */
	uint32_t from, to, original_from, original_to;
	/* of the comments below the line */
	bool synthesized;
	struct span residual; /* descriptor of the changed method, empty: as its names say */
	const struct mapping_class *of;
};

/* 1: a method; 0: a field; -EINVAL: neither. line is trimmed. */
int mapping_parse_member(struct span line, struct mapping_method *method);

/* The changed name of a frame in its parts; type and arguments are empty where it has none. */
struct mapping_symbol {
	struct span type, owner, name, arguments;
	bool has_signature;
};

/* False: this is no name of a method. */
bool mapping_parse_symbol(const char *text, struct mapping_symbol *symbol);
/* Whether the frame's types can be those of the method. */
bool mapping_same_types(const struct mapping *mapping, const struct mapping_symbol *symbol,
			const struct mapping_method *method);
