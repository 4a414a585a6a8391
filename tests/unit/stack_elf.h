/* SPDX-License-Identifier: BSD-2-Clause */
/* Small ELF files, made byte by byte, for the tests of the readers. */
#pragma once
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ELF_TEXT 0x400000ull

struct made_elf {
	uint8_t bytes[65536];
	size_t size;
	Elf64_Shdr sections[16];
	unsigned count;
	char names[256];
	size_t names_size;
};

static inline void made_start(struct made_elf *elf)
{
	memset(elf, 0, sizeof(*elf));
	elf->size = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
	elf->count = 1;
	elf->names_size = 1;
}

/* Append a section; its number. */
static inline unsigned made_section(struct made_elf *elf, const char *name, uint32_t type,
				    const void *bytes, size_t size, uint64_t address, uint32_t link,
				    uint64_t entry)
{
	elf->size = (elf->size + 15) & ~15ul;
	elf->sections[elf->count] = (Elf64_Shdr){.sh_name = elf->names_size,
						 .sh_type = type,
						 .sh_flags = address ? SHF_ALLOC : 0,
						 .sh_addr = address,
						 .sh_offset = elf->size,
						 .sh_size = size,
						 .sh_link = link,
						 .sh_entsize = entry};
	strcpy(elf->names + elf->names_size, name);
	elf->names_size += strlen(name) + 1;
	if (bytes)
		memcpy(elf->bytes + elf->size, bytes, size);
	elf->size += size;
	return elf->count++;
}

/* Write the headers. One executable segment covers ELF_TEXT and the 64 KiB after it. */
static inline void made_end(struct made_elf *elf, uint16_t machine)
{
	Elf64_Phdr segment = {.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_vaddr = ELF_TEXT,
			      .p_filesz = 65536,
			      .p_memsz = 65536};
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = machine,
			     .e_version = EV_CURRENT,
			     .e_ehsize = sizeof(header),
			     .e_phoff = sizeof(header),
			     .e_phentsize = sizeof(segment),
			     .e_phnum = 1,
			     .e_shentsize = sizeof(Elf64_Shdr)};
	size_t names_size;

	made_section(elf, ".shstrtab", SHT_STRTAB, NULL, 0, 0, 0, 0);
	names_size = elf->names_size;
	elf->sections[elf->count - 1].sh_size = names_size;
	memcpy(elf->bytes + elf->size, elf->names, names_size);
	elf->size = (elf->size + names_size + 15) & ~15ul;
	header.e_shoff = elf->size;
	header.e_shnum = elf->count;
	header.e_shstrndx = elf->count - 1;
	memcpy(elf->bytes, &header, sizeof(header));
	memcpy(elf->bytes + sizeof(header), &segment, sizeof(segment));
	memcpy(elf->bytes + elf->size, elf->sections, elf->count * sizeof(Elf64_Shdr));
	elf->size += elf->count * sizeof(Elf64_Shdr);
}

/* ---- .eh_frame ---- */

struct made_frames {
	uint8_t bytes[4096];
	size_t size;
	size_t cie;
};

static inline void put_entry(struct made_frames *frames, uint32_t id, const void *body, size_t size)
{
	uint32_t length = (4 + size + 7) & ~7u;

	memcpy(frames->bytes + frames->size, &length, 4);
	memcpy(frames->bytes + frames->size + 4, &id, 4);
	memcpy(frames->bytes + frames->size + 8, body, size);
	frames->size += 4 + length; /* the rest stays 0: DW_CFA_nop */
}

/* A CIE with absolute addresses; signal: with the augmentation of signal frames. */
static inline void made_cie(struct made_frames *frames, uint8_t return_register, int signal,
			    const void *ops, size_t size)
{
	uint8_t body[256] = {1, 'z', 'R', signal ? 'S' : 0};
	size_t at = signal ? 5 : 4;

	body[at++] = 1;    /* code alignment */
	body[at++] = 0x78; /* data alignment -8 */
	body[at++] = return_register;
	body[at++] = 1; /* augmentation data: one byte, DW_EH_PE_absptr */
	body[at++] = 0;
	memcpy(body + at, ops, size);
	frames->cie = frames->size;
	put_entry(frames, 0, body, at + size);
}

static inline void made_fde(struct made_frames *frames, uint64_t start, uint64_t range,
			    const void *ops, size_t size)
{
	uint8_t body[512];
	uint64_t words[2] = {start, range};

	memcpy(body, words, 16);
	body[16] = 0; /* no augmentation data */
	if (size)
		memcpy(body + 17, ops, size);
	put_entry(frames, frames->size + 4 - frames->cie, body, 17 + size);
}
