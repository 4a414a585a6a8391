/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/jit_elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/demangle.h"

#define MAX_RANGES 4096
#define MAX_ROWS   64
#define MAX_NAME   1024

struct row_slot {
	uint64_t address;
	struct cfi_row *row;
	int err;
};

struct jit_elf {
	struct elf_file file;
	struct elf_index index;
	struct cfi_tables *tables; /* NULL: none */
	int tables_err;
	struct row_slot rows[MAX_ROWS];
	unsigned row_count;
	size_t bytes;
};

static void drop_rows(struct jit_elf *elf)
{
	while (elf->row_count) {
		struct row_slot *slot = &elf->rows[--elf->row_count];

		elf->bytes -= cfi_row_bytes(slot->row);
		cfi_row_free(slot->row);
	}
}

void jit_elf_free(struct jit_elf *elf)
{
	if (!elf)
		return;
	drop_rows(elf);
	cfi_tables_free(elf->tables);
	elf_index_free(&elf->index);
	elf_file_close(&elf->file);
	free(elf);
}

struct jit_elf *jit_elf_new(const uint8_t *bytes, size_t size, enum stack_arch arch, size_t *unpack)
{
	struct jit_elf *elf = calloc(1, sizeof(*elf));
	uint8_t *copy = malloc(size ? size : 1);
	struct elf_file mini;
	bool has_mini;
	int err = elf && copy ? 0 : -ENOMEM;

	if (err) {
		free(copy);
		free(elf);
		errno = -err;
		return NULL;
	}
	memcpy(copy, bytes, size);
	err = elf_file_open_memory(&elf->file, copy, size);
	if (err || elf->file.arch != arch) {
		jit_elf_free(elf);
		errno = err == -ENOMEM ? ENOMEM : ENOEXEC;
		return NULL;
	}
	err = elf_file_open_minidebug(&elf->file, *unpack, &mini);
	has_mini = !err;
	*unpack -= has_mini ? mini.size : 0;
	if (err == -ENOENT || !err)
		err = elf_index_build(&elf->index, &elf->file, has_mini ? &mini : NULL);
	if (!err)
		elf->tables_err = cfi_tables_new(&elf->file, has_mini ? &mini : NULL, &elf->tables);
	if (has_mini)
		elf_file_close(&mini);
	if (err) {
		jit_elf_free(elf);
		errno = err == -ENOMEM || err == -EFBIG ? -err : ENOEXEC;
		return NULL;
	}
	elf->bytes = sizeof(*elf) + size + elf_index_bytes(&elf->index) +
		     (elf->tables ? cfi_tables_bytes(elf->tables) : 0);
	return elf;
}

size_t jit_elf_bytes(const struct jit_elf *elf)
{
	return elf->bytes;
}

int jit_elf_ranges(const struct jit_elf *elf, struct jit_range **ranges)
{
	const struct elf_index *index = &elf->index;
	size_t count = 0, room = index->count < MAX_RANGES ? index->count : MAX_RANGES;
	struct jit_range *to = malloc((room ? room : 1) * sizeof(*to));

	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < index->count && count < room; i++) {
		const struct elf_symbol *symbol = &index->symbols[i];

		if (symbol->size && symbol->address + symbol->size > symbol->address)
			to[count++] =
				(struct jit_range){symbol->address, symbol->address + symbol->size};
	}
	*ranges = to;
	return (int)count;
}

int jit_elf_row(struct jit_elf *elf, uint64_t address, const struct cfi_row **row)
{
	struct row_slot *slot;

	*row = NULL;
	if (!elf->tables)
		return elf->tables_err == -ENODATA ? -ENODATA : -EBADMSG;
	for (unsigned i = 0; i < elf->row_count; i++) {
		if (elf->rows[i].address == address) {
			*row = elf->rows[i].row;
			return elf->rows[i].err;
		}
	}
	if (elf->row_count == MAX_ROWS)
		drop_rows(elf);
	slot = &elf->rows[elf->row_count++];
	slot->address = address;
	slot->err = cfi_row_at(elf->tables, address, &slot->row);
	elf->bytes += cfi_row_bytes(slot->row) + CFI_LOOK_BYTES;
	*row = slot->row;
	return slot->err;
}

char *jit_elf_name(const struct jit_elf *elf, uint64_t address, uint64_t *start)
{
	const struct elf_symbol *symbol = elf_index_find(&elf->index, address, 0);
	char name[ELF_INDEX_NAME_BYTES];

	if (!symbol || elf_index_name(&elf->index, &elf->file, symbol, name))
		return NULL;
	*start = symbol->address;
	/* ART's names are readable, and may look like mangled ones of other languages. */
	return strncmp(name, "_Z", 2) ? strndup(name, MAX_NAME) : demangle(name);
}
