/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/elf_index.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/pages.h"

#define MAX_TABLE_BYTES  (256u << 20)
#define MAX_STRING_BYTES (128u << 20)
#define READ_SYMBOLS     4096
#define MAX_REACH        4096
#define NAME_BITS        30
#define NAME_MASK        ((1u << NAME_BITS) - 1)

enum { TABLE_SYMTAB = 0, TABLE_DYNSYM = 1, TABLE_MINI = 2 };

/* While building, the rank (how good a name is for its address) sits beside the symbol. */
struct candidate {
	struct elf_symbol symbol;
	uint8_t rank;
};

struct builder {
	const struct elf_file *elf;
	struct candidate *items;
	size_t count, room;
	size_t dropped;
};

/* Which of several names of one address to print: one with a size, then the public spelling (fewest
 * underscores in front), global before weak before local, then the richer table's. */
static uint8_t rank_of(const Elf64_Sym *symbol, const char *name, unsigned table)
{
	unsigned binding = ELF64_ST_BIND(symbol->st_info), underscores = strspn(name, "_");
	unsigned rank = binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;

	return (symbol->st_size ? 64 : 0) + (3 - (underscores < 3 ? underscores : 3)) * 16 +
	       rank * 4 + (table != TABLE_DYNSYM);
}

static bool in_code(const struct elf_file *elf, uint64_t address)
{
	for (unsigned i = 0; i < elf->load_count; i++) {
		if (elf->loads[i].exec &&
		    address - elf->loads[i].address < elf->loads[i].memory_bytes)
			return true;
	}
	return !elf->load_count;
}

static int add(struct builder *b, const Elf64_Sym *symbol, unsigned table, const char *strings,
	       uint64_t string_bytes)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || !symbol->st_value)
		return 0;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	if (symbol->st_name >= string_bytes || symbol->st_name > NAME_MASK ||
	    b->count >= ELF_INDEX_MAX_SYMBOLS) {
		b->dropped++;
		return 0;
	}
	/* Labels of assembly; not the mapping symbols of arm64 ($x, $d) and compilers' own. */
	if (type == STT_NOTYPE && (strings[symbol->st_name] == '$' ||
				   strings[symbol->st_name] == '.' || !strings[symbol->st_name]))
		return 0;
	if (!in_code(b->elf, symbol->st_value))
		return 0;
	if (b->count == b->room) {
		size_t room = b->room ? b->room * 2 : 256;
		struct candidate *items = realloc(b->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		b->items = items;
		b->room = room;
	}
	b->items[b->count++] = (struct candidate){
		{.address = symbol->st_value,
		 .size = symbol->st_size < UINT32_MAX ? symbol->st_size : UINT32_MAX,
		 .name = table << NAME_BITS | symbol->st_name},
		rank_of(symbol, strings + symbol->st_name, table)};
	return 0;
}

/* strings ends with 0. */
static int add_symbols(struct builder *b, const struct elf_file *elf,
		       const struct elf_section *section, unsigned table, const char *strings,
		       uint64_t string_bytes)
{
	Elf64_Sym *symbols = malloc(READ_SYMBOLS * sizeof(*symbols));
	uint64_t count = section->size / sizeof(*symbols);
	int err = symbols ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < count && !err;) {
		size_t n = count - at < READ_SYMBOLS ? count - at : READ_SYMBOLS;

		err = elf_file_read(elf, section->offset + at * sizeof(*symbols), symbols,
				    n * sizeof(*symbols));
		for (size_t i = 0; i < n && !err; i++)
			err = add(b, &symbols[i], table, strings, string_bytes);
		at += n;
	}
	free(symbols);
	return err;
}

/* The strings are only read to rank names; *keep, where not NULL, gets them. */
static int add_table(struct builder *b, const struct elf_file *elf,
		     const struct elf_section *section, const struct elf_section *names,
		     unsigned table, uint8_t **keep, size_t *keep_bytes)
{
	uint8_t *strings = NULL;
	size_t string_bytes = 0;
	int err;

	if (!section->size || !names->size)
		return 0;
	if (section->size > MAX_TABLE_BYTES || section->flags & SHF_COMPRESSED) {
		b->dropped++;
		return 0;
	}
	err = elf_file_section(elf, names, MAX_STRING_BYTES, &strings, &string_bytes);
	if (!err && string_bytes && !strings[string_bytes - 1])
		err = add_symbols(b, elf, section, table, (char *)strings, string_bytes);
	else
		b->dropped++;
	if (keep && !err) {
		*keep = strings;
		*keep_bytes = string_bytes;
	} else {
		free(strings);
	}
	return err == -ENOMEM ? err : 0;
}

