/* SPDX-License-Identifier: BSD-2-Clause */
/* ELF files as ART keeps them in memory for code that it compiled, and entries of gdb's JIT
 * interface in its three layouts: for the tests' own runtime, and for tests without one. */
#pragma once
#include <elf.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SYMFILE_ROOM 8192

struct jit_method {
	uint64_t address, size;
	const char *name;
	const uint8_t *cfa; /* DW_CFA operations */
	size_t cfa_size;
};

#if defined(__x86_64__)
#define JIT_MACHINE EM_X86_64
/* sub $40,%rsp; mov $callee,%rax; call *%rax; add $40,%rsp; ret */
static const uint8_t jit_template[] = {0x48, 0x83, 0xec, 0x28, 0x48, 0xb8, 0,    0,
				       0,    0,    0,    0,    0,    0,    0xff, 0xd0,
				       0x48, 0x83, 0xc4, 0x28, 0xc3, 0xcc, 0xcc, 0xcc};
#define JIT_CALLEE_AT 6
/* advance 4, CFA offset 48, advance 16, CFA offset 8 */
static const uint8_t jit_cfa[] = {0x40 | 4, 0x0e, 48, 0x40 | 16, 0x0e, 8};
/* code by 1, data by -8, return address in 16; CFA is r7 + 8, r16 at CFA - 8 */
static const uint8_t jit_cie[] = {4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x80 | 16, 1};
#else
#define JIT_MACHINE   EM_AARCH64
/* str x30,[sp,#-32]!; ldr x16,24; blr x16; ldr x30,[sp],#32; ret; nop; 24: callee */
static const uint8_t jit_template[] = {0xfe, 0x0f, 0x1e, 0xf8, 0xb0, 0x00, 0x00, 0x58,
				       0x00, 0x02, 0x3f, 0xd6, 0xfe, 0x07, 0x42, 0xf8,
				       0xc0, 0x03, 0x5f, 0xd6, 0x1f, 0x20, 0x03, 0xd5,
				       0,    0,    0,    0,    0,    0,    0,    0};
#define JIT_CALLEE_AT 24
/* advance 4, CFA offset 32, x30 at CFA - 32, advance 12, CFA offset 0, restore x30 */
static const uint8_t jit_cfa[] = {0x40 | 1, 0x0e, 32, 0x80 | 30, 4, 0x40 | 3, 0x0e, 0, 0xc0 | 30};
/* code by 4, data by -8, return address in 30; CFA is r31 + 0 */
static const uint8_t jit_cie[] = {4, 0, 8, 0, 4, 0x78, 30, 0x0c, 31, 0};
#endif
#define JIT_CODE_BYTES sizeof(jit_template)

/* Code at `to` that calls callee. */
static inline void jit_write_code(uint8_t *to, uint64_t callee)
{
	memcpy(to, jit_template, sizeof(jit_template));
	memcpy(to + JIT_CALLEE_AT, &callee, sizeof(callee));
}

static inline size_t jit_put_entry(uint8_t *to, uint32_t id, const void *body, size_t size)
{
	uint32_t length = (uint32_t)(4 + size + 7) & ~7u;

	memset(to, 0, length + 4);
	memcpy(to, &length, 4);
	memcpy(to + 4, &id, 4);
	memcpy(to + 8, body, size);
	return length + 4;
}

struct jit_sections {
	uint8_t *to;
	size_t size;
	Elf64_Shdr headers[8];
	char names[96];
	unsigned count;
	size_t names_size;
};

static inline void jit_section(struct jit_sections *s, const char *name, uint32_t type,
			       const void *bytes, size_t size)
{
	Elf64_Shdr *header = &s->headers[s->count++];

	s->size = (s->size + 7) & ~7ul;
	*header = (Elf64_Shdr){.sh_name = (uint32_t)s->names_size,
			       .sh_type = type,
			       .sh_offset = s->size,
			       .sh_size = size,
			       .sh_addralign = 1};
	strcpy(s->names + s->names_size, name);
	s->names_size += strlen(name) + 1;
	if (bytes) {
		memcpy(s->to + s->size, bytes, size);
		s->size += size;
	}
}

/* An ELF of these methods (at most 16): its size. to has SYMFILE_ROOM. packed: the symbols and
 * tables are in .gnu_debugdata. */
