/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/losses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int loss_registry_add(struct loss_registry *registry, const struct loss_table *table)
{
	for (; table; table = table->more) {
		if (registry->count == LOSS_TABLES)
			return -ENOSPC;
		registry->tables[registry->count++] = table;
	}
	return 0;
}

struct loss_info loss_registry_find(const struct loss_registry *registry, const char *name)
{
	for (size_t t = 0; registry && t < registry->count; t++)
		for (size_t i = 0; i < registry->tables[t]->count; i++)
			if (!strcmp(registry->tables[t]->items[i].name, name))
				return registry->tables[t]->items[i];
	return (struct loss_info){name, LOSS_LOST, LOSS_OF_NOTHING};
}

int loss_registry_sort(const struct loss_registry *registry, struct counter_list *lost,
		       struct counter_list *late, struct counter_list *repaired)
{
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < lost->count; i++) {
		struct counter counter = lost->items[i];
		enum loss_kind kind = loss_registry_find(registry, counter.name).kind;
		int one;

		if (kind == LOSS_LOST) {
			lost->items[kept++] = counter;
			continue;
		}
		one = counter_list_add(kind == LOSS_LATE ? late : repaired, counter.name,
				       counter.value);
		/* What cannot be moved stays where nobody overlooks it. */
		if (one) {
			lost->items[kept++] = counter;
			err = one;
			continue;
		}
		free(counter.name);
	}
	lost->count = kept;
	return err;
}

const char *loss_of_name(enum loss_of of)
{
	static const char *const names[LOSS_OF_COUNT] = {
		[LOSS_OF_NOTHING] = "nothing", [LOSS_OF_CPU_TIME] = "cpu_time",
		[LOSS_OF_TASKS] = "tasks",     [LOSS_OF_BYTES] = "bytes",
		[LOSS_OF_PACKETS] = "packets", [LOSS_OF_BLOCKS] = "blocks",
		[LOSS_OF_STACKS] = "stacks",   [LOSS_OF_FRAMES] = "frames",
		[LOSS_OF_RECORDS] = "records",
	};

	return names[of];
}
