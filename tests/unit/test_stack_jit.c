/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of a runtime's code in made-up memory: right ones, ones that change, and lies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "jit_symfile.h"
#include "prober/jit_list.h"
#include "stack/code/jit_table.h"
#include "stack/registers.h"

#define BASE       0x10000000ull
#define BYTES      (1u << 20)
#define DESCRIPTOR BASE
#define ENTRIES    (BASE + 4096)
#define FILES      (BASE + 65536)
#define FILE_STEP  1024
#define TAG        0xb400000000000000ull

struct world {
	uint8_t bytes[BYTES];
	int layout;
	unsigned reads;
	void (*between)(struct world *w); /* after each part that is copied */
	void (*torn)(struct world *w, const struct jit_part *part); /* what was copied of it */
	unsigned state, removed, rate;
};

static struct jit_descriptor *descriptor(struct world *w)
{
	return (struct jit_descriptor *)(w->bytes + (DESCRIPTOR - BASE));
}

static uint64_t entry_address(unsigned number)
{
	return ENTRIES + number * 64;
}

static struct jit_code_entry *entry(struct world *w, unsigned number)
{
	return (struct jit_code_entry *)(w->bytes + (entry_address(number) - BASE));
}

static int read_world(void *ctx, const struct jit_part *parts, size_t count)
{
	struct world *w = ctx;

	cr_assert(count && count <= JIT_PARTS);
	w->reads++;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = parts[i].address - BASE;

		if (at > BYTES || parts[i].length > BYTES - at)
			return (int)i;
		memcpy(parts[i].to, w->bytes + at, parts[i].length);
		if (w->torn)
			w->torn(w, &parts[i]);
		if (w->between)
			w->between(w);
	}
	return (int)count;
}

static void put_file(struct world *w, unsigned number, unsigned name)
{
	char text[32];
	struct jit_method method = {0x400000 + number * 64, 64, text, jit_cfa, sizeof(jit_cfa)};
	uint8_t file[SYMFILE_ROOM];

	snprintf(text, sizeof(text), "void m%u.x%u()", number, name);
	entry(w, number)->size = jit_symfile(file, &method, 1, 0);
	cr_assert_leq(entry(w, number)->size, FILE_STEP);
	memcpy(w->bytes + (FILES - BASE) + number * FILE_STEP, file, entry(w, number)->size);
	entry(w, number)->symfile = (void *)(uintptr_t)(FILES + number * FILE_STEP);
}

/* Entries 0..count-1, the first one at the head. */
static struct world *make_world(int layout, unsigned count)
{
	struct world *w = calloc(1, sizeof(*w));
	struct jit_descriptor *d = descriptor(w);

	w->layout = layout;
	d->version = 1;
	if (layout) {
		memcpy(d->magic, layout == 2 ? "Android2" : "Android1", 8);
		d->descriptor_bytes = 56;
		d->entry_bytes = layout == 2 ? 48 : 40;
		d->timestamp = 1000 + count;
	}
	d->first = (void *)(uintptr_t)(count ? entry_address(0) : 0);
	for (unsigned i = 0; i < count; i++) {
		put_file(w, i, 0);
		entry(w, i)->next = (void *)(uintptr_t)(i + 1 < count ? entry_address(i + 1) : 0);
		/* What a smaller entry has no room for is another's. */
		entry(w, i)->timestamp = layout ? 1000 + count - i : 0x5555;
		entry(w, i)->seqlock = layout == 2 ? 2 : 0x7777;
	}
	return w;
}

static int read_list(struct world *w, uint64_t known, uint64_t since, struct jit_list *list)
{
	struct jit_memory memory = {read_world, w};
	struct jit_list_request request = {DESCRIPTOR, known, since, true};

	return jit_list_read(&memory, &request, list);
}

