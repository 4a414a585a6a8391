/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups in what was dumped (net_diag.h). */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include "source/net/diag.h"

static bool is_zero(const uint32_t address[4])
{
	return !(address[0] | address[1] | address[2] | address[3]);
}

static int compare_group(const struct net_diag_socket *a, const struct net_diag_socket *b)
{
	if (a->netns != b->netns)
		return a->netns < b->netns ? -1 : 1;
	if (a->protocol != b->protocol)
		return a->protocol < b->protocol ? -1 : 1;
	if (a->local_port != b->local_port)
		return a->local_port < b->local_port ? -1 : 1;
	return 0;
}

static int compare_sockets(const void *a, const void *b)
{
	return compare_group(a, b);
}

void net_diag_index(struct net_diag *diag)
{
	if (diag->socket_count)
		qsort(diag->sockets, diag->socket_count, sizeof(*diag->sockets), compare_sockets);
}

int net_diag_namespace_error(const struct net_diag *diag, uint64_t netns)
{
	size_t i;

	for (i = 0; i < diag->namespace_count; i++)
		if (diag->namespaces[i].netns == netns)
			return diag->namespaces[i].error;
	return -ENOENT;
}

bool net_diag_has_namespace(const struct net_diag *diag, uint64_t netns)
{
	return !net_diag_namespace_error(diag, netns);
}

static bool has_prefix(const struct net_diag_address *own, const uint32_t address[4])
{
	const uint8_t *left = (const void *)own->address, *right = (const void *)address;
	unsigned bits = own->prefix, most = own->ipv6 ? 128 : 32;

	if (bits > most)
		return false;
	if (memcmp(left, right, bits / 8))
		return false;
	return bits % 8 == 0 || !((left[bits / 8] ^ right[bits / 8]) >> (8 - bits % 8));
}

bool net_diag_is_local(const struct net_diag *diag, uint64_t netns, bool ipv6,
		       const uint32_t address[4])
{
	uint8_t first = *(const uint8_t *)address;
	size_t i;

	if (ipv6 && first == 0xff)
		return true;
	if (!ipv6 && ((first & 0xf0) == 0xe0 || first == 127 || address[0] == INADDR_BROADCAST))
		return true;
	for (i = 0; i < diag->address_count; i++) {
		const struct net_diag_address *own = &diag->addresses[i];

		if (own->netns == netns && !own->ipv6 == !ipv6 && has_prefix(own, address))
			return true;
	}
	return false;
}

/* How well the socket fits, in the order of compute_score in net/ipv4/udp.c; -1: not at all. */
static int score(const struct net_diag_socket *sock, const struct net_diag_query *query)
{
	bool wildcard = is_zero(sock->local);
	int points = sock->ipv6 == query->ipv6;

	if (sock->ipv6 != query->ipv6 && !(sock->ipv6 && wildcard && !sock->v6only))
		return -1;
	if (!wildcard) {
		if (memcmp(sock->local, query->local, 16))
			return -1;
		points += 2;
	}
	if (sock->remote_port) {
		if (sock->remote_port != query->remote_port ||
		    memcmp(sock->remote, query->remote, 16))
			return -1;
		points += 4;
	} else if (query->protocol == IPPROTO_TCP && sock->state != TCP_LISTEN) {
		return -1;
	}
	return points;
}

/* The first socket of the query's namespace, protocol and local port. */
static size_t group_start(const struct net_diag *diag, const struct net_diag_socket *group)
{
	size_t low = 0, high = diag->socket_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_group(&diag->sockets[middle], group) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct net_diag_socket group_of(const struct net_diag_query *query)
{
	return (struct net_diag_socket){.netns = query->netns,
					.protocol = query->protocol,
					.local_port = query->local_port};
}

const struct net_diag_socket *net_diag_find(const struct net_diag *diag,
					    const struct net_diag_query *query)
{
	struct net_diag_socket group = group_of(query);
	const struct net_diag_socket *best = NULL;
	int best_points = -1;
	size_t i = group_start(diag, &group);

	for (; i < diag->socket_count && !compare_group(&diag->sockets[i], &group); i++) {
		const struct net_diag_socket *sock = &diag->sockets[i];
		int points = score(sock, query);

		/* A connection that waits to be accepted has no file: its listener answers. */
		if (!sock->inode && query->protocol == IPPROTO_TCP &&
		    (sock->state == TCP_ESTABLISHED || sock->state == TCP_SYN_RECV ||
		     sock->state == TCP_CLOSE_WAIT))
			continue;
		if (points > best_points) {
			best = sock;
			best_points = points;
		}
	}
	return best && best->inode ? best : NULL;
}
