/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of modules: the ELF files that were met, within a budget of bytes (of everything that a
 * file costs on the heap: tables, symbols, rows, names, its own description), descriptors and rows.
 * A module that is retired keeps its path, build-id and names until the next unwinding begins,
 * because frames of the trace that is being made may refer to it; then nothing of it is left. */
#pragma once
#include <uthash.h>

#include "stack/modules.h"

#define MAX_MODULES 4096
#define ROW_BUCKETS 256
#define MAX_ROWS    32768 /* rows of all modules */
#define PC_SLOTS    8192  /* addresses remembered; a power of two */
#define ENTRY_SLOTS 1024  /* mappings remembered; a power of two */

/* The file as it was when it was opened: an inode number alone may be used again. */
struct module_key {
	uint64_t dev, inode, start, size, mtime_ns;
};

struct row_node {
	struct row_node *next;
	uint64_t address;
	struct cfi_row *row; /* NULL: err says why */
	int err;
};

struct module {
	struct module_key key;
	UT_hash_handle hh;
	uint32_t id;
	enum frame_kind kind;
	char *path, *build_id;
	uint64_t serial; /* no other module of this run has it */
	uint64_t function_seed;
	uint64_t maps_dev, maps_inode;  /* as maps had them; inode 0: no file */
	struct stack_file_version file; /* what is said before it is read */
	struct elf_file *elf;           /* NULL: unreadable, no ELF, or retired */
	struct cfi_tables *tables;
	int tables_err;
	struct elf_index index;
	bool loaded, listed;
	bool jit; /* code that no ELF file holds */
	bool runtime_known, oat_known;
	uint64_t runtime[RUNTIME_SYMBOLS]; /* ELF addresses; 0: none */
	uint64_t oatdata;                  /* the same */
	struct row_node **rows;
	struct module_name *names;
	/* of all that it holds; of these: of its rows, and of what grows with use and goes with the
	 * module only: names, and what libdw remembers */
	size_t bytes, row_bytes, kept_bytes;
	uint64_t used;
};

struct pc_slot {
	uint64_t serial, address, offset, function, function_pc;
	const struct cfi_row *row;
	uint32_t module;
	int16_t err;
	uint8_t kind;
	bool oat;
};

struct entry_slot {
	uint64_t serial;
	uint64_t until; /* the last unwinding in which it is valid; 0: as long as the picture is */
	uint32_t entry, module;
};

struct modules {
	const struct stack_files *files;
	struct module *by_key;
	struct module *table[MAX_MODULES]; /* by id; 0 is "no module" */
	uint32_t count, open, listed;      /* count: ids used so far, with holes */
	size_t bytes, budget, rows;
	uint64_t uses, serial, unwinding;
	struct pc_slot *pcs;
	struct entry_slot *entries;
	struct module_name *names; /* of all modules */
	struct stack_unwind_losses losses;
};

uint64_t module_mix(uint64_t value);
struct module *module_find(struct modules *modules, const struct module_key *key);
/* Take over elf (NULL: there is none) as the module of a mapping. NULL: no memory or no room. */
struct module *module_add(struct modules *modules, const struct module_key *key, const char *path,
			  size_t path_len, struct elf_file *elf);
/* Read tables and symbols the first time that a module is met. */
void module_load(struct modules *modules, struct module *module);
/* Its unwind row for an ELF address; as cfi_row_at, but the row stays the module's. */
int module_row(struct modules *modules, struct module *module, uint64_t address,
	       const struct cfi_row **row);
/* Keep within the budget by retiring what was not used for longest, but not keep. */
void modules_make_room(struct modules *modules, const struct module *keep);
/* The module holds so many bytes more. */
void module_count_bytes(struct modules *modules, struct module *module, size_t bytes);
/* Free the names of its functions. */
void module_names_free(struct modules *modules, struct module *module);
/* Its file is about to be read. */
void module_tell_reading(const struct modules *modules, const struct module *module);
