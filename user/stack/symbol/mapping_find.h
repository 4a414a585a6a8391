/* SPDX-License-Identifier: BSD-2-Clause */
/* The loaded mapping, and the names that were found in it. */
#pragma once
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
};
