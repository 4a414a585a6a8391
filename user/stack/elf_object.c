/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/elf_object.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STRING_BYTES (128u << 20)
#define MAX_TABLE_BYTES  (256u << 20)
#define MAX_MINI_BYTES   (16u << 20) /* unpacked */
#define READ_SYMBOLS     1024
#define FEW_SYMBOLS      64
#define FEW_BYTES        64 /* of the name of each of them */

struct search {
	const char *const *names;
	size_t count;
	uint64_t *addresses;
};

static bool is_done(const struct search *search)
{
	for (size_t i = 0; i < search->count; i++)
		if (!search->addresses[i])
			return false;
	return true;
}

/* Most files have none of them: their strings tell that sooner than their symbols. */
static bool has_any(const struct search *search, const char *strings, size_t bytes)
{
	for (size_t i = 0; i < search->count; i++)
		if (memmem(strings, bytes, search->names[i], strlen(search->names[i]) + 1))
			return true;
	return false;
}

static void take(struct search *search, const Elf64_Sym *symbol, const char *name)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    (type != STT_OBJECT && type != STT_NOTYPE))
		return;
	for (size_t i = 0; i < search->count; i++)
		if (!search->addresses[i] && !strcmp(name, search->names[i]))
			search->addresses[i] = symbol->st_value;
}

static void search_table(struct search *search, const struct elf_file *elf,
			 const struct elf_section *symbols, const struct elf_section *names)
{
	Elf64_Sym *part = NULL;
	uint8_t *strings = NULL;
	uint64_t count = symbols->size / sizeof(*part);
	size_t bytes;

	if (!symbols->size || !names->size || symbols->size > MAX_TABLE_BYTES ||
	    symbols->flags & SHF_COMPRESSED ||
	    elf_file_section(elf, names, MAX_STRING_BYTES, &strings, &bytes))
		return;
	if (bytes && !strings[bytes - 1] && has_any(search, (char *)strings, bytes))
		part = malloc(READ_SYMBOLS * sizeof(*part));
	for (uint64_t at = 0; part && at < count; at += READ_SYMBOLS) {
		size_t n = count - at < READ_SYMBOLS ? count - at : READ_SYMBOLS;

		if (elf_file_read(elf, symbols->offset + at * sizeof(*part), part,
				  n * sizeof(*part)))
			break;
		for (size_t i = 0; i < n; i++)
			if (part[i].st_name < bytes)
				take(search, &part[i], (char *)strings + part[i].st_name);
	}
	free(part);
	free(strings);
}

void elf_find_objects(const struct elf_file *elf, const char *const names[], size_t count,
		      uint64_t addresses[])
{
	struct search search = {names, count, addresses};
	struct elf_file mini;

	memset(addresses, 0, count * sizeof(*addresses));
	search_table(&search, elf, &elf->dynsym, &elf->dynstr);
	if (!is_done(&search))
		search_table(&search, elf, &elf->symtab, &elf->strtab);
	if (is_done(&search) || elf_file_open_minidebug(elf, MAX_MINI_BYTES, &mini))
		return;
	search_table(&search, &mini, &mini.symtab, &mini.strtab);
	elf_file_close(&mini);
}

void elf_find_exported(const struct elf_file *elf, const char *const names[], size_t count,
		       uint64_t addresses[])
{
	struct search search = {names, count, addresses};

	memset(addresses, 0, count * sizeof(*addresses));
	if (elf->dynsym.size <= FEW_SYMBOLS * sizeof(Elf64_Sym) &&
	    elf->dynstr.size <= FEW_SYMBOLS * FEW_BYTES)
		search_table(&search, elf, &elf->dynsym, &elf->dynstr);
}
