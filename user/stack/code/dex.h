/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte code that ART interprets: its method, by the DEX file that its address lies in. That is in
 * the file of the mapping (an APK, a jar, a vdex), or in memory, where the runtime's list or a
 * mapping without a file says. */
#pragma once
#include "stack/code/byte_source.h"
#include "stack/code/code.h"

struct dex_code;
extern const struct code_provider dex_code_provider;

/* Both are borrowed. NULL: no memory. */
struct dex_code *dex_code_new(const struct stack_files *files, struct modules *modules);
/* Add what was lost so far. */
void dex_code_losses(const struct dex_code *code, struct stack_unwind_losses *losses);

struct dex_file;
/* Open the DEX file whose header is at an address: of the file that is mapped there, else of
 * memory, the source of the process's own. Valid until DEX files are asked for again. 0; as
 * dex_file_open. */
int dex_code_open(struct dex_code *code, const struct module_scope *scope,
		  const struct byte_source *memory, uint64_t address, struct dex_file *dex);

struct dex_archive;
/* The DEX files that the file of a mapping holds; NULL: none, or it cannot be read. Valid until the
 * next call. */
const struct dex_archive *dex_code_archive(struct dex_code *code, const struct module_scope *scope,
					   const struct map_entry *entry);
