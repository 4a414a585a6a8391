/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks grouped by what they did, in bounded memory: by the functions that tell (record/telling.h)
 * of the heaviest stack of each. */
#pragma once
#include "jankscope/record.h"

/* Groups that the footer of a recording lists. */
#define BLOCK_PATHS 10

struct block_groups;

/* native: ART's own code may tell, too. NULL with ENOMEM. */
struct block_groups *block_groups_new(bool native);
void block_groups_free(struct block_groups *groups);
/* Add a block that is over, with its heaviest stack; NULL: it has none. */
void block_groups_add(struct block_groups *groups, uint64_t wall_ns,
		      const struct record_stack *stack);
/* The `count` groups with most time, and the sum of the rest. Owned by groups, valid until the next
 * call. 0 or -ENOMEM. */
int block_groups_take(struct block_groups *groups, size_t count, struct record_footer *footer);
