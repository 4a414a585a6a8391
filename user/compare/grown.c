/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/grown.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define NS_PER_HOUR 3600e9

struct name {
	UT_hash_handle hh;
	uint64_t ns[2];
	bool listed[2];
	char text[];
};

struct grown {
	struct name *names;
};

struct grown *grown_new(void)
{
	return calloc(1, sizeof(struct grown));
}

void grown_free(struct grown *grown)
{
	struct name *name, *next;

	if (!grown)
		return;
	HASH_ITER (hh, grown->names, name, next) {
		HASH_DEL(grown->names, name);
		free(name);
	}
	free(grown);
}

int grown_add(struct grown *grown, int side, const char *text, uint64_t ns)
{
	size_t length = strlen(text);
	struct name *name;

	HASH_FIND(hh, grown->names, text, length, name);
	if (!name) {
		if (HASH_COUNT(grown->names) == GROWN_NAMES)
			return 0;
		name = calloc(1, sizeof(*name) + length + 1);
		if (!name)
			return -ENOMEM;
		memcpy(name->text, text, length + 1);
		HASH_ADD(hh, grown->names, text, length, name);
	}
	name->ns[side] += ns;
	name->listed[side] = true;
	return 0;
}

static double growth(const struct grown_row *row)
{
	return (isnan(row->new) ? 0 : row->new) - (isnan(row->old) ? 0 : row->old);
}

/* The most growth first; the name decides between equal ones. */
static bool is_before(const struct grown_row *a, const struct grown_row *b)
{
	if (growth(a) != growth(b))
		return growth(a) > growth(b);
	return strcmp(a->name, b->name) < 0;
}

size_t grown_top(struct grown *grown, const uint64_t dur_ns[2], struct grown_row *rows,
		 size_t count)
{
	struct name *name, *next;
	size_t used = 0, at;

	HASH_ITER (hh, grown->names, name, next) {
		struct grown_row row = {.name = name->text};

		row.old = name->listed[0] ? (double)name->ns[0] / (double)dur_ns[0] * NS_PER_HOUR
					  : NAN;
		row.new = name->listed[1] ? (double)name->ns[1] / (double)dur_ns[1] * NS_PER_HOUR
					  : NAN;
		if (!(growth(&row) > 0))
			continue;
		for (at = used; at && is_before(&row, &rows[at - 1]); at--)
			if (at < count)
				rows[at] = rows[at - 1];
		if (at < count)
			rows[at] = row;
		used += used < count;
	}
	return used;
}
