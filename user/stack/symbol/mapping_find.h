/* SPDX-License-Identifier: BSD-2-Clause */
/* The loaded mapping, what is looked for in it, and the names that were found. */
#pragma once
#include <stdio.h>
#include <uthash.h>

#include "stack/symbol/mapping_private.h"
#include "util/arena.h"

struct mapping_found {
	struct mapping_name *names;
	size_t count;
	UT_hash_handle hh;
	char key[]; /* the line in hex, a blank, the symbol */
};

struct mapping {
	char *text;
	struct mapping_class *classes;
	size_t count, room;
	uint32_t *slots; /* index of a class + 1, 0: empty */
	size_t mask;
	struct mapping_method *methods; /* of the symbol that is looked for */
	size_t method_room;
	struct mapping_found *found;
	struct arena names;
	size_t kept_bytes;
	uint64_t left_out;
	unsigned min_api; /* that the app is for, as R8 writes it; 0: it does not say */
};

/* Lines of the mapping that belong together: one place in the changed code, innermost first. */
struct mapping_group {
	const struct mapping_method *methods;
	size_t count;
};

struct mapping_search {
	struct mapping *mapping;
	struct mapping_symbol symbol;
	size_t method_count, group_count;
	struct mapping_group *groups;
};

/* The method that the changed code was made of; others were inlined into it. */
static inline const struct mapping_method *mapping_outermost(const struct mapping_group *group)
{
	return &group->methods[group->count - 1];
}

bool mapping_same_method(const struct mapping_method *a, const struct mapping_method *b);
/* One text a line of what is written: the names, innermost first. Returns how many. */
size_t mapping_put_names(FILE *out, const struct mapping_search *search,
			 const struct mapping_class *class);
