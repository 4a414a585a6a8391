/* SPDX-License-Identifier: BSD-2-Clause */
/* Names (of threads, of stacks) with a time on two sides: which of them grew. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define GROWN_NAMES 4096 /* at most; more are not taken */

struct grown;

struct grown_row {
	const char *name;
	double old, new; /* ns an hour; not a number: not listed on that side */
};

/* NULL with ENOMEM. */
struct grown *grown_new(void);
void grown_free(struct grown *grown);
/* side: 0 old, 1 new. 0, -ENOMEM. */
int grown_add(struct grown *grown, int side, const char *name, uint64_t ns);
/* Those that grew most, given how long each side was measured. Returns how many there are in rows,
 * at most count; names belong to grown. */
size_t grown_top(struct grown *grown, const uint64_t dur_ns[2], struct grown_row *rows,
		 size_t count);
