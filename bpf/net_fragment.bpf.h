/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A datagram that was cut: whose its later fragments are, whether all have come, and how long it is
 * as a whole. netd sees it before it is cut and after it is put together. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"
#include "net_socket.bpf.h"

/* What the kernel waits for the rest (IP_FRAG_TIME, IPV6_FRAG_TIMEOUT). */
#define NET_PIECES_NS  30000000000ull
#define NET_PIECES6_NS 60000000000ull

/* False: this piece has come before. */
static __always_inline bool add_piece(struct net_pieces *pieces, const struct net_packet *packet)
{
	__u16 from = packet->fragment_from / 8;
	__u32 bytes = packet->length - packet->fragment_headers, i, count = pieces->count;

	for (i = 0; i < NET_PIECES && i < count; i++)
		if (pieces->from[i] == from)
			return false;
	if (count < NET_PIECES) {
		pieces->from[count] = from;
		pieces->count = count + 1;
	}
	pieces->got += bytes;
	if (!packet->more_fragments)
		pieces->total = packet->fragment_from + bytes;
	if (from)
		return true;
	pieces->has_first = true;
	pieces->has_ports = packet->has_ports;
	pieces->ports = (__u32)packet->source_port << 16 | packet->dest_port;
	pieces->protocol = packet->protocol;
	pieces->headers = packet->fragment_headers;
	return true;
}

/* The received packet is a piece: it gets the ports of the first one, where that has come. 1: now
 * all have come, and the packet stands for the whole datagram. A function like udp_find(). */
__noinline int join_pieces(void)
{
	__u32 way = NET_RECEIVED;
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	struct net_fragment key = {0};
	struct net_packet *packet;
	struct net_pieces *pieces;
	__u64 now_ns = bpf_ktime_get_ns();
	bool is_new;

	if (!work)
		return 0; /* cannot be: an array has its elements */
	packet = &work->packet;
	key.netns = packet->netns;
	__builtin_memcpy(key.local, packet->dest, 16);
	__builtin_memcpy(key.remote, packet->source, 16);
	key.id = packet->fragment_id;
	if (!packet->ipv6)
		key.protocol = packet->protocol; /* of IPv6 the first piece alone has it for sure */
	pieces = bpf_map_lookup_elem(&fragments, &key);
	if (!pieces ||
	    now_ns - pieces->begun_ns > (packet->ipv6 ? NET_PIECES6_NS : NET_PIECES_NS)) {
		struct net_pieces fresh = {.begun_ns = now_ns};

		bpf_map_update_elem(&fragments, &key, &fresh, BPF_ANY);
		pieces = bpf_map_lookup_elem(&fragments, &key);
		if (!pieces)
			return 0;
	}
	is_new = packet->length >= packet->fragment_headers && add_piece(pieces, packet);
	if (!pieces->has_first)
		return 0;
	packet->source_port = pieces->ports >> 16;
	packet->dest_port = (__u16)pieces->ports;
	packet->has_ports = pieces->has_ports;
	packet->protocol = pieces->protocol;
	if (!is_new || !pieces->total || pieces->got != pieces->total)
		return 0;
	if (!wire_length)
		packet->length = pieces->headers - (packet->ipv6 ? 8 : 0) + pieces->total;
	bpf_map_delete_elem(&fragments, &key);
	return 1;
}

/* The same of a packet that is sent: they leave in order, so that the last one tells the length.
 * False: this fragment adds nothing. */
static __always_inline bool whole_datagram(struct net_packet *packet)
{
	if (!packet->fragment)
		return true;
	if (packet->more_fragments)
		return false;
	packet->length += packet->fragment_from - (packet->ipv6 ? 8 : 0);
	return true;
}
