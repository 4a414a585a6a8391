/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables of an ELF file by name; elf_index.h has its functions by address. */
#pragma once
#include "stack/elf_file.h"

/* The ELF addresses of `count` variables, looked for in .dynsym, .symtab and MiniDebugInfo; 0:
 * there is none of this name. Reads the names of the whole file once. */
void elf_find_objects(const struct elf_file *elf, const char *const names[], size_t count,
		      uint64_t addresses[]);
