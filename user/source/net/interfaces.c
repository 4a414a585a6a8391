/* SPDX-License-Identifier: BSD-2-Clause */
/* How interfaces are called, as the kernel side saw it with their packets: the reader is in one
 * network namespace and could ask for the names of that one only. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "kernel/map_read.h"
#include "source/net/private.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

void net_interfaces_begin(struct net_source *net)
{
	struct stat status;
	socklen_t length = sizeof(net->own_netns);
	int fd;

	net->own_netns = 0;
	if (!net->skel->rodata->netns_by_cookie) {
		if (!stat("/proc/self/ns/net", &status))
			net->own_netns = (uint32_t)status.st_ino;
		return;
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &net->own_netns, &length))
		net->own_netns = 0;
	close(fd);
}

/* Without a cookie the upper half is no more than a hash. */
static uint64_t namespace_of(const struct net_source *net, uint64_t netns)
{
	uint64_t number = net->skel->rodata->netns_by_cookie ? netns : (uint32_t)netns;

	return number == net->own_netns ? 0 : number;
}

static int read_one(void *ctx, const void *key, const void *value)
{
	const struct net_interface_key *place = key;
	const struct net_interface *seen = value;
	struct net_source *net = ctx;
	struct interface_name *known;

	HASH_FIND(hh, net->interfaces, &seen->id, sizeof(seen->id), known);
	if (!known) {
		known = calloc(1, sizeof(*known));
		if (!known)
			return -ENOMEM;
		known->id = seen->id;
		known->ifindex = place->ifindex;
		known->netns = namespace_of(net, place->netns);
		HASH_ADD(hh, net->interfaces, id, sizeof(known->id), known);
	}
	memcpy(known->name, seen->name, sizeof(known->name) - 1);
	return 0;
}

int net_interfaces_read(struct net_source *net)
{
	return map_read(bpf_map__fd(net->skel->maps.interfaces), sizeof(struct net_interface_key),
			sizeof(struct net_interface),
			bpf_map__max_entries(net->skel->maps.interfaces), read_one, net);
}

const struct interface_name *net_interface_find(const struct net_source *net, uint32_t id)
{
	const struct interface_name *known = NULL;

	if (id)
		HASH_FIND(hh, net->interfaces, &id, sizeof(id), known);
	return known;
}

void net_interfaces_free(struct net_source *net)
{
	struct interface_name *known, *next;

	HASH_ITER (hh, net->interfaces, known, next) {
		HASH_DEL(net->interfaces, known);
		free(known);
	}
}
