/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/namespaces.h"
#include "proc/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include <stdio.h>
#include <sys/stat.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define PID_INIT_INO 0xeffffffcu /* PROC_PID_INIT_INO of include/linux/proc_ns.h, since 3.8 */

/* Linux 5.6; without time namespaces there is no such file. */
static bool clocks_are_shifted(void)
{
	long long seconds, nanoseconds;
	bool shifted = false;
	char text[256];
	int used = 0;

	proc_read(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof(text));
	for (const char *p = text; sscanf(p, "%*s %lld %lld%n", &seconds, &nanoseconds, &used) == 2;
	     p += used)
		shifted |= seconds || nanoseconds;
	return shifted;
}

int namespaces_check(char *reason, size_t size)
{
	struct stat status;

	if (!stat("/proc/self/ns/pid", &status) && status.st_ino != PID_INIT_INO) {
		snprintf(reason, size,
			 "in a pid namespace the kernel's task ids are not ours; run it outside "
			 "(docker: --pid=host)");
		return -ENOTSUP;
	}
	if (clocks_are_shifted()) {
		snprintf(reason, size,
			 "in a time namespace with offsets the kernel's clocks are not ours; run "
			 "it outside");
		return -ENOTSUP;
	}
	return 0;
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

int namespaces_leave_time(void)
{
	int fd, err = 0;

	if (!clocks_are_shifted())
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
	return err ? err : clocks_are_shifted() ? -EXDEV : 0;
}
