/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/time_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* The offsets are those from the machine's clocks, in which namespace ever one looks. */
static bool has_offsets(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long long seconds, ns;
	bool any = false;

	/* A kernel without time namespaces. */
	if (!file)
		return false;
	while (fscanf(file, "%*s %lld %lld", &seconds, &ns) == 2)
		any |= seconds || ns;
	fclose(file);
	return any;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int time_namespace_leave(void)
{
	int fd, err = 0;

	if (!has_offsets())
		return 0;
	/* That of the first process may be out of reach, or have offsets, too: one without any is
	 * made. Until its offsets are taken away it has ours. */
	if (unshare(CLONE_NEWTIME) ||
	    write_text("/proc/self/timens_offsets", "monotonic 0 0\nboottime 0 0\n"))
		return 1;
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (setns(fd, CLONE_NEWTIME))
		err = -errno;
	close(fd);
	return err ? err : has_offsets() ? -EXDEV : 0;
}
