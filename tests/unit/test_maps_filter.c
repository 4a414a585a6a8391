/* SPDX-License-Identifier: BSD-2-Clause */
/* What of a process's maps is kept, and that it is bounded. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prober/maps_filter.h"
#include "stack/files_direct.h"
#include "stack/maps.h"

struct result {
	char *text;
	size_t length, room, fail_after;
};

static int take(void *ctx, const char *text, size_t length)
{
	struct result *result = ctx;

	if (result->fail_after && result->length + length > result->fail_after)
		return -28;
	if (result->length + length + 1 > result->room) {
		result->room = (result->length + length + 1) * 2;
		result->text = realloc(result->text, result->room);
	}
	memcpy(result->text + result->length, text, length);
	result->length += length;
	result->text[result->length] = 0;
	return 0;
}

/* Its result; *err is that of the filter. */
static struct result filter_text(const char *text, size_t length, size_t bytes, size_t fail_after,
				 int *err)
{
	struct result result = {.fail_after = fail_after};
	struct maps_filter filter;
	const char *line = text, *end = text + length;

	maps_filter_init(&filter, bytes, take, &result);
	*err = 0;
	while (line < end && !*err) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));

		*err = maps_filter_line(&filter, line, (size_t)((newline ?: end) - line));
		line = newline ? newline + 1 : end;
	}
	if (*err)
		maps_filter_free(&filter);
	else
		*err = maps_filter_end(&filter);
	return result;
}

Test(maps_filter, what_a_stack_needs)
{
	static const char text[] =
		"55550000-55551000 r--p 00000000 08:01 7   /bin/app\n"
		"55551000-55553000 r-xp 00001000 08:01 7   /bin/app\n"
		"55553000-55554000 rw-p 00003000 08:01 7   /bin/app\n"
		"66660000-66670000 rw-p 00000000 00:00 0   [heap]\n"
		"7000000000-7000100000 r--p 00000000 fe:21 8   /data/app/base.apk\n"
		"7000100000-7000200000 r--p 00300000 fe:21 8   /data/app/base.apk\n"
		"7000200000-7000201000 ---p 00000000 00:00 0   [page size compat]\n"
		"7000201000-7000300000 r-xp 00400000 fe:21 8   /data/app/base.apk\n"
		"7000300000-7000400000 rwxs 00000000 00:05 9   /memfd:jit-cache (deleted)\n"
		"7000400000-7000500000 r-xp 00000000 00:00 0\n"
		"7000500000-7000600000 r--s 00000000 08:01 10   /usr/share/font\n"
		"7ffff000000-7ffff001000 r-xp 00000000 00:00 0   [vdso]\n"
		"7ffff100000-7ffff200000 rw-p 00000000 00:00 0   [stack]\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n";
	static const char wanted[] =
		"55550000-55551000 r--p 00000000 08:01 7\n"
		"55551000-55553000 r-xp 00001000 08:01 7   /bin/app\n"
		"7000000000-7000100000 r--p 00000000 fe:21 8   /data/app/base.apk\n"
		"7000100000-7000200000 r--p 00300000 fe:21 8   /data/app/base.apk\n"
		"7000201000-7000300000 r-xp 00400000 fe:21 8   /data/app/base.apk\n"
		"7000300000-7000400000 rwxs 00000000 00:05 9   /memfd:jit-cache (deleted)\n"
		"7000400000-7000500000 r-xp 00000000 00:00 0\n"
		"7ffff000000-7ffff001000 r-xp 00000000 00:00 0   [vdso]\n"
		"7ffff100000-7ffff200000 rw-p 00000000 00:00 0\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n";
	struct result result;
	int err;

	result = filter_text(text, strlen(text), MAPS_FILTER_BYTES, 0, &err);
	cr_assert_eq(err, 0);
	cr_expect_str_eq(result.text, wanted);
	free(result.text);
	/* without [vsyscall], as on arm64 */
	result = filter_text(text, (size_t)(strstr(text, "ffffffffff6") - text), MAPS_FILTER_BYTES,
			     0, &err);
	cr_assert_eq(err, 0);
	cr_expect_eq(strncmp(result.text, wanted, result.length), 0);
	cr_expect_eq(result.length, (size_t)(strstr(wanted, "ffffffffff6") - wanted));
	free(result.text);
	result = filter_text(text, strlen(text), MAPS_FILTER_BYTES, 100, &err);
	cr_expect_eq(err, -28, "what the writer says");
	free(result.text);
}