static void check_file(const struct jit_list *list, uint32_t at, unsigned number, unsigned *name)
{
	const struct jit_list_entry *e = &list->entries[at];
	size_t unpack = 0;
	struct jit_elf *elf;
	unsigned said = 0;
	uint64_t start;
	char *text;

	cr_assert(e->offset);
	elf = jit_elf_new(list->bytes + e->offset - 1, e->size, STACK_HOST_ARCH, &unpack);
	cr_assert(elf);
	text = jit_elf_name(elf, 0x400000 + number * 64 + 5, &start);
	cr_assert(text && sscanf(text, "void m%u.x%u()", &said, name) == 2 && said == number,
		  "%s for %u", text, number);
	cr_assert_eq(start, 0x400000 + number * 64);
	free(text);
	jit_elf_free(elf);
}

Test(stack_jit, layouts)
{
	for (int layout = 0; layout < 3; layout++) {
		struct world *w = make_world(layout, 5);
		struct jit_list list;
		unsigned name;

		/* as the zygote's boundary; and as arm64 tags its heap */
		entry(w, 2)->symfile = NULL;
		entry(w, 0)->next = (void *)(uintptr_t)(entry_address(1) | TAG);
		entry(w, 1)->symfile = (void *)((uintptr_t)entry(w, 1)->symfile | TAG);
		cr_assert_eq(read_list(w, 0, 0, &list), 1);
		cr_expect_eq(list.header.layout, (unsigned)layout);
		cr_assert_eq(list.header.count, 4);
		for (unsigned i = 0; i < 4; i++) {
			unsigned number = i < 2 ? i : i + 1;

			cr_expect_eq(list.entries[i].address, entry_address(number));
			check_file(&list, i, number, &name);
		}
		cr_expect(!list.header.left_out && !list.header.unread && list.header.version);
		w->reads = 0;
		cr_expect_eq(read_list(w, list.header.version, 0, &(struct jit_list){0}), 0);
		cr_expect_eq(w->reads, 1, "one look tells that nothing changed");
		jit_list_free(&list);
		free(w);
	}
}

Test(stack_jit, only_what_is_new)
{
	struct world *w = make_world(2, 5);
	struct jit_list list;

	cr_assert_eq(read_list(w, 7, 1003, &list), 1);
	cr_assert_eq(list.header.count, 5);
	for (unsigned i = 0; i < 5; i++)
		cr_expect_eq(list.entries[i].offset != 0, list.entries[i].timestamp > 1003);
	jit_list_free(&list);
	free(w);
}

/* ---- lies ---- */

static int read_lie(struct world *w)
{
	struct jit_list list;
	int err = read_list(w, 0, 0, &list);

	if (err == 1) {
		for (uint32_t i = 0; i < list.header.count; i++)
			cr_assert(!list.entries[i].offset ||
				  list.entries[i].offset - 1 + list.entries[i].size <=
					  list.header.bytes);
		jit_list_free(&list);
	}
	cr_expect_lt(w->reads, 100000, "%u looks", w->reads);
	free(w);
	return err;
}

Test(stack_jit, lies, .timeout = 60)
{
	for (int layout = 0; layout < 3; layout++) {
		struct world *w = make_world(layout, 5);
		struct jit_list list;

		entry(w, 0)->next = (void *)(uintptr_t)entry_address(0);
		cr_expect_eq(read_lie(w), -EAGAIN, "an entry that leads to itself");
		w = make_world(layout, 5);
		entry(w, 4)->next = (void *)(uintptr_t)entry_address(1);
		cr_expect_eq(read_lie(w), -EAGAIN, "a ring");
		w = make_world(layout, 5);
		entry(w, 3)->next = (void *)(uintptr_t)(BASE + BYTES - 4);
		cr_expect_eq(read_lie(w), -EAGAIN, "a link to nowhere");
		w = make_world(layout, 5);
		descriptor(w)->version = 0;
		cr_expect_eq(read_lie(w), -ENOTSUP, "no list yet");
		w = make_world(layout, 0);
		cr_expect_eq(read_lie(w), 1, "an empty list");
		w = make_world(layout, 5);
		entry(w, 1)->size = UINT64_MAX;
		entry(w, 2)->size = JIT_SYMFILE_BYTES;
		entry(w, 3)->symfile = (void *)8;
		cr_assert_eq(read_list(w, 0, 0, &list), 1);
		cr_expect_eq(list.header.left_out, 1);
		cr_expect_eq(list.header.unread, 2);
		cr_expect(list.entries[0].offset && list.entries[4].offset);
		jit_list_free(&list);
		free(w);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct world *w = make_world(2, 5);
		struct jit_descriptor *d = descriptor(w);

		if (i == 0)
			d->magic[7] = '3';
		else if (i == 1)
			d->entry_bytes = 40;
		else
			d->descriptor_bytes = 64;
		cr_expect_eq(read_lie(w), -ENOTSUP);
	}
	struct world *w = make_world(1, 5);

	descriptor(w)->seqlock = 3;
	cr_expect_eq(read_lie(w), -EAGAIN, "a list that is being changed for ever");
	w = make_world(2, 5);
	descriptor(w)->seqlock = 3;
	entry(w, 1)->seqlock = 3;
	struct jit_list list;

	cr_assert_eq(read_list(w, 0, 0, &list), 1);
	cr_expect_eq(list.header.count, 4, "an entry that is dead is left out");
	cr_expect_eq(list.header.version, 0, "and the list is looked at again");
	jit_list_free(&list);
	free(w);
}

