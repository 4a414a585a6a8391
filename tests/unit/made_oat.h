/* SPDX-License-Identifier: BSD-2-Clause */
/* A small oat file of version 239 for arm64, made byte by byte: one DEX file with one class whose
 * methods 0 and 3 share their code and whose method 1 has some of its own. */
#pragma once
#include "unit/made_dex.h"
#include "unit/stack_elf.h"

#define MADE_OAT_SHARED 0x210 /* offsets of code in oat data */
#define MADE_OAT_OWN    0x310
#define MADE_OAT_CODE   48 /* bytes of each */
#define MADE_OAT_FRAME  48
#define MADE_OAT_CALL   28 /* where its call returns to */
#define MADE_OAT_DEX_PC 6  /* which is at this place in the byte code */

/* sub, ldr: is there stack left? str x0, str x22, stp x23 x30: the frame; nop, bl, nop; the way
 * back. */
static const uint32_t made_oat_words[MADE_OAT_CODE / 4] = {
	0xd1400bf0, 0xb940021f, 0xf81d0fe0, 0xf9000ff6, 0xa9027bf7, 0xd503201f,
	0x94000000, 0xd503201f, 0xa9427bf7, 0xf9400ff6, 0x9100c3ff, 0xd65f03c0};

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

/* Write oat data of at least 0x400 bytes. digest: of the header of its DEX file. */
static inline void made_oat(uint8_t *oat, const char *version, const uint8_t digest[20])
{
	static const char location[] = "base.apk";
	const uint32_t head[7] = {0, MADE_OAT_CODE, MADE_OAT_FRAME / 16, 0x40c00000, 0, 0, 1};
	const uint32_t table[9] = {1, 0, 5, 5, 0, 0, 0, 0, 0};
	struct made_bytes *to = calloc(1, sizeof(*to));
	size_t bit = 0x180 * 8;

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
	made_put(to, "dex\n035", 8);
	made_u32(to, 0x11223344);
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
	made_bits(oat, &bit, MADE_OAT_CALL / 4 + 1, 5);
	made_bits(oat, &bit, MADE_OAT_DEX_PC + 1, 5);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t code = i ? MADE_OAT_OWN : MADE_OAT_SHARED, back = code - 0x180;

		memcpy(oat + code - 4, &back, 4);
		memcpy(oat + code, made_oat_words, sizeof(made_oat_words));
	}
}

/* An ELF file around it, with its variable. *begin: ELF address of oat data. */
static inline void made_oat_elf(struct made_elf *elf, const uint8_t *oat, size_t size,
				uint16_t machine, uint64_t *begin)
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
	made_end(elf, machine);
}
