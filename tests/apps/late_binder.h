/* SPDX-License-Identifier: BSD-2-Clause */
/* late_app's peer behind the binder driver: the context manager, which answers a call after as long
 * as it is asked to take. */
#pragma once
#include "late_rig.h"

#include "binder_client.h"

#define CODE_NAP 11

static int late_serve(struct client *client, uint32_t code, struct parcel *parcel)
{
	if (code == CODE_NAP)
		nap_ns(1000ll * parcel->number);
	return 0;
}

static __attribute__((noinline)) void call_server(struct client *client, int64_t ns)
{
	struct parcel parcel = {.number = (uint32_t)(ns / 1000)};

	must(client_call(client, 0, CODE_NAP, CALL_PLAIN, &parcel), "a call");
}

/* False: there is no such driver, or it has a context manager. */
static bool late_binder_start(struct client *client, const char *device)
{
	struct client server = {.serve = late_serve};
	int32_t unused = 0;
	int fds[2];

	if (access(device, R_OK))
		return false;
	pair(fds);
	if (!child("system_server")) {
		be_urgent(6);
		if (client_open(&server, device) ||
		    ioctl(server.fd, BINDER_SET_CONTEXT_MGR, &unused))
			_exit(1);
		send_number(fds[1], 0);
		client_loop(&server);
	}
	close(fds[1]);
	must(read(fds[0], &(int64_t){0}, sizeof(int64_t)) == sizeof(int64_t),
	     "context manager of the binder driver");
	client->serve = late_serve;
	return !client_open(client, device);
}
