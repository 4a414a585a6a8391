/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/warden.h"

#include <unistd.h>

#include "util/channel.h"

void unwinder_main(int socket)
{
	char byte = 0;

	helper_begin(HELPER_UNWINDER, &socket);
	do
		channel_wait(socket, UINT64_MAX / 2);
	while (channel_receive(socket, &byte, 1, NULL, NULL));
	_exit(0);
}
