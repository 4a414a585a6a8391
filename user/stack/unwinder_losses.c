/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/unwinder_jobs.h"

static const struct loss_info loss_items[] = {
	{"stacks_lost_unwinder_died", LOSS_LOST, LOSS_OF_NOTHING},
	{"stacks_lost_unwinder_late", LOSS_LOST, LOSS_OF_NOTHING},
	{"stacks_not_unwound", LOSS_LOST, LOSS_OF_NOTHING},
	/* of processes whose stacks took the unwinder more than its share for them */
	{"stacks_too_costly", LOSS_LOST, LOSS_OF_NOTHING},
	{"stacks_no_memory", LOSS_LOST, LOSS_OF_NOTHING},
	{"elf_refused", LOSS_LOST, LOSS_OF_NOTHING},
	{"elf_unreadable", LOSS_LOST, LOSS_OF_NOTHING},
	{"elf_malformed", LOSS_LOST, LOSS_OF_NOTHING},
	{"elf_tables_bad", LOSS_LOST, LOSS_OF_NOTHING},
	{"symbols_dropped", LOSS_LOST, LOSS_OF_NOTHING},
	{"symbol_names_dropped", LOSS_LOST, LOSS_OF_NOTHING},
	{"modules_full", LOSS_LOST, LOSS_OF_NOTHING},
	{"mappings_left_out", LOSS_LOST, LOSS_OF_NOTHING},
	{"jit_lists_unread", LOSS_LOST, LOSS_OF_NOTHING},
	{"jit_elf_malformed", LOSS_LOST, LOSS_OF_NOTHING},
	{"jit_elf_dropped", LOSS_LOST, LOSS_OF_NOTHING},
	{"dex_malformed", LOSS_LOST, LOSS_OF_NOTHING},
	{"dex_unread", LOSS_LOST, LOSS_OF_NOTHING},
	{"oat_malformed", LOSS_LOST, LOSS_OF_NOTHING},
	{"oat_unsupported", LOSS_LOST, LOSS_OF_NOTHING},
	{"code_given_back", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"unwinder_replaced", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"unwinder_malformed", LOSS_REPAIRED, LOSS_OF_NOTHING},
};

const struct loss_table unwinder_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items),
					   NULL};

uint64_t unwinder_cache_bytes(const struct unwinder *u)
{
	return u->cache_bytes;
}

int unwinder_counters(const struct unwinder *u, struct counter_list *lost)
{
	/* in the order of loss_items */
	const uint64_t values[] = {u->died,
				   u->late,
				   u->not_unwound,
				   u->too_costly,
				   u->no_memory,
				   u->elf_refused,
				   u->losses.elf_unreadable,
				   u->losses.elf_malformed,
				   u->losses.elf_tables_bad,
				   u->losses.symbols_dropped,
				   u->losses.names_dropped,
				   u->losses.modules_full,
				   u->losses.mappings_left_out,
				   u->losses.jit_lists_unread,
				   u->losses.jit_elf_malformed,
				   u->losses.jit_elf_dropped,
				   u->losses.dex_malformed,
				   u->losses.dex_unread,
				   u->losses.oat_malformed,
				   u->losses.oat_unsupported,
				   u->losses.code_given_back,
				   u->replaced,
				   u->malformed};
	int err = 0;

	_Static_assert(sizeof(values) / sizeof(*values) == sizeof(loss_items) / sizeof(*loss_items),
		       "each counter is declared");
	for (size_t i = 0; i < sizeof(values) / sizeof(*values) && !err; i++)
		err = counter_list_add(lost, loss_items[i].name, values[i]);
	return err;
}
