/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/wait_places.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stack/elf_file.h"

#define TEXT_LIMIT    (64u << 20)
#define SYMBOLS_LIMIT (64u << 20)
#define MAX_FUNCTIONS 64

/* arm64 has only the newer call of each kind. */
static bool kind_of(enum stack_arch arch, uint64_t nr, uint32_t *kind)
{
	static const struct {
		uint16_t x86, arm64;
		uint8_t kind;
	} calls[] = {{232, 0, WAIT_EPOLL},   {281, 22, WAIT_EPOLL},    {441, 441, WAIT_EPOLL},
		     {7, 0, WAIT_POLL},      {271, 73, WAIT_POLL},     {23, 0, WAIT_SELECT},
		     {270, 72, WAIT_SELECT}, {426, 426, WAIT_IO_URING}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		uint16_t own = arch == STACK_X86_64 ? calls[i].x86 : calls[i].arm64;

		if (own && own == nr) {
			*kind = calls[i].kind;
			return true;
		}
	}
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct wait_place_at *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static void add_place(struct wait_places *places, struct wait_place_at *list, uint32_t *count,
		      uint64_t offset, uint32_t kind, uint32_t back)
{
	for (uint32_t i = 0; i < *count; i++)
		if (list[i].offset == offset && list[i].kind == kind)
			return;
	if (*count < WAIT_PLACES_MAX)
		list[(*count)++] = (struct wait_place_at){offset, kind, back};
	else
		places->left_out++;
}

/* ---- x86_64 ---- */

#define MOV_EAX 0xb8 /* mov $imm32, %eax */

static uint32_t load32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

/* Bytes of one "mov disp8(%rsp), reg" or register move, 0 if it is something else. A probe must
 * never land inside an instruction, so nothing is guessed between the number and the syscall. */
static size_t plain_move(const uint8_t *p, size_t left)
{
	size_t prefix = left && (p[0] & 0xf0) == 0x40;

	if (left < prefix + 4)
		return 0;
	p += prefix;
	if (p[0] == 0x8b && (p[1] & 0xc7) == 0x44 && p[2] == 0x24)
		return prefix + 4;
	if ((p[0] == 0x89 || p[0] == 0x31) && (p[1] & 0xc0) == 0xc0)
		return prefix + 2;
	return 0;
}

/* At text[i] begins "mov $nr, %eax", a few moves, "syscall": the byte behind it; else 0. */
static size_t match_x86(const uint8_t *text, size_t size, size_t i, uint32_t *kind)
{
	size_t at = i + 5;

	if (size - i < 7 || text[i] != MOV_EAX ||
	    !kind_of(STACK_X86_64, load32(text + i + 1), kind))
		return 0;
	for (int moves = 0; moves < 4 && at + 2 <= size; moves++) {
		size_t length;

		if (text[at] == 0x0f && text[at + 1] == 0x05)
			return at + 2;
		length = plain_move(text + at, size - at);
		if (!length)
			return 0;
		at += length;
	}
	return 0;
}

/* Behind the syscall glibc compares and jumps: the jump is emulated. */
static size_t leave_x86(const uint8_t *text, size_t size, size_t at)
{
	if (at + 8 <= size && text[at] == 0x48 && text[at + 1] == 0x3d &&
	    (text[at + 6] == 0x77 || (text[at + 6] == 0x0f && text[at + 7] == 0x87)))
		return at + 6;
	return at;
}

/* glibc asks first whether there are threads ("cmpb $0, x(%rip)" or "%fs:0x18"), moves one
 * register, and jumps. */
static size_t enter_x86(const uint8_t *text, size_t size, size_t at)
{
	size_t next = at;

	if (next + 4 <= size && !memcmp(text + next, "\xf3\x0f\x1e\xfa", 4))
		next += 4;
	if (next + 16 > size)
		return at;
	if (text[next] == 0x80 && text[next + 1] == 0x3d)
		next += 7;
	else if (!memcmp(text + next, "\x64\x80\x3c\x25", 4))
		next += 9;
	else if (text[next] == 0x64 && text[next + 1] == 0x8b)
		next += 8;
	else
		return at;
	next += plain_move(text + next, size - next);
	if (next + 2 <= size && (text[next] == 0x74 || text[next] == 0x75 ||
				 (text[next] == 0x0f && (text[next + 1] & 0xfe) == 0x84)))
		return next;
	return at;
}

/* ---- arm64 ---- */

/* "movz x8/w8, #nr" then "svc #0" within four instructions that are no branch. */
static size_t match_arm64(const uint8_t *text, size_t size, size_t i, uint32_t *kind)
{
	uint32_t word;

	if ((i & 3) || size - i < 8)
		return 0;
	word = load32(text + i);
	if ((word & 0x7fe0001fu) != 0x52800008u ||
	    !kind_of(STACK_ARM64, (word >> 5) & 0xffff, kind))
		return 0;
	for (size_t at = i + 4; at + 4 <= size && at <= i + 16; at += 4) {
		word = load32(text + at);
		if (word == 0xd4000001u)
			return at + 4;
		if ((word & 0x1c000000u) == 0x14000000u)
			return 0;
	}
	return 0;
}

/* Hints (bti, paciasp) cannot be stepped by every kernel: the one behind it can. */
static size_t enter_arm64(const uint8_t *text, size_t size, size_t at)
{
	while (at + 8 <= size && (load32(text + at) & 0xfffff01fu) == 0xd503201fu)
		at += 4;
	return at;
}

/* Behind the call bionic and glibc look for an error ("cmn x0, #4095 + 1", bionic "cneg x0, x0,
 * hi") and jump: the jump is emulated. */
static size_t leave_arm64(const uint8_t *text, size_t size, size_t at)
{
	size_t next = at + 4;

	if (next + 8 > size || load32(text + at) != 0xb140041fu)
		return at;
	if (load32(text + next) == 0xda809400u)
		next += 4;
	/* b.cond */
	return (load32(text + next) & 0xff000010u) == 0x54000000u ? next : at;
}

/* ---- a file ---- */

struct scan {
	const struct elf_file *elf;
	struct wait_places *places;
	/* offsets of the functions that are named like the waits, and their ends */
	struct {
		uint64_t begin, end;
	} functions[MAX_FUNCTIONS];
	size_t function_count;
};

static bool file_offset(const struct elf_file *elf, uint64_t address, uint64_t *offset)
{
	for (unsigned i = 0; i < elf->load_count; i++) {
		if (!elf->loads[i].exec || address < elf->loads[i].address ||
		    address - elf->loads[i].address >= elf->loads[i].file_bytes)
			continue;
		*offset = address - elf->loads[i].address + elf->loads[i].offset;
		return true;
	}
	return false;
}

static bool is_wait_name(const char *name, size_t room)
{
	static const char *const names[] = {"epoll_wait",    "epoll_pwait",     "epoll_pwait2",
					    "epoll_pwait64", "epoll_pwait2_64", "poll",
					    "ppoll",         "ppoll64",         "select",
					    "pselect",       "pselect64",       "io_uring_enter"};

	if (strnlen(name, room) == room)
		return false;
	name += strspn(name, "_");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static void find_functions(struct scan *scan, const struct elf_section *symbols,
			   const struct elf_section *strings)
{
	/* Elf64_Sym */
	struct symbol {
		uint32_t name;
		uint8_t info, other;
		uint16_t section;
		uint64_t value, size;
	} *table = NULL;
	uint8_t *bytes = NULL, *text = NULL;
	size_t size = 0, text_size = 0;

	if (!symbols->size || !strings->size ||
	    elf_file_section(scan->elf, symbols, SYMBOLS_LIMIT, &bytes, &size) ||
	    elf_file_section(scan->elf, strings, SYMBOLS_LIMIT, &text, &text_size))
		goto cleanup;
	table = (struct symbol *)bytes;
	for (size_t i = 0; i < size / sizeof(*table); i++) {
		uint64_t begin;
		size_t n = scan->function_count;

		if (!table[i].section || (table[i].info & 15) != 2 || table[i].name >= text_size ||
		    !is_wait_name((char *)text + table[i].name, text_size - table[i].name) ||
		    n == MAX_FUNCTIONS || !file_offset(scan->elf, table[i].value, &begin))
			continue;
		scan->functions[n].begin = begin;
		scan->functions[n].end = begin + (table[i].size < 4096 ? table[i].size : 4096);
		scan->function_count++;
	}
cleanup:
	free(bytes);
	free(text);
}

static void scan_text(struct scan *scan, const uint8_t *text, size_t size, uint64_t base)
{
	bool x86 = scan->elf->arch == STACK_X86_64;
	struct wait_places *places = scan->places;

	for (size_t i = 0; i + 8 <= size; i += x86 ? 1 : 4) {
		uint64_t enter;
		uint32_t kind = 0;
		const uint8_t *next = x86 ? memchr(text + i, MOV_EAX, size - 7 - i) : text + i;
		size_t behind, leave;

		if (!next)
			return;
		i = (size_t)(next - text);
		enter = base + i;
		behind = x86 ? match_x86(text, size, i, &kind) : match_arm64(text, size, i, &kind);
		if (!behind)
			continue;
		for (size_t f = 0; f < scan->function_count; f++) {
			uint64_t begin = scan->functions[f].begin;

			if (enter < begin || enter >= scan->functions[f].end || begin < base)
				continue;
			enter = base + (x86 ? enter_x86(text, size, begin - base)
					    : enter_arm64(text, size, begin - base));
			break;
		}
		leave = x86 ? leave_x86(text, size, behind) : leave_arm64(text, size, behind);
		add_place(places, places->enter, &places->enter_count, enter, kind, 0);
		add_place(places, places->leave, &places->leave_count, base + leave, kind,
			  (uint32_t)(leave - behind));
		i = behind - (x86 ? 1 : 4);
	}
}

int wait_places_find(const struct elf_file *elf, struct wait_places *places)
{
	struct scan scan = {.elf = elf, .places = places};

	*places = (struct wait_places){.go = elf->go};
	find_functions(&scan, &elf->dynsym, &elf->dynstr);
	if (!scan.function_count)
		find_functions(&scan, &elf->symtab, &elf->strtab);
	for (unsigned i = 0; i < elf->load_count; i++) {
		uint64_t size = elf->loads[i].file_bytes;
		uint8_t *text;

		if (!elf->loads[i].exec || size > TEXT_LIMIT)
			continue;
		text = malloc(size ? size : 1);
		if (!text)
			return -ENOMEM;
		if (!elf_file_read(elf, elf->loads[i].offset, text, size))
			scan_text(&scan, text, size, elf->loads[i].offset);
		free(text);
	}
	qsort(places->enter, places->enter_count, sizeof(*places->enter), compare);
	qsort(places->leave, places->leave_count, sizeof(*places->leave), compare);
	return places->go || (places->enter_count && places->leave_count) ? 0 : -ENOENT;
}
