/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/spare_fd.h"

#include <sys/resource.h>
#include <unistd.h>

/* What the sources and the helpers of a run hold at the most, without anything for a target. */
#define NEEDED 64

int spare_fd(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    (rlim_t)fd + NEEDED < limit.rlim_cur)
		return fd;
	close(fd);
	return -1;
}
