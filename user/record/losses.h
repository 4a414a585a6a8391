/* SPDX-License-Identifier: BSD-2-Clause */
/* What each loss counter means, from the tables of the sources. */
#pragma once
#include "jankscope/record.h"

#define LOSS_TABLES 16

struct loss_registry {
	const struct loss_table *tables[LOSS_TABLES];
	size_t count;
};

/* Make the counters of this table and of those below it known; the tables stay the caller's. 0, or
 * -ENOSPC. */
int loss_registry_add(struct loss_registry *registry, const struct loss_table *table);
/* What a counter is; one that nobody declared is lost, of nothing. registry may be NULL. */
struct loss_info loss_registry_find(const struct loss_registry *registry, const char *name);
/* Move the counters of `lost` that are declared late or repaired to those lists. 0 or -ENOMEM. */
int loss_registry_sort(const struct loss_registry *registry, struct counter_list *lost,
		       struct counter_list *late, struct counter_list *repaired);
/* "cpu_time", "blocks" ...: the last part of the key of its share, "lost_pct_of.blocks". */
const char *loss_of_name(enum loss_of of);