/* Of what is not executable, only what may have byte code is kept with its name, and not without
 * bound. */
Test(maps_filter, byte_code)
{
	static const char text[] =
		"1000-2000 r--p 00000000 08:01 1   /system/framework/framework.jar\n"
		"2000-3000 rw-p 00000000 08:01 2   /data/app/base.vdex (deleted)\n"
		"3000-4000 r--p 00000000 08:01 3   /system/lib64/libart.so\n"
		"4000-5000 r--p 00000000 08:01 4   /data/app/oat/arm64/base.odex\n"
		"5000-6000 r-xp 00001000 08:01 4   /data/app/oat/arm64/base.odex\n"
		"6000-7000 r--p 00000000 00:00 0   [anon:dalvik-classes.dex extracted in memory "
		"from /a.apk]\n"
		"7000-8000 r--p 00000000 00:00 0   [anon:dalvik-DEX data]\n"
		"8000-9000 rw-p 00000000 00:00 0   [anon:dalvik-main space]\n"
		"9000-a000 ---p 00000000 08:01 1   /system/framework/framework.jar\n"
		"a000-b000 r--p 00000000 08:01 6   /system/fonts/a.jar.ttf\n"
		"b000-c000 r--p 00000000 08:01 7   .dex\n"
		"c000-d000 r--p 00000000 00:00 0\n";
	static const char wanted[] =
		"1000-2000 r--p 00000000 08:01 1   /system/framework/framework.jar\n"
		"2000-3000 rw-p 00000000 08:01 2   /data/app/base.vdex (deleted)\n"
		"00004000-00005000 r--p 00000000 08:01 4\n"
		"5000-6000 r-xp 00001000 08:01 4   /data/app/oat/arm64/base.odex\n"
		"6000-7000 r--p 00000000 00:00 0   [anon:dalvik-classes.dex extracted in memory "
		"from /a.apk]\n"
		"7000-8000 r--p 00000000 00:00 0   [anon:dalvik-DEX data]\n"
		"0000c000-0000d000 r--p 00000000 00:00 0\n";
	struct result result;
	char many[128 << 10];
	size_t length = 0, lines = 0;
	int err;

	result = filter_text(text, strlen(text), MAPS_FILTER_BYTES, 0, &err);
	cr_assert_eq(err, 0);
	cr_expect_str_eq(result.text, wanted);
	free(result.text);
	for (unsigned i = 0; i < 2 * MAPS_FILTER_BYTE_CODE; i++)
		length += (size_t)snprintf(many + length, sizeof(many) - length,
					   "%x000-%x800 r--p 00000000 08:01 1   /a.apk\n", i + 1,
					   i + 1);
	result = filter_text(many, length, MAPS_FILTER_BYTES, 0, &err);
	cr_assert_eq(err, 0);
	for (size_t i = 0; i < result.length; i++)
		lines += result.text[i] == '\n';
	cr_expect_eq(lines, MAPS_FILTER_BYTE_CODE + 1, "%zu, with the uppermost", lines);
	free(result.text);
}

/* Code is found where it is found in the whole text, and addresses are as wide. */
Test(maps_filter, code_of_this_process)
{
	struct result result;
	struct stack_maps *whole, *kept;
	size_t length, bare = 0;
	char *text;
	int err;

	cr_assert_eq(files_direct_maps("", getpid(), &text, &length), 0);
	result = filter_text(text, length, MAPS_FILTER_BYTES, 0, &err);
	cr_assert_eq(err, 0);
	whole = maps_parse(text, length, NULL);
	kept = maps_parse(result.text, result.length, NULL);
	cr_expect_eq(kept->rejected, 0);
	cr_expect_lt(kept->count, whole->count);
	cr_expect_eq(maps_address_bits(kept), maps_address_bits(whole));
	for (size_t i = 0; i < whole->count; i++) {
		const struct map_entry *entry = &whole->entries[i], *same;

		if (!(entry->flags & MAP_EXEC)) {
			bare++;
			continue;
		}
		same = maps_find(kept, entry->start);
		cr_assert(same && same->start == entry->start && same->end == entry->end &&
			  same->offset == entry->offset && same->inode == entry->inode &&
			  same->dev == entry->dev && same->path_len == entry->path_len);
		cr_expect_not(maps_left_out(kept, entry->start));
	}
	cr_expect_gt(bare, 3);
	maps_put(whole);
	maps_put(kept);
}

