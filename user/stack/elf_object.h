/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables of an ELF file by name; elf_index.h has its functions by address. */
#pragma once
#include "stack/elf_file.h"

/* The ELF addresses of `count` variables, looked for in .dynsym, .symtab and MiniDebugInfo; 0:
 * there is none of this name. Reads the names of the whole file once. */
void elf_find_objects(const struct elf_file *elf, const char *const names[], size_t count,
		      uint64_t addresses[]);
/* The same of the few that a file without functions of its own exports; nothing of a file whose
 * .dynsym has more than 64 symbols. */
void elf_find_exported(const struct elf_file *elf, const char *const names[], size_t count,
		       uint64_t addresses[]);
