/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of one ELF file, sorted by address: 16 bytes each, found in tens of ns. Names stay in
 * the file and are read when one is asked for. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "stack/elf_file.h"

#define ELF_INDEX_MAX_SYMBOLS (1u << 20)
#define ELF_INDEX_NAME_BYTES  4096

struct elf_symbol {
	uint64_t address;
	uint32_t size; /* 0: not told */
	uint32_t name; /* byte in its string table; the table's number in the two top bits */
};

struct elf_index {
	struct elf_symbol *symbols;
	size_t count;
	size_t dropped; /* beyond ELF_INDEX_MAX_SYMBOLS, or malformed */
	struct elf_range code[ELF_MAX_CODE];
	unsigned code_count;
	/* string tables by number: .symtab's and .dynsym's lie in the ELF, MiniDebugInfo's is kept
	 */
	uint64_t string_offset[2], string_bytes[2];
	uint8_t *mini_strings;
	size_t mini_bytes;
};

/* Index the functions of .symtab, .dynsym and, where mini is not NULL, of MiniDebugInfo's .symtab.
 * 0 (also with no symbols at all); -ENOMEM; -EIO. Free with elf_index_free. */
int elf_index_build(struct elf_index *index, const struct elf_file *elf,
		    const struct elf_file *mini);
void elf_index_free(struct elf_index *index);
size_t elf_index_bytes(const struct elf_index *index);
/* The function that holds an ELF address, or NULL. A function without a size reaches to the next
 * one, but not out of its section, nor further than 4 KiB unless `function`, where the unwind
 * tables say that the function of this address begins (0: they do not), is its address. */
const struct elf_symbol *elf_index_find(const struct elf_index *index, uint64_t address,
					uint64_t function);
/* Copy a symbol's name; elf is the file that the index was built from. 0; -EIO: malformed. */
int elf_index_name(const struct elf_index *index, const struct elf_file *elf,
		   const struct elf_symbol *symbol, char name[ELF_INDEX_NAME_BYTES]);
