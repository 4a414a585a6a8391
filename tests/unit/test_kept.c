/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept for a whole run lies apart from what an interval takes: kept amid it, a row of 100
 * bytes holds a page of 4 KiB when the rest of the page is free again, and a soak grows. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/paths.h"
#include "summary/blocks.h"
#include "summary/top.h"
#include "util/arena.h"
#include "util/heap.h"

#define SEC    1000000000ull
#define ROUNDS 400
#define PIECES 500 /* of an interval, of 1.1 to 3.1 KiB: glibc's tcache keeps smaller ones */

/* As record does. */
static void give_memory_back(void)
{
	mallopt(M_MMAP_THRESHOLD, ARENA_KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

static size_t resident_heap(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long kib = 0;
	bool is_heap = false;
	char line[512];

	cr_assert(file);
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "[heap]"))
			is_heap = true;
		else if (is_heap && sscanf(line, "Rss: %lu kB", &kib) == 1)
			break;
	}
	fclose(file);
	return kib * 1024;
}

/* Bytes of the heap that stay in memory when an interval's own were freed. keep is called amid the
 * allocations of each of ROUNDS intervals. */
static size_t heap_after(void (*keep)(void *to, unsigned i), void *to)
{
	static void *pieces[PIECES];
	unsigned state = 1;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < PIECES; i++) {
			state = state * 1664525 + 1013904223;
			pieces[i] = malloc(1100 + (state >> 8) % 2000);
			cr_assert(pieces[i]);
			memset(pieces[i], 1, 1100);
			if (i % 100 == 99)
				keep(to, round * PIECES + i);
		}
		for (unsigned i = 0; i < PIECES; i++)
			free(pieces[i]);
	}
	malloc_trim(0);
	return resident_heap();
}

static void keep_nothing(void *to, unsigned i)
{
	(void)to;
	(void)i;
}

static void keep_block(void *to, unsigned i)
{
	char name[64];
	struct record_frame frame = {.symbol = name};
	struct record_stack stack = {.frames = &frame, .frame_count = 1};

	snprintf(name, sizeof(name), "a function of the %u. mapping", i);
	block_groups_add(to, 1000, &stack);
}

static void keep_path(void *to, unsigned i)
{
	char name[64];
	struct record_frame frame = {.symbol = name};
	struct record_stack stack = {.weight_ns = 1000, .frames = &frame, .frame_count = 1};
	struct record_block block = {.stacks = &stack, .stack_count = 1};

	snprintf(name, sizeof(name), "a function of the %u. mapping", i);
	cr_assert_eq(paths_add(to, &block), 0);
}

static void keep_thread(void *to, unsigned i)
{
	char name[64];
	struct top_entry entry = {.pid = (pid_t)i + 1,
				  .tid = (pid_t)i + 1,
				  .start_boot_ns = SEC + i,
				  .thread = name,
				  .process = "process",
				  .cpu_ns = 10,
				  .exited = true};

	snprintf(name, sizeof(name), "thread %u", i);
	cr_assert_eq(top_add(to, &entry, 2 * SEC + i), 0);
}

#define SAME(keep, to)                                                                             \
	do {                                                                                       \
		size_t without = heap_after(keep_nothing, NULL), with = heap_after(keep, to);      \
		cr_expect_leq(with, without + (100u << 10), "the heap has %zu, %zu without", with, \
			      without);                                                            \
	} while (0)

Test(kept, block_paths_hold_no_page_of_the_heap, .init = give_memory_back)
{
	struct block_groups *groups = block_groups_new(false);
	struct record_footer footer = {0};

	SAME(keep_block, groups);
	cr_assert_eq(block_groups_take(groups, 10, &footer), 0);
	cr_expect_eq(footer.block_path_count, 10);
	block_groups_free(groups);
}

Test(kept, stack_paths_hold_no_page_of_the_heap, .init = give_memory_back)
{
	struct paths *paths = paths_new();
	const struct footer_path *top;

	SAME(keep_path, paths);
	cr_expect_eq(paths_top(paths, 10, &top), 10);
	paths_free(paths);
}

