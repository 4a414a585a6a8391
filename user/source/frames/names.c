/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/names.h"
#include "proc/read.h"
#include "proc/stat.h"
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
	int dir = proc_open("", pid);
	struct proc_stat stat;
	int err = dir < 0 ? dir : proc_stat(dir, &stat);

	if (dir >= 0)
		close(dir);
	return err ? 0 : stat.start_ticks;
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
	char name[256];

	if (pid <= 0 || !is_unnamed(names, table, pid))
		return;
	if (proc_read_of("", pid, "cmdline", name, sizeof(name)) > 0)
		name_table_process(table, pid, -1, name, strlen(name));
}
