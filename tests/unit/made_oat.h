/* SPDX-License-Identifier: BSD-2-Clause */
/* A small oat file of version 239, made byte by byte: one DEX file with one class whose
 * methods 0 and 3 share their code and whose method 1 has some of its own, into which 0 is inlined,
 * and 3 into that. */
#pragma once
#include "unit/made_dex.h"
#include "unit/stack_elf.h"

#define MADE_OAT_SHARED 0x210 /* offsets of code in oat data */
#define MADE_OAT_OWN    0x310
#define MADE_OAT_DEX_PC 6     /* of its call, in the byte code */
#define MADE_OAT_INFO   0x180 /* CodeInfo of the shared code */
#define MADE_OAT_INLINE 0x1c0 /* of the other, where at the same place in it ... */
#define MADE_OAT_OUTER  5     /* ... method 0 is at this place and calls ... */
#define MADE_OAT_INNER  2     /* ... method 3, which is at this one */

/* void method(void (**next)(void *next)): calls *next with what is behind it. It destroys the
 * registers that it saved, the frame pointer too. cfa: its row by row, for data in units of -8. */
struct made_oat_code {
	const uint8_t *bytes;
	uint32_t size, frame, spills, call; /* where the call returns to */
	unsigned unit;                      /* of its instructions */
	const uint8_t *cfa;
	size_t cfa_size;
};

/* sub x16, sp, #0x2000; ldr wzr, [x16]: is there stack left? str x0, [sp, #-48]!; str x22, [sp,
 * #24]; stp x29, x30, [sp, #32]; mov x22, xzr; mov x29, xzr; ldr x16, [x0], #8; blr x16; ldp x29,
 * x30, [sp, #32]; ldr x22, [sp, #24]; add sp, sp, #48; ret */
static const uint8_t made_oat_arm64_bytes[] = {
	0xf0, 0x0b, 0x40, 0xd1, 0x1f, 0x02, 0x40, 0xb9, 0xe0, 0x0f, 0x1d, 0xf8, 0xf6,
	0x0f, 0x00, 0xf9, 0xfd, 0x7b, 0x02, 0xa9, 0xf6, 0x03, 0x1f, 0xaa, 0xfd, 0x03,
	0x1f, 0xaa, 0x10, 0x84, 0x40, 0xf8, 0x00, 0x02, 0x3f, 0xd6, 0xfd, 0x7b, 0x42,
	0xa9, 0xf6, 0x0f, 0x40, 0xf9, 0xff, 0xc3, 0x00, 0x91, 0xc0, 0x03, 0x5f, 0xd6};
static const uint8_t made_oat_arm64_cfa[] = {
	0x43, 0x0e,     48,   0x41, 0x80 | 22, 3,    0x41, 0x80 | 29, 2, 0x80 | 30,
	1,    0x40 | 5, 0xdd, 0xde, 0x41,      0xd6, 0x41, 0x0e,      0};
static const struct made_oat_code made_oat_arm64 = {
	made_oat_arm64_bytes, sizeof(made_oat_arm64_bytes), 48, 0x60400000, 36, 4,
	made_oat_arm64_cfa,   sizeof(made_oat_arm64_cfa)};

/* push rbp; push rbx; sub $40, %rsp; xor ebx, ebx; xor ebp, ebp; mov (%rdi), %rax; add $8, %rdi;
 * call *%rax; add $40, %rsp; pop rbx; pop rbp; ret */
static const uint8_t made_oat_x86_64_bytes[] = {
	0x55, 0x53, 0x48, 0x83, 0xec, 0x28, 0x31, 0xdb, 0x31, 0xed, 0x48, 0x8b, 0x07,
	0x48, 0x83, 0xc7, 0x08, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x28, 0x5b, 0x5d, 0xc3};
static const uint8_t made_oat_x86_64_cfa[] = {0x41, 0x0e, 16,   0x86, 2,    0x41, 0x0e, 24,
					      0x83, 3,    0x44, 0x0e, 64,   0x51, 0x0e, 24,
					      0x41, 0xc3, 0x0e, 16,   0x41, 0xc6, 0x0e, 8};
static const struct made_oat_code made_oat_x86_64 = {
	made_oat_x86_64_bytes, sizeof(made_oat_x86_64_bytes), 64, 1u << 3 | 1u << 5, 19, 1,
	made_oat_x86_64_cfa,   sizeof(made_oat_x86_64_cfa)};

static inline void made_bits(uint8_t *bytes, size_t *at, uint32_t value, unsigned count)
{
	for (unsigned i = 0; i < count; i++, (*at)++)
		if (value >> i & 1)
			bytes[*at / 8] |= (uint8_t)(1u << *at % 8);
}

/* Numbers as CodeInfo has them: four bits of each, then the rest of the large ones. */
static inline void made_varints(uint8_t *bytes, size_t *at, const uint32_t *values, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		made_bits(bytes, at, values[i] <= 11 ? values[i] : 15, 4);
	for (unsigned i = 0; i < count; i++)
		if (values[i] > 11)
			made_bits(bytes, at, values[i], 32);
}

/* Write oat data of at least 0x400 bytes, of version 210 or later. digest: of the header of its DEX
 * file, which versions before 233 know by MADE_OAT_CHECKSUM. */