Test(stack_jit, any_bytes, .timeout = 60)
{
	unsigned seed = 5;

	for (unsigned round = 0; round < 3000; round++) {
		struct world *w = make_world((int)(round % 3), 8);

		for (unsigned i = 0; i < 3; i++) {
			size_t at = (size_t)rand_r(&seed) % 2
					    ? (size_t)rand_r(&seed) % 56
					    : ENTRIES - BASE + (size_t)rand_r(&seed) % (8 * 64);

			w->bytes[at] = (uint8_t)rand_r(&seed);
		}
		read_lie(w);
	}
}

/* ---- a list that changes between any two looks ---- */

/* Each third copy of the descriptor is held up amid the pointer to the head. */
static void tear_head(struct world *w, const struct jit_part *part)
{
	if (part->address == DESCRIPTOR && ++w->state % 3 == 0)
		((struct jit_descriptor *)part->to)->first =
			(void *)(uintptr_t)entry_address(w->removed);
}

Test(stack_jit, a_pointer_that_is_copied_by_halves)
{
	/* entry 8: memory of zeros; entry 1: one amid the list; entry 9: never entered, but looks
	 * alive */
	static const unsigned leads_to[] = {8, 1, 9};

	for (size_t i = 0; i < sizeof(leads_to) / sizeof(*leads_to); i++) {
		for (unsigned begin = 0; begin < 3; begin++) {
			struct world *w = make_world(2, 3);
			struct jit_list list;

			entry(w, 9)->seqlock = 2;
			descriptor(w)->seqlock = 3; /* it is never at rest */
			w->torn = tear_head;
			w->removed = leads_to[i];
			w->state = begin;
			cr_assert_eq(read_list(w, 0, 0, &list), 1);
			cr_expect_eq(list.header.count, 3, "to entry %u: %u of 3", leads_to[i],
				     list.header.count);
			cr_expect_eq(list.header.version, 0);
			jit_list_free(&list);
			free(w);
		}
	}
}

#define SLOTS 24

/* Entries of odd numbers come and go, those of even numbers stay; ART's order of steps. */
static void change(struct world *w)
{
	struct jit_descriptor *d = descriptor(w);
	unsigned number = 1 + (unsigned)rand_r(&w->state) % (SLOTS / 2) * 2;
	uint64_t address = entry_address(number);
	struct jit_code_entry *e = entry(w, number);

	if ((unsigned)rand_r(&w->state) % w->rate)
		return;
	d->seqlock += 2;
	d->timestamp++;
	if (!(e->seqlock & 1)) {
		struct jit_code_entry *at;

		e->seqlock++;
		if ((uintptr_t)d->first == address)
			d->first = e->next;
		for (unsigned i = 0; i < SLOTS; i++) {
			at = entry(w, i);
			if ((uintptr_t)at->next == address && !(at->seqlock & 1))
				at->next = e->next;
		}
		w->removed++;
		return;
	}
	put_file(w, number, ++w->removed);
	e->next = d->first;
	e->timestamp = d->timestamp;
	e->seqlock++;
	d->first = (void *)(uintptr_t)address;
}

