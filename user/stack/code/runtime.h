/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a process keeps the lists by which its runtime tells a debugger of its code. */
#pragma once
#include "stack/modules.h"

/* What a process's maps were when they were searched. Zeroed: they were not. */
struct runtime_search {
	uint64_t list;         /* address of the list; 0: none was found */
	uint64_t start, inode; /* of the mapping of the file that has it */
	uint64_t searched_ns, searched_serial;
};

/* Look for a list, in ART first: a test, or a runtime that was linked into something, has it
 * elsewhere. That is done once, again where its file is no longer mapped there (another program
 * runs), and where none was found, the maps have changed since, and 10 s have passed. True:
 * search->list is its address. */
bool runtime_find_list(struct runtime_search *search, struct modules *modules,
		       const struct module_scope *scope, enum runtime_symbol which);