#define JUNGLE 65000

static char *jungle(size_t *length)
{
	char *text = malloc(JUNGLE * 80 + 4096);
	size_t len =
		(size_t)sprintf(text, "5555555000-5555556000 r-xp 00000000 08:01 7 /bin/app\n");

	for (unsigned i = 0; i < JUNGLE; i++)
		len += (size_t)sprintf(text + len,
				       "7e%06x000-7e%06x000 r-xp 00000000 00:01 %u "
				       "/memfd:jit-%u (deleted)\n",
				       i, i + 1, 100 + i % 2, i % 2);
	len += (size_t)sprintf(text + len,
			       "7fff00000000-7fff00001000 r--p 00000000 08:01 8 /lib/libc.so\n"
			       "7fff00001000-7fff00100000 r-xp 00001000 08:01 8 /lib/libc.so\n"
			       "7fff10000000-7fff10001000 r-xp 00000000 00:00 0 [vdso]\n"
			       "7fff20000000-7fff20001000 rw-p 00000000 00:00 0 [stack]\n");
	*length = len;
	return text;
}

/* The program and what it was linked with stay, and what is not known is said so. */
Test(maps_filter, more_mappings_than_are_kept)
{
	struct result result;
	struct stack_maps *maps;
	size_t length;
	char *text = jungle(&length);
	int err;

	cr_assert_gt(length, 4u << 20);
	result = filter_text(text, length, MAPS_FILTER_BYTES, 0, &err);
	cr_assert_eq(err, 0);
	cr_expect_leq(result.length, MAPS_FILTER_BYTES + 128);
	cr_expect_gt(result.length, MAPS_FILTER_BYTES * 9 / 10);
	maps = maps_parse(result.text, result.length, NULL);
	cr_assert_eq(maps->rejected, 0);
	cr_expect(maps_path_is(maps, maps_find(maps, 0x5555555000), "/bin/app"));
	cr_expect(maps_path_is(maps, maps_find(maps, 0x7fff00002000), "/lib/libc.so"));
	cr_expect_not_null(maps_find(maps, 0x7fff00000000), "where its ELF file begins");
	cr_expect(maps_path_is(maps, maps_find(maps, 0x7fff10000000), "[vdso]"));
	cr_expect_eq(maps_address_bits(maps), 47);
	cr_expect(maps_path_is(maps, maps_find(maps, 0x7e000000000), "/memfd:jit-0 (deleted)"));
	for (uint64_t i = 0; i < JUNGLE; i++) {
		uint64_t at = 0x7e000000000 + (i << 12);
		const struct map_entry *entry = maps_find(maps, at);

		/* Each is told as it is, or is said not to be told. */
		cr_assert(entry);
		if (maps_left_out(maps, at))
			cr_assert_eq(entry->flags, 0);
		else
			cr_assert(entry->start == at && entry->inode == 100 + i % 2);
	}
	cr_expect(maps_left_out(maps, 0x7e000000000 + ((uint64_t)JUNGLE / 2 << 12)));
	cr_expect_not(maps_left_out(maps, 0x6000000000));
	maps_put(maps);
	free(text);
}

/* Any bytes give lines that make sense, and never more than there may be. */
Test(maps_filter, hostile_text, .timeout = 60)
{
	size_t length;
	char *text = jungle(&length);
	unsigned seed = 1;

	for (unsigned round = 0; round < 40; round++) {
		struct result result;
		struct stack_maps *maps;
		int err;

		for (unsigned i = 0; i < 5000; i++) {
			static const char bytes[] = "\n x-r0f7:\1";
			size_t at = ((size_t)rand_r(&seed) << 16 ^ (size_t)rand_r(&seed)) % length;

			text[at] = bytes[(unsigned)rand_r(&seed) % (sizeof(bytes) - 1)];
		}
		result = filter_text(text, length, 16384 << round % 6, 0, &err);
		cr_assert_eq(err, 0);
		cr_assert_leq(result.length, (16384u << round % 6) + 128);
		maps = maps_parse(result.text, result.length, NULL);
		cr_assert(maps);
		maps_put(maps);
	}
	free(text);
}
