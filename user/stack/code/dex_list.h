/* SPDX-License-Identifier: BSD-2-Clause */
/* The DEX files that ART says it has in memory: its list `__dex_debug_descriptor`
 * (prober/jit_list.h), of the processes that were asked for last. */
#pragma once
#include "stack/modules.h"

struct dex_list;
/* Both are borrowed. NULL: no memory. */
struct dex_list *dex_list_new(const struct stack_files *files, struct modules *modules);
void dex_list_free(struct dex_list *list);

/* Where files begin that have the byte code at pc, at most room of them: how many. The list is read
 * again, not too often, where it has none. */
size_t dex_list_find(struct dex_list *list, const struct module_scope *scope, uint64_t pc,
		     uint64_t *starts, size_t room);
/* Heap bytes of the lists that were read. */
size_t dex_list_bytes(const struct dex_list *list);
/* Lists that could not be read so far. */
uint64_t dex_list_unread(const struct dex_list *list);
