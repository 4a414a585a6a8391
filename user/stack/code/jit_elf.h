/* SPDX-License-Identifier: BSD-2-Clause */
/* One ELF file that a runtime keeps in memory for code that it made. ART writes it without program
 * headers: .text is NOBITS at the address of the code, .symtab has the names, .debug_frame the
 * tables; where it has packed many of them, these are in .gnu_debugdata
 * (compiler/debug/elf_debug_writer.cc). Addresses are those of the process. */
#pragma once
#include "stack/cfi.h"
#include "stack/elf_index.h"

struct jit_range {
	uint64_t start, end;
};

struct jit_elf;

#define JIT_UNPACK_BYTES (4u << 20) /* what one packed file may grow to */

/* The bytes are copied; *unpack is what packed ones may grow to, and is taken from. NULL with
 * errno: ENOEXEC: malformed, or of another machine; EFBIG; ENOMEM. */
struct jit_elf *jit_elf_new(const uint8_t *bytes, size_t size, enum stack_arch arch,
			    size_t *unpack);
void jit_elf_free(struct jit_elf *elf);
/* Heap bytes that it holds now. */
size_t jit_elf_bytes(const struct jit_elf *elf);
/* Where its functions are, malloc'ed: how many, or -ENOMEM. */
int jit_elf_ranges(const struct jit_elf *elf, struct jit_range **ranges);
/* Its row for an address; as cfi_row_at, but the row stays the ELF's until the next call. */
int jit_elf_row(struct jit_elf *elf, uint64_t address, const struct cfi_row **row);
/* The readable name of the function at an address, and where it starts. malloc'ed; NULL: none. */
char *jit_elf_name(const struct jit_elf *elf, uint64_t address, uint64_t *start);
