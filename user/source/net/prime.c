/* SPDX-License-Identifier: BSD-2-Clause */
/* What was there before jankscope: all connected sockets and local addresses, from one dump. */
#include <errno.h>
#include <stdlib.h>
#include "source/net/flows_private.h"
#include "util/clock.h"

#define TURN_NS   (5 * NSEC_PER_MSEC)
#define PER_CLOCK 64

int net_prime_ask(struct net_flows *flows)
{
	struct net_diag_request_wire *request = calloc(1, sizeof(*request));
	int err;

	if (!request)
		return -ENOMEM;
	request->flags = NET_DIAG_WIRE_ALL | NET_DIAG_WIRE_TCP;
	if (flows->maps.by_cookie)
		request->flags |= NET_DIAG_WIRE_BY_COOKIE;
	err = net_asker_ask(flows->asker, request);
	if (!err)
		flows->asked = ASKED_PRIME;
	free(request);
	errno = -err;
	return err;
}

/* A dump that names namespaces by inode number does not say which of that number it is: what is
 * noted then would never match, and is left to the first packet. */
static void note_socket(struct net_flows *flows, const struct net_diag_socket *sock)
{
	struct flow_key key = {.ipv6 = sock->ipv6};

	if (!sock->remote_port || !sock->inode)
		return;
	key.flow.netns = sock->netns;
	memcpy(key.flow.local, sock->local, 16);
	memcpy(key.flow.remote, sock->remote, 16);
	key.flow.local_port = sock->local_port;
	key.flow.remote_port = sock->remote_port;
	key.flow.protocol = sock->protocol;
	net_flows_note(flows, &key, NET_OWNER(NET_OWNER_UID, sock->uid));
}

int net_prime_go_on(struct net_flows *flows)
{
	const struct net_diag *primed = &flows->primed;
	uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	size_t steps = 0;

	if (!primed->mapping)
		return 0;
	while (flows->maps.by_cookie && flows->primed_addresses < primed->address_count) {
		const struct net_diag_address *own = &primed->addresses[flows->primed_addresses++];

		if (own->prefix == (own->ipv6 ? 128 : 32))
			net_locality_note(flows, own->netns, own->ipv6, own->address, true);
		if (++steps % PER_CLOCK == 0 && clock_now_ns(CLOCK_MONOTONIC) - begin_ns > TURN_NS)
			return 0;
	}
	while (flows->maps.by_cookie && flows->primed_sockets < primed->socket_count) {
		note_socket(flows, &primed->sockets[flows->primed_sockets++]);
		if (++steps % PER_CLOCK == 0 && clock_now_ns(CLOCK_MONOTONIC) - begin_ns > TURN_NS)
			return 0;
	}
	for (size_t i = 0; i < primed->namespace_count; i++)
		if (primed->namespaces[i].error && primed->namespaces[i].error != -ENOENT)
			flows->blind = true;
	net_diag_free(&flows->primed);
	return 0;
}