#define MADE_OAT_CHECKSUM 0x11223344
static inline void made_oat(uint8_t *oat, const char *version, const uint8_t digest[20],
			    const struct made_oat_code *code)
{
	static const char location[] = "base.apk";
	uint32_t head[7] = {0, code->size, code->frame / 16, code->spills, 0, 0, 1};
	uint32_t table[9] = {1, 0, 5, 5, 0, 0, 0, 0, 0};
	const uint32_t inlined[7] = {2, 1, 5, 2, 0, 0, 0}, methods[4] = {2, 3, 0, 0};
	struct made_bytes *to = calloc(1, sizeof(*to));
	size_t bit = MADE_OAT_INFO * 8;
	unsigned number = (unsigned)atoi(version);

	memset(oat, 0, 0x400);
	made_put(to, "oat\n", 4);
	made_put(to, version, 4);
	made_u32(to, 0); /* checksum, instruction set, features */
	made_u32(to, 2);
	made_u32(to, 0);
	made_u32(to, 1);
	made_u32(to, 0x80);
	memcpy(oat, to->bytes, to->size);
	to->size = 0;
	made_u32(to, sizeof(location) - 1);
	made_put(to, location, sizeof(location) - 1);
	if (number >= 233)
		made_put(to, "dex\n035", 8);
	made_u32(to, MADE_OAT_CHECKSUM);
	if (number >= 233)
		made_put(to, digest, 20);
	made_u32(to, 0);
	made_u32(to, 0x100); /* offsets of classes */
	memcpy(oat + 0x80, to->bytes, to->size);
	to->size = 0;
	made_u32(to, 0x104);
	made_u32(to, 0x00010000); /* some are compiled */
	made_u32(to, 4);
	made_u32(to, 0xb);
	made_u32(to, MADE_OAT_SHARED);
	made_u32(to, MADE_OAT_OWN);
	made_u32(to, MADE_OAT_SHARED);
	memcpy(oat + 0x100, to->bytes, to->size);
	free(to);
	made_varints(oat, &bit, head, 7);
	made_varints(oat, &bit, table, 9);
	made_bits(oat, &bit, code->call / code->unit + 1, 5);
	made_bits(oat, &bit, MADE_OAT_DEX_PC + 1, 5);
	/* The same with the tables 3 and 4, a row of each for each method. */
	bit = MADE_OAT_INLINE * 8;
	head[6] |= 1 << 3 | 1 << 4;
	table[6] = 1;
	made_varints(oat, &bit, head, 7);
	made_varints(oat, &bit, table, 9);
	made_bits(oat, &bit, code->call / code->unit + 1, 5);
	made_bits(oat, &bit, MADE_OAT_DEX_PC + 1, 5);
	made_bits(oat, &bit, 1, 1);
	made_varints(oat, &bit, inlined, 7);
	made_bits(oat, &bit, 1, 1); /* there are more */
	made_bits(oat, &bit, MADE_OAT_OUTER + 1, 5);
	made_bits(oat, &bit, 1, 2);
	made_bits(oat, &bit, 0, 1);
	made_bits(oat, &bit, MADE_OAT_INNER + 1, 5);
	made_bits(oat, &bit, 2, 2);
	made_varints(oat, &bit, methods, 4);
	made_bits(oat, &bit, 0 + 1, 3);
	made_bits(oat, &bit, 3 + 1, 3);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t at = i ? MADE_OAT_OWN : MADE_OAT_SHARED;
		uint32_t back = at - (i ? MADE_OAT_INLINE : MADE_OAT_INFO);

		back |= number < 238 ? 0x40000000 : number == 238 ? 0x80000000 : 0;
		memcpy(oat + at - 4, &back, 4);
		memcpy(oat + at, code->bytes, code->size);
	}
}

/* Where oat data of this size begins in the ELF file that made_oat_elf makes. */
static inline uint64_t made_oat_begin(void)
{
	return ELF_TEXT + ((sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 15) & ~15ul);
}

/* An ELF file around it, with its variable. *begin: ELF address of oat data. mini: of
 * .gnu_debugdata; NULL: there is none. */
static inline void made_oat_elf(struct made_elf *elf, const uint8_t *oat, size_t size,
				uint16_t machine, const void *mini, size_t mini_size,
				uint64_t *begin)
{
	static const char names[] = "\0oatdata";
	Elf64_Sym symbols[2] = {{0},
				{.st_name = 1,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				 .st_shndx = 1,
				 .st_size = 0x200}};
	unsigned strings;

	made_start(elf);
	made_section(elf, ".rodata", SHT_PROGBITS, oat, size, 0, 0, 0);
	*begin = symbols[1].st_value = ELF_TEXT + elf->sections[1].sh_offset;
	strings = made_section(elf, ".dynstr", SHT_STRTAB, names, sizeof(names), 0, 0, 0);
	made_section(elf, ".dynsym", SHT_DYNSYM, symbols, sizeof(symbols), 0, strings,
		     sizeof(symbols[0]));
	if (mini)
		made_section(elf, ".gnu_debugdata", SHT_PROGBITS, mini, mini_size, 0, 0, 0);
	made_end(elf, machine);
}
