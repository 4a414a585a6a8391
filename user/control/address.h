/* SPDX-License-Identifier: BSD-2-Clause */
/* The address of a socket in a folder that is open: a path below /proc/self/fd, so that a folder
 * with a path longer than sun_path (108 bytes) has one, and a rename changes nothing. */
#pragma once
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "control/control.h"

static inline socklen_t control_address(struct sockaddr_un *address, int dir_fd)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" CONTROL_NAME,
		 dir_fd);
	return sizeof(*address);
}
