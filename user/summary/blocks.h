/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks grouped by what they did, in bounded memory: by the functions that tell (record/telling.h)
 * of the heaviest stack of each. */
#pragma once
#include "jankscope/record.h"

struct block_groups;

/* NULL with ENOMEM. */
struct block_groups *block_groups_new(void);
void block_groups_free(struct block_groups *groups);
/* Add a block that is over, with its heaviest stack; NULL: it has none. */
void block_groups_add(struct block_groups *groups, uint64_t wall_ns,
		      const struct record_stack *stack);
/* The `count` groups with most time, and the sum of the rest. Owned by groups, valid until the next
 * call. 0 or -ENOMEM. */
int block_groups_take(struct block_groups *groups, size_t count, struct record_footer *footer);
