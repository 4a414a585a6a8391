/* SPDX-License-Identifier: BSD-2-Clause */
/* The methods of one process, as its runtime's list (prober/jit_list.h) had them at the last look.
 */
#pragma once
#include <uthash.h>

#include "prober/jit_list.h"
#include "stack/code/jit_elf.h"

/* What names an entry: its memory is used again, and so is its symfile's. */
struct jit_key {
	uint64_t address, timestamp, symfile, size, seqlock;
};

struct jit_entry {
	struct jit_key key;
	UT_hash_handle hh;
	uint8_t *bytes; /* of its ELF file; NULL: it makes no sense */
	struct jit_range *ranges;
	uint32_t count, look; /* the look that found it last */
	struct jit_elf *elf;  /* NULL: not at work */
	uint64_t used;
};

struct jit_place {
	uint64_t start, end;
	struct jit_entry *entry;
};

struct jit_table {
	enum stack_arch arch;
	struct jit_entry *by_key;
	struct jit_place *places; /* by start */
	size_t place_count;
	uint32_t looks;
	size_t bytes; /* of all this on the heap, without what is at work */
	uint64_t malformed;
	uint32_t missing; /* entries of the last list that are not kept */
};

/* Make the table what the list says, with at most `room` bytes of growth. entry_gone is told of
 * each entry before it is freed. 0 or -ENOMEM: then it has fewer entries. */
int jit_table_take(struct jit_table *table, const struct jit_list *list, size_t room,
		   void (*entry_gone)(void *ctx, struct jit_entry *entry), void *ctx);
/* The entry with code at an address, the newest of several; NULL: none. */
struct jit_entry *jit_table_find(const struct jit_table *table, uint64_t address);
void jit_table_free(struct jit_table *table, void (*entry_gone)(void *ctx, struct jit_entry *entry),
		    void *ctx);
