/* SPDX-License-Identifier: BSD-2-Clause */
/* A hardened reader of 64-bit little-endian ELF files, from a file (also one stored inside a zip)
 * or from memory. It copies with pread and never maps the file: an app that is truncated while we
 * read it must not raise SIGBUS here. Every offset and size is checked against the file's end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jankscope/stack.h"

#define ELF_MAX_LOADS 64
#define ELF_MAX_CODE  32

struct elf_section {
	uint64_t offset, size, address, entry_size, flags;
	uint32_t type, link;
};

struct elf_file {
	/* where the bytes are */
	int fd;               /* -1: in memory */
	uint8_t *memory;      /* owned */
	uint64_t start, size; /* of the ELF inside the file */
	enum stack_arch arch;
	uint16_t type;
	struct elf_load {
		uint64_t offset, address, file_bytes, memory_bytes;
		bool exec;
	} loads[ELF_MAX_LOADS];
	unsigned load_count;
	/* size 0: not there */
	struct elf_section eh_frame, eh_frame_hdr, debug_frame, gnu_debugdata;
	struct elf_section symtab, strtab, dynsym, dynstr;
	uint64_t first_exec_address; /* of .text, 0: not known */
	/* sections with code; none when the section table is not there */
	struct elf_range {
		uint64_t address, size;
	} code[ELF_MAX_CODE];
	unsigned code_count;
	uint8_t build_id[32];
	unsigned build_id_bytes;
	bool go; /* made by Go's linker: it has a note of the name "Go", or Go's table of functions
		  */
};

/* Open the ELF that starts at byte start of fd (taken over, also on failure). 0; -ENOEXEC: not an
 * ELF or malformed; -ENOTSUP: 32-bit, big-endian, or another machine; -EIO; -ENOMEM. */
int elf_file_open(struct elf_file *elf, int fd, uint64_t start);
/* The same over bytes in memory (taken over, malloc'ed). */
int elf_file_open_memory(struct elf_file *elf, uint8_t *bytes, uint64_t size);
void elf_file_close(struct elf_file *elf);

/* Copy len bytes at offset of the ELF. 0 or -EIO when they are not all there. */
int elf_file_read(const struct elf_file *elf, uint64_t offset, void *to, size_t len);
/* Copy a whole section to malloc'ed memory (SHF_COMPRESSED is unpacked). 0; -EFBIG above limit;
 * -EIO; -ENOMEM; -ENOEXEC: unpacking failed. */
int elf_file_section(const struct elf_file *elf, const struct elf_section *section, size_t limit,
		     uint8_t **bytes, size_t *size);
/* Unpack .gnu_debugdata (xz, at most limit bytes) and open it. 0; -ENOENT: there is none; else as
 * elf_file_open. Source of the format: gdb's MiniDebugInfo; ART writes it too. */
int elf_file_open_minidebug(const struct elf_file *elf, size_t limit, struct elf_file *mini);
/* ELF address of the byte at offset of the ELF file. False when no segment loads it. */
bool elf_file_address(const struct elf_file *elf, uint64_t offset, uint64_t *address);
