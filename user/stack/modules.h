/* SPDX-License-Identifier: BSD-2-Clause */
/* From an address of a process to its ELF file, unwind row and function: has each file opened once,
 * keeps tables and indexes within a budget, and remembers addresses that it met. What belongs to a
 * target comes through a struct stack_files. */
#pragma once
#include "jankscope/stack.h"
#include "stack/cfi.h"
#include "stack/elf_index.h"
#include "stack/maps.h"

struct modules;

/* The process an address belongs to. */
struct module_scope {
	struct stack_process process;
	enum stack_arch arch;
	const struct stack_maps *maps;
};

/* files is borrowed. NULL with errno. */
struct modules *modules_new(const struct stack_files *files, size_t cache_bytes);
void modules_free(struct modules *modules);

/* A new unwinding begins: what was retired since the last one is freed, and module numbers of old
 * frames mean nothing any more. */
void modules_begin(struct modules *modules);

/* As unwind_reader.locate. */
int modules_locate(struct modules *modules, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame, const struct cfi_row **row);
/* Copy code at address from its ELF file, or from the live process. 0 or -errno. */
int modules_code(struct modules *modules, const struct module_scope *scope, uint64_t address,
		 void *to, size_t len);
/* Read the vdso of a process while it lives. */
void modules_prime(struct modules *modules, const struct module_scope *scope);

/* Where runtimes keep what they know of their code (gdb's JIT interface; ART has one for DEX files
 * as well). */
enum runtime_symbol {
	RUNTIME_JIT = 0, /* __jit_debug_descriptor */
	RUNTIME_DEX = 1, /* __dex_debug_descriptor */
	RUNTIME_SYMBOLS = 2,
};
/* Addresses in the process of those that the ELF file of an executable mapping has; 0: not there.
 * Its symbols are looked through once. False: it has none. */
bool modules_runtime(struct modules *modules, const struct module_scope *scope,
		     const struct map_entry *entry, uint64_t addresses[RUNTIME_SYMBOLS]);

/* The ELF file in which ART's compiler left the code at an address, and in it. */
struct module_oat {
	const struct elf_file *elf; /* the modules' own, valid until they are asked again */
	uint64_t oatdata, address;  /* of the ELF file */
	uint64_t serial;            /* no other module of this run has it */
};
/* False: the address is in no such file. */
bool modules_oat(struct modules *modules, const struct module_scope *scope, uint64_t address,
		 struct module_oat *oat);

/* The number of a mapping whose bytes nothing is asked of, so that frames can name it; 0: it has no
 * name, or there is no room. */
uint32_t modules_mapping(struct modules *modules, const struct module_scope *scope,
			 const struct map_entry *entry);

struct module_description {
	const char *path;     /* of the mapping; NULL for module 0 */
	const char *build_id; /* hex; NULL: none in the file, or file not readable */
	uint64_t serial;      /* no other module of this run has it; 0: no module */
};
/* Valid until modules_begin. */
struct module_description modules_describe(const struct modules *modules, uint32_t module);
/* Copy the raw name of the function at offset of a module. 0; -ENOENT: no symbol, or the module's
 * file was closed to keep the budget. */
int modules_symbol(struct modules *modules, uint32_t module, uint64_t offset,
		   char name[ELF_INDEX_NAME_BYTES]);
/* The name of a frame's function, demangled, which is looked for once: the modules' own, valid
 * until modules_begin. NULL: it has none. function is the frame's, offset as in modules_symbol. */
const char *modules_name(struct modules *modules, uint32_t module, uint64_t function,
			 uint64_t offset);
/* Losses so far. */
/* Heap bytes of the files that are kept. */
size_t modules_bytes(const struct modules *modules);
void modules_losses(const struct modules *modules, struct stack_unwind_losses *losses);
