/* SPDX-License-Identifier: BSD-2-Clause */
/* A flow of either family as the reader holds it; IPv4 addresses are in word 0. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include "abi/net.h"
#include "source/net/diag.h"

struct flow_key {
	struct net_flow6 flow;
	uint32_t ipv6;
	uint32_t reserved;
};

static inline void key_from4(struct flow_key *key, const struct net_flow4 *flow)
{
	memset(key, 0, sizeof(*key));
	key->flow.netns = flow->netns;
	key->flow.local[0] = flow->local;
	key->flow.remote[0] = flow->remote;
	key->flow.local_port = flow->local_port;
	key->flow.remote_port = flow->remote_port;
	key->flow.protocol = flow->protocol;
	key->flow.turn = flow->turn;
}

static inline void key_from6(struct flow_key *key, const struct net_flow6 *flow)
{
	memset(key, 0, sizeof(*key));
	key->flow = *flow;
	key->ipv6 = 1;
}

/* The key as the kernel's map of that family has it. */
static inline const void *kernel_key(const struct flow_key *key, struct net_flow4 *flow4)
{
	if (key->ipv6)
		return &key->flow;
	memset(flow4, 0, sizeof(*flow4));
	flow4->netns = key->flow.netns;
	flow4->local = key->flow.local[0];
	flow4->remote = key->flow.remote[0];
	flow4->local_port = key->flow.local_port;
	flow4->remote_port = key->flow.remote_port;
	flow4->protocol = key->flow.protocol;
	flow4->turn = key->flow.turn;
	return flow4;
}

/* What a dump calls the namespace: the cookie, or the inode number (see include/abi/net.h). */
static inline uint64_t dump_netns(uint64_t netns, bool by_cookie)
{
	return by_cookie ? netns : (uint32_t)netns;
}

static inline bool has_socket_table(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
}
