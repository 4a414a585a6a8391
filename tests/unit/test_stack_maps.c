/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/files_direct.h"
#include "stack/maps.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct stack_maps *parse(const char *text, const struct stack_maps *previous)
{
	return maps_parse(strdup(text), strlen(text), previous);
}

Test(stack_maps, fields)
{
	struct stack_maps *maps =
		parse("5590e000-5590f000 r-xp 00001000 fe:01 4242   /a b/c (deleted)\n"
		      "7f00000000-7f00001000 rw-s 00000000 00:00 0\n"
		      "7ffc0000000-7ffc0021000 rw-p 00000000 00:00 0 [stack]\n",
		      NULL);
	const struct map_entry *entry;

	cr_assert_eq(maps->count, 3);
	entry = maps_find(maps, 0x5590efff);
	cr_assert_eq(entry, &maps->entries[0]);
	cr_assert_eq(entry->offset, 0x1000);
	cr_assert_eq(entry->inode, 4242);
	cr_assert_eq(entry->dev, 0xfeu << 20 | 1);
	cr_assert_eq(entry->flags, MAP_READ | MAP_EXEC);
	cr_assert(maps_path_is(maps, entry, "/a b/c (deleted)"));
	cr_assert_eq(maps->entries[1].flags, MAP_READ | MAP_WRITE | MAP_IS_SHARED);
	cr_assert_eq(maps->entries[1].path_len, 0);
	cr_assert_null(maps_find(maps, 0x5590f000));
	cr_assert_null(maps_find(maps, 0));
	cr_assert_null(maps_find(maps, UINT64_MAX));
	cr_assert_eq(maps_address_bits(maps), 47);
	maps_put(maps);
}

Test(stack_maps, lines_that_make_no_sense)
{
	struct stack_maps *maps = parse("garbage\n"
					"2000-1000 r-xp 0 0:0 0\n"
					"1000-2000 r?xp 0 0:0 0\n"
					"1000-2000 r-xp 0 0:0\n"
					"11111111111111111-2000 r-xp 0 0:0 0\n"
					"3000-4000 r-xp 0 0:0 7 /good\n"
					"3800-5000 r-xp 0 0:0 7 /overlaps\n"
					"6000-7000 r-xp 0 0:0 99999999999999999999999 /inode\n"
					"8000-9000 r-xp 0 0:0 8 /no newline",
					NULL);

	cr_assert_eq(maps->count, 2);
	cr_assert_eq(maps->rejected, 7);
	cr_assert(maps_path_is(maps, &maps->entries[1], "/no newline"));
	maps_put(maps);
}

Test(stack_maps, a_picture_of_5000_lines_is_reused)
{
	char *text = malloc(5000 * 100 + 100);
	struct stack_maps *first, *second;
	size_t len = 0;

	for (unsigned i = 0; i < 5000; i++)
		len += sprintf(text + len, "%x000-%x000 r-xp 00000000 08:01 %u   /lib/%u.so\n",
			       0x1000 + 2 * i, 0x1001 + 2 * i, i + 1, i);
	first = maps_parse(strndup(text, len), len, NULL);
	cr_assert_eq(first->count, 5000);
	/* the tail changes: what is before it is taken over */
	text[len] = 0;
	len += sprintf(text + len, "90000000-90001000 r-xp 00000000 08:01 9   /new.so\n");
	memcpy(strchr(text + 4000 * 40, '\n') + 1, "zzzz", 4);
	second = maps_parse(text, len, first);
	cr_assert_eq(second->rejected, 1);
	cr_assert_eq(second->count, 5000);
	for (unsigned i = 0; i < 5000; i += 7)
		cr_assert_not_null(maps_find(first, (0x1000ull + 2 * i) << 12));
	cr_assert(maps_path_is(second, maps_find(second, 0x90000000), "/new.so"));
	maps_put(first);
	maps_put(second);
}

/* An empty line has no entry either: the lines before a change are not the entries before it. */
Test(stack_maps, empty_line_in_a_picture_that_is_reused)
{
	struct stack_maps *first = parse("\n1000-2000 r-xp 0 0:0 7 /a\n", NULL), *second;

	second = parse("\n1000-2000 r-xp 0 0:0 7 /a\n3000-4000 r-xp 0 0:0 7 /b\n", first);
	cr_assert_eq(first->count, 1);
	cr_assert_eq(second->count, 2);
	cr_assert(maps_path_is(second, &second->entries[1], "/b"));
	maps_put(first);
	maps_put(second);
}

Test(stack_maps, of_this_process)
{
	struct stack_files files = files_direct("");
	struct stack_process us = {getpid(), 1}, nobody = {0x3fffffff, 1};
	struct maps_cache *cache = maps_cache_new(&files);
	struct stack_maps *maps = maps_cache_get(cache, &us, 0), *again, *later;
	const struct map_entry *entry = maps_find(maps, (uintptr_t)&maps_find);

	cr_assert(entry && entry->flags & MAP_EXEC);
	cr_assert_eq(maps->rejected, 0);
	again = maps_cache_get(cache, &us, 1000000000);
	cr_assert_eq(maps, again);
	mmap(NULL, 4096, PROT_EXEC | PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	later = maps_cache_get(cache, &us, 0);
	cr_assert_neq(maps, later);
	cr_assert_neq(maps->serial, later->serial);
	maps_put(maps);
	maps_put(again);
	maps_put(later);
	errno = 0;
	cr_assert_null(maps_cache_get(cache, &nobody, 0));
	cr_assert_eq(errno, ESRCH);
	maps_cache_free(cache);
}

/* A picture for each of many processes, each of half a MiB. */
static int large_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		      size_t *length)
{
	size_t len = 0;
	char *to = malloc(6000 * 96);

	for (unsigned i = 0; i < 6000; i++)
		len += (size_t)sprintf(to + len,
				       "%x000-%x000 r-xp 00000000 08:01 %u   /lib/%d/%u.so\n",
				       0x1000 + 2 * i, 0x1001 + 2 * i, i + 1, process->pid, i);
	*text = to;
	*length = len;
	return 0;
}

Test(stack_maps, pictures_of_many_processes_are_bounded)
{
	struct stack_files files = {.maps = large_maps};
	struct maps_cache *cache = maps_cache_new(&files);
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, after;

	for (int pid = 1; pid <= 64; pid++) {
		struct stack_process process = {pid, 1};
		struct stack_maps *maps = maps_cache_get(cache, &process, 0), *again;

		cr_assert_eq(maps->count, 6000);
		again = maps_cache_get(cache, &process, 1000000000);
		cr_assert_eq(maps, again, "the last one is kept");
		maps_put(maps);
		maps_put(again);
	}
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	cr_expect_lt(after, before + (6u << 20), "%zu then %zu bytes", before, after);
	maps_cache_free(cache);
}