/* More names than are held: each is right or in the sum of the others. */
Test(kept, names_of_short_threads_hold_no_page_of_the_heap, .init = give_memory_back)
{
	struct top *top = top_new();
	struct footer_top result;
	uint64_t cpu_ns = 0;

	SAME(keep_thread, top);
	cr_assert_eq(top_take(top, 1000, &result), 0);
	cr_expect(result.count >= 256 && result.count <= 512, "%zu rows", result.count);
	for (size_t i = 0; i < result.count; i++) {
		const struct footer_usage *row = &result.rows[i];

		cpu_ns += row->cpu_ns;
		cr_expect_eq(row->cpu_ns, 10);
		cr_expect(row->thread && !strncmp(row->thread, "thread ", 7), "%s", row->thread);
		cr_expect_str_eq(row->process, "process");
		cr_expect_null(row->package);
	}
	cr_expect_eq(cpu_ns + result.other_ns, 10ull * ROUNDS * PIECES / 100);
	top_free(top);
}

/* Processes that live for a minute each: the heaviest are told by themselves, the others are in
 * the row of their name, and nothing is in the sum of nobody. */
Test(kept, lives_that_are_over_do_not_fill_the_rows)
{
	struct top *top = top_new();
	size_t before = mallinfo2().uordblks, after;
	struct footer_top result;
	uint64_t cpu_ns = 0, lives = 0;
	unsigned alone = 0, heavy = 0;

	for (unsigned i = 0; i < 10000; i++) {
		struct top_entry entry = {.pid = (pid_t)i % 30000 + 1,
					  .start_boot_ns = 60 * SEC * i + 1,
					  .process = i % 3 ? "app" : "app:remote",
					  .package = "app",
					  .cpu_ns = 5000 + i % 1000};

		cr_assert_eq(top_add(top, &entry, entry.start_boot_ns + SEC), 0);
		entry.exited = true;
		cr_assert_eq(top_add(top, &entry, entry.start_boot_ns + 59 * SEC), 0);
	}
	after = mallinfo2().uordblks;
	cr_expect_leq(after, before + (64u << 10), "%zu bytes", after - before);
	cr_assert_eq(top_take(top, 4000, &result), 0);
	for (size_t i = 0; i < result.count; i++) {
		const struct footer_usage *row = &result.rows[i];

		cpu_ns += row->cpu_ns;
		lives += row->count;
		alone += row->count == 1;
		heavy += row->count == 1 && row->cpu_ns > 11900;
	}
	/* Three quarters of those that are held are the heaviest of all. */
	cr_expect(alone >= 48 && alone <= 64 && heavy >= 48, "%u alone, %u heavy", alone, heavy);
	cr_expect_eq(result.count, alone + 2);
	cr_expect_eq(lives, 10000);
	cr_expect_eq(result.other_ns, 0);
	cr_expect_eq(cpu_ns, 2ull * (5000ull * 10000 + 10 * 499500));
	top_free(top);
}

/* A large block does not make the heap grow, however large ones that were freed have been. */
Test(kept, a_block_of_pages_is_no_part_of_the_heap)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), heap;
	void *blocks[64];

	if (!mallinfo2().arena)
		cr_skip_test("this allocator tells nothing of itself");
	heap_map_pages();
	free(malloc(1 << 20));
	heap = mallinfo2().arena;
	for (size_t i = 0; i < 64; i++)
		cr_assert(blocks[i] = malloc(2 * page));
	cr_expect_leq(mallinfo2().arena, heap);
	for (size_t i = 0; i < 64; i++)
		free(blocks[i]);
}

/* What malloc keeps of freed blocks is there from the start on, and grows no more. */
Test(kept, the_cache_of_malloc_is_full_at_once)
{
	size_t before = mallinfo2().uordblks, first, second;

	if (!before)
		cr_skip_test("this allocator tells nothing of itself");
	heap_fill_cache();
	first = mallinfo2().uordblks;
	heap_fill_cache();
	second = mallinfo2().uordblks;
	cr_expect_geq(first, before + (150u << 10), "%zu bytes", first - before);
	cr_expect_leq(second, first + 4096, "%zu bytes", second - first);
}