/* One change in so many looks at memory; those of odd numbers were never entered at first. */
static void read_changing(unsigned rate)
{
	struct world *w = make_world(2, SLOTS);
	unsigned had = 0;

	for (unsigned i = 0; i < SLOTS; i++) {
		if (i & 1)
			*entry(w, i) = (struct jit_code_entry){.seqlock = 1};
		else
			entry(w, i)->next =
				(void *)(uintptr_t)(i + 2 < SLOTS ? entry_address(i + 2) : 0);
	}
	w->state = 3;
	w->rate = rate;
	w->between = change;
	for (unsigned round = 0; round < 3000; round++) {
		struct jit_list list;
		unsigned stayed = 0, name;
		int err = read_list(w, 0, 0, &list);

		if (err != 1) {
			cr_assert_eq(err, -EAGAIN);
			continue;
		}
		had++;
		for (uint32_t i = 0; i < list.header.count; i++) {
			unsigned number = (unsigned)((list.entries[i].address - ENTRIES) / 64);

			if (!list.entries[i].offset)
				continue;
			check_file(&list, i, number, &name);
			stayed += !(number & 1);
			cr_assert(number & 1 || name == 0);
		}
		cr_assert_eq(stayed, SLOTS / 2, "%u of those that were there all the time", stayed);
		jit_list_free(&list);
	}
	cr_expect_gt(had, 2900, "%u lists", had);
	free(w);
}

Test(stack_jit, never_the_same_twice, .timeout = 120)
{
	read_changing(4);
}

Test(stack_jit, seldom_the_same, .timeout = 120)
{
	read_changing(20);
	read_changing(100);
}

/* ---- what is handed on ---- */

Test(stack_jit, message)
{
	struct world *w = make_world(2, 5);
	struct jit_list list, view;
	size_t entries, length;
	uint8_t *message;

	cr_assert_eq(read_list(w, 0, 0, &list), 1);
	entries = list.header.count * sizeof(*list.entries);
	length = sizeof(list.header) + entries + list.header.bytes;
	message = malloc(length);
	memcpy(message, &list.header, sizeof(list.header));
	memcpy(message + sizeof(list.header), list.entries, entries);
	memcpy(message + sizeof(list.header) + entries, list.bytes, list.header.bytes);
	cr_assert(jit_list_view(message, length, &view));
	cr_expect_eq(memcmp(view.bytes, list.bytes, list.header.bytes), 0);
	for (size_t cut = 0; cut < length; cut++)
		cr_assert(!jit_list_view(message, cut, &view));
	((struct jit_list_entry *)(message + sizeof(list.header)))->size = UINT64_MAX;
	cr_expect(!jit_list_view(message, length, &view));
	free(message);
	jit_list_free(&list);
	free(w);
}

/* ---- ELF files ---- */

static void try_elf(const uint8_t *bytes, size_t size)
{
	size_t unpack = 1 << 16;
	uint8_t *exact = malloc(size ? size : 1);
	struct jit_elf *elf;
	struct jit_range *ranges;
	const struct cfi_row *row;
	uint64_t start;

	memcpy(exact, bytes, size);
	elf = jit_elf_new(exact, size, STACK_HOST_ARCH, &unpack);
	free(exact);
	if (elf) {
		int count = jit_elf_ranges(elf, &ranges);

		cr_assert_geq(count, 0);
		for (int i = 0; i < count; i++) {
			cr_assert_lt(ranges[i].start, ranges[i].end);
			free(jit_elf_name(elf, ranges[i].start, &start));
			jit_elf_row(elf, ranges[i].start, &row);
		}
		free(ranges);
	}
	jit_elf_free(elf);
}

