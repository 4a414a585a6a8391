/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A datagram that was cut: whose its later fragments are, and how long it is as a whole. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"

/* Later fragments have no ports; the first one leaves them here. */
static __always_inline void match_fragment(struct net_packet *packet)
{
	struct net_fragment key = {.netns = packet->netns};
	__u32 ports, *known;

	__builtin_memcpy(key.local, packet->dest, 16);
	__builtin_memcpy(key.remote, packet->source, 16);
	key.id = packet->fragment_id;
	key.protocol = packet->protocol;
	if (!packet->fragment_from) {
		if (!packet->has_ports)
			return;
		ports = (__u32)packet->source_port << 16 | packet->dest_port;
		bpf_map_update_elem(&fragments, &key, &ports, BPF_ANY);
		return;
	}
	known = bpf_map_lookup_elem(&fragments, &key);
	if (known) {
		packet->source_port = *known >> 16;
		packet->dest_port = (__u16)*known;
		packet->has_ports = true;
	}
}

/* netd sees a datagram whole, before it is cut and after it is put together: only the last
 * fragment knows how long that is. False: this fragment adds nothing. */
static __always_inline bool whole_datagram(struct net_packet *packet)
{
	if (!packet->fragment)
		return true;
	if (packet->more_fragments)
		return false;
	packet->length += packet->fragment_from - (packet->ipv6 ? 8 : 0);
	return true;
}
