/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of a JIT compiler's code: memory that is used again has the name that was written last. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/jit_names.h"

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
