/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/niceness.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void niceness_set(int niceness)
{
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);

	setpriority(PRIO_PROCESS, 0, niceness);
	if (fd < 0)
		return;
	dprintf(fd, "%d", niceness);
	close(fd);
}