static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->symbol.address != y->symbol.address)
		return x->symbol.address < y->symbol.address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return x->symbol.name < y->symbol.name ? -1 : x->symbol.name > y->symbol.name;
}

/* Of those with its address, sorted, the one to print. */
static bool is_first(const struct builder *b, size_t i)
{
	return !i || b->items[i].symbol.address != b->items[i - 1].symbol.address;
}

int elf_index_build(struct elf_index *index, const struct elf_file *elf,
		    const struct elf_file *mini)
{
	struct builder b = {.elf = elf};
	size_t distinct = 0;
	int err;

	*index = (struct elf_index){.string_offset = {elf->strtab.offset, elf->dynstr.offset},
				    .string_bytes = {elf->strtab.size, elf->dynstr.size}};
	memcpy(index->code, elf->code, sizeof(index->code));
	index->code_count = elf->code_count;
	err = add_table(&b, elf, &elf->symtab, &elf->strtab, TABLE_SYMTAB, NULL, NULL);
	if (!err)
		err = add_table(&b, elf, &elf->dynsym, &elf->dynstr, TABLE_DYNSYM, NULL, NULL);
	if (!err && mini)
		err = add_table(&b, mini, &mini->symtab, &mini->strtab, TABLE_MINI,
				&index->mini_strings, &index->mini_bytes);
	if (err)
		goto out;
	if (b.count)
		qsort(b.items, b.count, sizeof(*b.items), compare);
	index->dropped = b.dropped;
	for (size_t i = 0; i < b.count; i++)
		distinct += is_first(&b, i);
	index->symbols = pages_new(distinct * sizeof(*index->symbols));
	if (!index->symbols) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < b.count; i++) {
		if (is_first(&b, i))
			index->symbols[index->count++] = b.items[i].symbol;
	}
out:
	free(b.items);
	if (err)
		elf_index_free(index);
	return err;
}

void elf_index_free(struct elf_index *index)
{
	pages_free(index->symbols);
	free(index->mini_strings);
	*index = (struct elf_index){0};
}

size_t elf_index_bytes(const struct elf_index *index)
{
	return pages_held_bytes(index->count * sizeof(*index->symbols)) + index->mini_bytes;
}

/* Whether a symbol without a size can be meant by an address behind it. */
static bool reaches(const struct elf_index *index, const struct elf_symbol *symbol,
		    uint64_t address, uint64_t function)
{
	for (unsigned i = 0; i < index->code_count; i++) {
		const struct elf_range *code = &index->code[i];

		if (symbol->address - code->address < code->size &&
		    address - code->address >= code->size)
			return false;
	}
	return symbol->address == function || address - symbol->address < MAX_REACH;
}

const struct elf_symbol *elf_index_find(const struct elf_index *index, uint64_t address,
					uint64_t function)
{
	size_t low = 0, high = index->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (index->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* A label, or a smaller function, may lie inside the function that is asked for. */
	for (size_t back = 0; back < 16 && back < low; back++) {
		const struct elf_symbol *symbol = &index->symbols[low - 1 - back];

		if (symbol->size && address - symbol->address < symbol->size)
			return symbol;
	}
	if (low && !index->symbols[low - 1].size &&
	    reaches(index, &index->symbols[low - 1], address, function))
		return &index->symbols[low - 1];
	return NULL;
}

int elf_index_name(const struct elf_index *index, const struct elf_file *elf,
		   const struct elf_symbol *symbol, char name[ELF_INDEX_NAME_BYTES])
{
	unsigned table = symbol->name >> NAME_BITS;
	uint32_t at = symbol->name & NAME_MASK;
	uint64_t bytes = table == TABLE_MINI ? index->mini_bytes : index->string_bytes[table & 1];
	size_t len = ELF_INDEX_NAME_BYTES;

	if (at >= bytes)
		return -EIO;
	if (len > bytes - at)
		len = bytes - at;
	if (table == TABLE_MINI)
		memcpy(name, index->mini_strings + at, len);
	else if (elf_file_read(elf, index->string_offset[table & 1] + at, name, len))
		return -EIO;
	/* A longer name is cut, one without an end is the file's fault. */
	if (!memchr(name, 0, len)) {
		if (len < ELF_INDEX_NAME_BYTES)
			return -EIO;
		name[len - 1] = 0;
	}
	return *name ? 0 : -EIO;
}