Test(stack_jit, elf_cut_and_changed, .timeout = 120)
{
	struct jit_method methods[] = {{0x1000, 64, "void a.b()", jit_cfa, sizeof(jit_cfa)},
				       {0x2000, 32, "_ZN1a1bEv", jit_cfa, sizeof(jit_cfa)}};
	uint8_t file[SYMFILE_ROOM];

	for (int packed = 0; packed < 2; packed++) {
		size_t size = jit_symfile(file, methods, 2, packed), unpack = 1 << 16;
		struct jit_elf *elf = jit_elf_new(file, size, STACK_HOST_ARCH, &unpack);
		const struct cfi_row *row;
		struct jit_range *ranges;
		uint64_t start;
		char *name;

		cr_assert(elf);
		cr_assert_eq(jit_elf_ranges(elf, &ranges), 2);
		cr_expect(ranges[1].start == 0x2000 && ranges[1].end == 0x2020);
		free(ranges);
		name = jit_elf_name(elf, 0x1005, &start);
		cr_expect_str_eq(name, "void a.b()");
		free(name);
		name = jit_elf_name(elf, 0x201f, &start);
		cr_expect_str_eq(name, "a::b()");
		free(name);
		cr_expect_null(jit_elf_name(elf, 0x2020, &start));
		cr_expect_eq(jit_elf_row(elf, 0x1004, &row), 0);
		cr_expect_eq(jit_elf_row(elf, 0x3000, &row), -ENODATA);
		/* Rows are kept up to a number. */
		for (unsigned i = 0; i < 1000; i++)
			jit_elf_row(elf, 0x1000 + i % 64, &row);
		jit_elf_free(elf);
		unpack = 8;
		cr_expect(!packed || !jit_elf_new(file, size, STACK_HOST_ARCH, &unpack));
		unpack = 1 << 16;
		cr_expect_null(jit_elf_new(file, size, STACK_HOST_ARCH ^ 1, &unpack));
		for (size_t cut = 0; cut < size; cut++)
			try_elf(file, cut);
		for (size_t at = 0; at < size; at++) {
			uint8_t was = file[at];

			file[at] = was ^ 0xff;
			try_elf(file, size);
			file[at] = was ^ 1;
			try_elf(file, size);
			file[at] = was;
		}
	}
}

/* ---- what is kept ---- */

static void count_gone(void *ctx, struct jit_entry *gone)
{
	++*(unsigned *)ctx;
}

Test(stack_jit, table)
{
	struct world *w = make_world(2, 8);
	struct jit_table table = {.arch = STACK_HOST_ARCH};
	struct jit_list list;
	unsigned gone = 0;
	size_t bytes;

	cr_assert_eq(read_list(w, 0, 0, &list), 1);
	cr_assert_eq(jit_table_take(&table, &list, 1 << 20, count_gone, &gone), 0);
	for (unsigned i = 0; i < 8; i++) {
		struct jit_entry *found = jit_table_find(&table, 0x400000 + i * 64 + 63);

		cr_assert(found && found->key.address == entry_address(i));
	}
	cr_expect_null(jit_table_find(&table, 0x3fffff));
	cr_expect_null(jit_table_find(&table, 0x400000 + 8 * 64));
	bytes = table.bytes;
	/* Those that are known are not read again; one that is gone is forgotten. */
	for (uint32_t i = 0; i < 8; i++)
		list.entries[i].offset = 0;
	list.header.count = 7;
	cr_assert_eq(jit_table_take(&table, &list, 1 << 20, count_gone, &gone), 0);
	cr_expect(gone == 1 && !table.missing && table.bytes < bytes);
	cr_expect_null(jit_table_find(&table, 0x400000 + 7 * 64));
	/* Used again for another method: nothing of it was copied. */
	list.entries[3].seqlock += 2;
	cr_assert_eq(jit_table_take(&table, &list, 1 << 20, count_gone, &gone), 0);
	cr_expect(gone == 2 && table.missing == 1);
	cr_expect_null(jit_table_find(&table, 0x400000 + 3 * 64));
	jit_list_free(&list);
	jit_table_free(&table, count_gone, &gone);
	cr_expect_eq(gone, 8);
	/* No room, and files that make no sense. */
	memset(w->bytes + (FILES - BASE), 0, FILE_STEP);
	cr_assert_eq(read_list(w, 0, 0, &list), 1);
	table.arch = STACK_HOST_ARCH;
	cr_assert_eq(jit_table_take(&table, &list, 4096, count_gone, &gone), 0);
	cr_expect(table.missing && table.missing < 8 && table.bytes <= 4096 + 1024);
	cr_expect_eq(table.malformed, 1);
	jit_list_free(&list);
	jit_table_free(&table, count_gone, &gone);
	free(w);
}
