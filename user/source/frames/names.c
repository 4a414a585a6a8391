/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/names.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#define MAX_NAMED 4096

struct named {
	int32_t pid;
	uint64_t start_ticks;
	UT_hash_handle hh;
};

struct frames_names {
	struct named *named;
};

struct frames_names *frames_names_new(void)
{
	return calloc(1, sizeof(struct frames_names));
}

void frames_names_free(struct frames_names *names)
{
	struct named *named, *next;

	if (!names)
		return;
	HASH_ITER (hh, names->named, named, next) {
		HASH_DEL(names->named, named);
		free(named);
	}
	free(names);
}

/* Start of a process in clock ticks since boot, 0: there is none of that pid. Reading `stat` takes
 * no lock of the process. */
static uint64_t start_ticks_of(int32_t pid)
{
	char path[40], text[1024], *end;
	unsigned long long start = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	end = strrchr(text, ')');
	/* field 22; the name is field 2 */
	if (!end || sscanf(end + 1,
			   " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			   "%*s %*s %llu",
			   &start) != 1)
		return 0;
	return start;
}

/* Whether the name of that pid is to be read, for the first time or because another process has
 * the pid now. */
static bool is_unnamed(struct frames_names *names, struct name_table *table, int32_t pid)
{
	uint64_t start = start_ticks_of(pid);
	struct named *named;

	if (!start)
		return false;
	HASH_FIND_INT(names->named, &pid, named);
	if (named && named->start_ticks == start)
		return false;
	if (!named) {
		/* the trace named it itself */
		if (name_table_process_name(table, pid) || HASH_COUNT(names->named) >= MAX_NAMED)
			return false;
		named = calloc(1, sizeof(*named));
		if (!named)
			return false;
		named->pid = pid;
		HASH_ADD_INT(names->named, pid, named);
	}
	named->start_ticks = start;
	return true;
}

void frames_names_look(struct frames_names *names, struct name_table *table, int32_t pid)
{
	char path[40], name[256];
	ssize_t n;
	int fd;

	if (pid <= 0 || !is_unnamed(names, table, pid))
		return;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, name, sizeof(name));
	close(fd);
	if (n > 0)
		name_table_process(table, pid, -1, name, strnlen(name, (size_t)n));
}
