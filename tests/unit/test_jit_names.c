/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of a JIT compiler's code: memory that is used again has the name that was written last. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/jit_names.h"
#include "util/clock.h"

struct map {
	char path[32];
	unsigned opened;
};

static int open_map(void *ctx, const struct stack_process *process)
{
	struct map *map = ctx;

	map->opened++;
	return open(map->path, O_RDONLY | O_CLOEXEC);
}

static void append(const struct map *map, const char *text)
{
	int fd = open(map->path, O_WRONLY | O_APPEND | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

Test(jit_names, memory_that_is_used_again)
{
	const struct stack_process process = {.pid = 4711, .start_ticks = 12};
	struct map map = {.path = "/tmp/test_jit_names.XXXXXX"};
	struct stack_files files = {.ctx = &map, .open_jit_names = open_map};
	struct jit_names *names = jit_names_new(&files);
	int fd = mkstemp(map.path);
	uint64_t start = 0;
	unsigned opened;

	cr_assert(names && fd >= 0);
	close(fd);
	append(&map, "1000 100 first\n2000 10 other\n");
	cr_expect_str_eq(jit_names_find(names, &process, 0x1010, &start), "first");
	cr_expect_eq(start, 0x1000);
	for (int i = 0; i < 100; i++)
		cr_expect_str_eq(jit_names_find(names, &process, 0x2001, &start), "other");
	cr_expect_eq(jit_names_find(names, &process, 0x3000, &start), NULL);
	cr_expect_leq(map.opened, 2, "not for each address: %u", map.opened);
	append(&map, "1000 80 second\n3000 10 third\n");
	usleep(1100000);
	cr_expect_str_eq(jit_names_find(names, &process, 0x1010, &start), "second");
	cr_expect_str_eq(jit_names_find(names, &process, 0x1090, &start), "first");
	cr_expect_str_eq(jit_names_find(names, &process, 0x3000, &start), "third");
	/* A file that is as it was is not read again, and names outlive it. */
	opened = map.opened;
	unlink(map.path);
	usleep(1100000);
	cr_expect_str_eq(jit_names_find(names, &process, 0x1010, &start), "second");
	cr_expect_eq(map.opened, opened + 1);
	jit_names_free(names);
}

/* How often the file was opened in 500 looks at an address that it does not have, less what one
 * look each 50 ms is, however slow the machine. */
static int opened_too_often(struct jit_names *names, const struct stack_process *process,
			    struct map *map)
{
	uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), start = 0;

	map->opened = 0;
	for (int i = 0; i < 500; i++) {
		cr_expect_eq(jit_names_find(names, process, 0x7000, &start), NULL);
		usleep(1000);
	}
	return (int)map->opened -
	       (int)((clock_now_ns(CLOCK_MONOTONIC) - begin_ns) / (50 * NSEC_PER_MSEC));
}

/* A compiler says its name before code runs: a sample of code that was compiled just now finds it,
 * and a name that is nowhere does not have the file read again and again. */
Test(jit_names, code_that_is_new)
{
	const struct stack_process process = {.pid = 4711, .start_ticks = 12};
	struct map map = {.path = "/tmp/test_jit_names.XXXXXX"};
	struct stack_files files = {.ctx = &map, .open_jit_names = open_map};
	struct jit_names *names = jit_names_new(&files);
	int fd = mkstemp(map.path);
	uint64_t start = 0;
	const char *name;

	cr_assert(names && fd >= 0);
	close(fd);
	append(&map, "1000 100 first\n");
	cr_expect_str_eq(jit_names_find(names, &process, 0x1010, &start), "first");
	append(&map, "3000 10 third\n");
	usleep(200000);
	name = jit_names_find(names, &process, 0x3000, &start);
	cr_expect(name && !strcmp(name, "third"), "%s", name ?: "none");
	cr_expect_leq(opened_too_often(names, &process, &map), 2);
	unlink(map.path);
	jit_names_find(names, &process, 0x7000, &start);
	cr_expect_leq(opened_too_often(names, &process, &map), 2, "without the file");
	jit_names_free(names);
}

/* A runtime writes by buffers, which end amid a line: half a name is none. */
Test(jit_names, half_a_line)
{
	const struct stack_process process = {.pid = 4711, .start_ticks = 12};
	struct map map = {.path = "/tmp/test_jit_names.XXXXXX"};
	struct stack_files files = {.ctx = &map, .open_jit_names = open_map};
	struct jit_names *names = jit_names_new(&files);
	int fd = mkstemp(map.path);
	uint64_t start = 0;
	const char *name;

	cr_assert(names && fd >= 0);
	close(fd);
	append(&map, "1000 100 first\n2000 10 onC");
	cr_expect_str_eq(jit_names_find(names, &process, 0x1010, &start), "first");
	name = jit_names_find(names, &process, 0x2000, &start);
	cr_expect_null(name, "%s", name);
	append(&map, "reate\n3000 10 o");
	usleep(200000);
	name = jit_names_find(names, &process, 0x2000, &start);
	cr_expect(name && !strcmp(name, "onCreate"), "%s", name ?: "none");
	cr_expect_null(jit_names_find(names, &process, 0x3000, &start));
	unlink(map.path);
	jit_names_free(names);
}
