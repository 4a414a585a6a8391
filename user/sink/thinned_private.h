/* SPDX-License-Identifier: BSD-2-Clause */
/* What thinned.c and thinned_put.c share; nobody else includes it. */
#pragma once
#include <uthash.h>

#include "sink/thinned.h"

#define THINNED_NAME_BYTES 160

struct row {
	uint64_t begin_ns, end_ns, dur_ns;
	uint32_t intervals;
	uint64_t measured_ns[THINNED_GROUPS];
};

/* weight: of a sum, ns of intervals that it was added to; of a level, how often it was read. */
struct cell {
	double min, max, sum, weight;
};

struct series {
	char key[THINNED_NAME_BYTES + 4]; /* group, kind, name */
	enum thinned_group group;
	enum series_kind kind;
	const char *unit;
	double now; /* in the interval that is being added */
	bool touched, has_name;
	double total, greatest;
	struct cell cells[THINNED_ROWS];
	UT_hash_handle hh;
};

/* A name that has no series: only what came of it is counted, until that is more than a series has.
 */
struct waiting {
	char key[THINNED_NAME_BYTES + 4];
	double total;
	UT_hash_handle hh;
};

#define WAITING 4096

struct thinned {
	struct row rows[THINNED_ROWS];
	size_t count;
	uint32_t stride; /* intervals of a row */
	uint64_t dur_ns; /* of the interval that is being added */
	struct series *series, **touched;
	size_t touched_count, touched_room;
	/* of those with a limit: how many there are, and what each of them has at the least */
	struct slot {
		size_t count;
		double least;
	} slots[THINNED_GROUPS][2];
	struct waiting *waiting; /* by key */
};

/* What of a series decides which has a name of its own: the sum, or the greatest level. */
double thinned_weight_of(const struct series *series);
/* Add a sum to the group's series without a name, which is made where it is not there. 0 or
 * -ENOMEM. */
int thinned_give_to_others(struct thinned *thinned, struct series *series);
