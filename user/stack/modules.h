/* SPDX-License-Identifier: BSD-2-Clause */
/* From an address of a process to its ELF file, unwind row and function: opens each file once,
 * keeps tables and indexes within a budget, and remembers addresses that it met. */
#pragma once
#include "jankscope/stack.h"
#include "stack/cfi.h"
#include "stack/elf_index.h"
#include "stack/maps.h"

struct modules;

/* The process an address belongs to. */
struct module_scope {
	const char *root; /* of /proc: "" */
	pid_t pid;
	enum stack_arch arch;
	const struct stack_maps *maps;
};

struct modules *modules_new(size_t cache_bytes);
void modules_free(struct modules *modules);

/* As unwind_reader.locate. */
int modules_locate(struct modules *modules, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame, const struct cfi_row **row);
/* Copy code at address from its ELF file, or from the live process. 0 or -errno. */
int modules_code(struct modules *modules, const struct module_scope *scope, uint64_t address,
		 void *to, size_t len);

struct stack_module modules_describe(const struct modules *modules, uint32_t module);
/* Copy the raw name of the function at offset of a module. 0; -ENOENT: no symbol, or the module's
 * file was closed to keep the budget. */
int modules_symbol(struct modules *modules, uint32_t module, uint64_t offset,
		   char name[ELF_INDEX_NAME_BYTES]);
/* Losses so far. 0 or -ENOMEM. */
int modules_losses(const struct modules *modules, struct counter_list *lost);