static inline size_t jit_symfile(uint8_t *to, const struct jit_method *methods, size_t count,
				 int packed)
{
	struct jit_sections s = {.to = to, .size = sizeof(Elf64_Ehdr), .count = 1, .names_size = 1};
	uint64_t start = methods[0].address, end = start;
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = JIT_MACHINE,
			     .e_version = EV_CURRENT,
			     .e_ehsize = sizeof(header),
			     .e_shentsize = sizeof(Elf64_Shdr)};
	Elf64_Sym symbols[17] = {0};
	uint8_t frames[2048];
	char strings[2048] = "";
	size_t strings_size = 1, frames_size, names_size;

	for (size_t i = 0; i < count; i++)
		if (methods[i].address + methods[i].size > end)
			end = methods[i].address + methods[i].size;
	jit_section(&s, ".text", SHT_NOBITS, NULL, end - start);
	s.headers[1].sh_addr = start;
	s.headers[1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	s.headers[1].sh_addralign = 16;
	if (packed) {
		uint8_t inner[SYMFILE_ROOM], xz[SYMFILE_ROOM];
		size_t inner_size = jit_symfile(inner, methods, count, 0), xz_size = 0;

		if (lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, inner, inner_size, xz,
					    &xz_size, sizeof(xz)) != LZMA_OK)
			abort();
		jit_section(&s, ".gnu_debugdata", SHT_PROGBITS, xz, xz_size);
	} else {
		frames_size = jit_put_entry(frames, UINT32_MAX, jit_cie, sizeof(jit_cie));
		for (size_t i = 0; i < count; i++) {
			uint8_t body[128];
			uint64_t words[2] = {methods[i].address, methods[i].size};

			symbols[i + 1] = (Elf64_Sym){.st_name = (uint32_t)strings_size,
						     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
						     .st_shndx = 1,
						     .st_value = methods[i].address,
						     .st_size = methods[i].size};
			strcpy(strings + strings_size, methods[i].name);
			strings_size += strlen(methods[i].name) + 1;
			memcpy(body, words, sizeof(words));
			memcpy(body + sizeof(words), methods[i].cfa, methods[i].cfa_size);
			frames_size += jit_put_entry(frames + frames_size, 0, body,
						     sizeof(words) + methods[i].cfa_size);
		}
		jit_section(&s, ".symtab", SHT_SYMTAB, symbols, (count + 1) * sizeof(*symbols));
		s.headers[2].sh_entsize = sizeof(*symbols);
		s.headers[2].sh_link = 3;
		s.headers[2].sh_info = 1;
		s.headers[2].sh_addralign = 8;
		jit_section(&s, ".strtab", SHT_STRTAB, strings, strings_size);
		jit_section(&s, ".debug_frame", SHT_PROGBITS, frames, frames_size);
		s.headers[4].sh_addralign = 8;
	}
	names_size = s.names_size + sizeof(".shstrtab");
	strcpy(s.names + s.names_size, ".shstrtab");
	s.headers[s.count] = (Elf64_Shdr){.sh_name = (uint32_t)s.names_size,
					  .sh_type = SHT_STRTAB,
					  .sh_offset = s.size,
					  .sh_size = names_size,
					  .sh_addralign = 1};
	memcpy(to + s.size, s.names, names_size);
	s.size = (s.size + names_size + 7) & ~7ul;
	header.e_shoff = s.size;
	header.e_shnum = (uint16_t)(s.count + 1);
	header.e_shstrndx = (uint16_t)s.count;
	memcpy(to, &header, sizeof(header));
	memcpy(to + s.size, s.headers, (s.count + 1) * sizeof(*s.headers));
	return s.size + (s.count + 1) * sizeof(*s.headers);
}

/* ---- the list ---- */

struct jit_code_entry {
	struct jit_code_entry *next, *previous;
	const uint8_t *symfile;
	uint64_t size, timestamp; /* Android1 and 2 */
	uint32_t seqlock;         /* Android2 */
};
_Static_assert(sizeof(struct jit_code_entry) == 48, "as in ART");

struct jit_descriptor {
	uint32_t version, action;
	struct jit_code_entry *relevant, *first;
	char magic[8];
	uint32_t flags, descriptor_bytes, entry_bytes, seqlock;
	uint64_t timestamp;
};
_Static_assert(sizeof(struct jit_descriptor) == 56, "as in ART");
