/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Flows: whose a received packet is. TCP is learnt from its state changes and from dumps; UDP is
 * looked up in the kernel's table of ports when its first packet comes, and again as soon as that
 * changes; an ICMP echo is learnt from what is sent. What stays unknown waits for the reader. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"
#include "net_socket.bpf.h"
#include "net_waiting.bpf.h"

#define NET_NO_COUNT ~0u /* of no bucket */

static __always_inline void touch(struct net_flow_owner *flow)
{
	if (flow->epoch != epoch)
		flow->epoch = epoch;
}

/* Note whose a flow is and, where it claims that, who owns what already waits for it. */
static __always_inline void learn(void *flows, struct waiting_place at, __u64 owner,
				  const struct sock *holder, bool claims)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, at.key);

	if (flow) {
		if (flow->owner != owner)
			flow->owner = owner;
		if (flow->sock != (__u64)holder)
			flow->sock = (__u64)holder;
		touch(flow);
		return;
	}
	struct net_flow_owner fresh = {.owner = owner, .sock = (__u64)holder, .epoch = epoch};

	if (bpf_map_update_elem(flows, at.key, &fresh, BPF_ANY))
		loss_add(&net_losses, NET_LOSS_FLOW_MAP_FULL, 1);
	if (claims)
		claim(at, owner);
}

/* The socket is gone: what comes now belongs to nobody, in netd's eyes too. A socket
 * whose connect() fails because another one has the ports ends in CLOSE as well: the flow stays
 * with that other socket. */
static __always_inline void forget(void *flows, struct waiting_place at, __u64 owner,
				   const struct sock *holder, bool time_wait)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, at.key);

	if (flow && flow->sock && flow->sock != (__u64)holder)
		return;
	if (flow)
		bpf_map_delete_elem(flows, at.key);
	end_connection(at, owner, time_wait);
}

/* A flow of TCP ends at CLOSE, so its socket is alive; the first packet after each read-out asks
 * all the same, because the kernel skips a program that interrupts itself. */
static __always_inline bool tcp_is_same(const struct net_flow_owner *flow,
					const struct net_packet *packet)
{
	const struct sock *sk = (const struct sock *)flow->sock;

	if (!sk || flow->epoch == epoch)
		return true;
	return BPF_CORE_READ(sk, __sk_common.skc_net.net) == (struct net *)packet->net &&
	       (BPF_CORE_READ_BITFIELD_PROBED(sk, sk_protocol) == IPPROTO_MPTCP ||
		BPF_CORE_READ(sk, __sk_common.skc_num) == bpf_ntohs(packet->dest_port));
}

/* Whether a packet to this address is for this host at all: 0 if only the reader can tell. */
static __always_inline __u32 locality(const struct net_packet *packet, const __u32 *address)
{
	struct net_address key = {.netns = packet->netns, .ipv6 = packet->ipv6};
	__u8 first = *(const __u8 *)address;
	__u32 *known;

	/* Link-local unicast is sent on by nobody (RFC 4291, 2.5.6). */
	if (packet->ipv6 ? first == 0xff || (bpf_ntohl(address[0]) & 0xffc00000) == 0xfe800000
			 : (first & 0xf0) == 0xe0 || first == 127 || address[0] == 0xffffffff)
		return NET_LOCAL;
	__builtin_memcpy(key.address, address, 16);
	known = bpf_map_lookup_elem(&localities, &key);
	return known ? *known : 0;
}

/* What has no table of sockets (IGMP, MLD, neighbours, an echo that comes in) is the kernel's, or
 * is sent on. Where the address tells which of the two, nobody need be asked. */
static __always_inline bool receive_kernel(const struct net_packet *packet, __u64 bytes,
					   __u64 packets)
{
	__u32 local;

	if (packet->protocol == IPPROTO_TCP || packet->protocol == IPPROTO_UDP ||
	    packet->protocol == IPPROTO_UDPLITE)
		return false;
	local = locality(packet, packet->dest);
	if (!local)
		return false;
	count_class(local == NET_LOCAL ? NET_CLASS_KERNEL : NET_CLASS_FORWARDED, false, bytes,
		    packets);
	return true;
}

static __always_inline void receive_flow(void *flows, struct waiting_place at,
					 const struct net_packet *packet, __u64 bytes,
					 __u64 packets)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, at.key);
	__u64 owner;

	if (!flow) {
		if (!receive_kernel(packet, bytes, packets))
			let_wait(at, packet, 0, bytes, packets);
		return;
	}
	owner = flow->owner;
	if (packet->protocol == IPPROTO_TCP && flow->sock) {
		if (!tcp_is_same(flow, packet)) {
			bpf_map_delete_elem(flows, at.key);
			let_wait(at, packet, 0, bytes, packets);
			return;
		}
		owner = owner_of((const struct sock *)flow->sock);
	}
	touch(flow);
	count_owner(owner, &packet->interface, false, bytes, packets);
}

static __always_inline bool bucket_is_same(const struct net_flow_owner *flow)
{
	struct udp_bucket now;

	return flow->bucket && read_bucket(&now, flow->bucket) && now.first == flow->first &&
	       now.count == flow->bucket_count;
}

static __always_inline struct net_recent *recent_of(const struct net_packet *packet)
{
	__u32 at = packet->source[0] ^ packet->source[3] ^ packet->source_port ^
		   ((__u32)packet->dest_port << 16);

	at = (at * 0x9e3779b1u >> 16) & (NET_RECENT - 1);
	return bpf_map_lookup_elem(&recents, &at);
}

static __always_inline bool is_recent(const struct net_recent *recent,
				      const struct net_packet *packet)
{
	return recent->epoch == epoch && recent->net == packet->net &&
	       recent->source_port == packet->source_port &&
	       recent->dest_port == packet->dest_port && recent->ipv6 == packet->ipv6 &&
	       recent->source[0] == packet->source[0] && recent->dest[0] == packet->dest[0] &&
	       (!packet->ipv6 ||
		(recent->source[1] == packet->source[1] && recent->source[2] == packet->source[2] &&
		 recent->source[3] == packet->source[3] && recent->dest[1] == packet->dest[1] &&
		 recent->dest[2] == packet->dest[2] && recent->dest[3] == packet->dest[3]));
}

/* False: it is none of this CPU's recent flows, or must be looked up anew. */
static __always_inline bool receive_recent(const struct net_packet *packet, __u64 bytes,
					   __u64 packets)
{
	const struct net_recent *recent = recent_of(packet);
	struct udp_found *found;
	__u32 zero = 0;

	if (!recent || !is_recent(recent, packet))
		return false;
	found = bpf_map_lookup_elem(&lookups, &zero);
	if (!found)
		return false; /* cannot be: an array has its element */
	found->sock = recent->sock;
	found->bucket = recent->bucket;
	found->state.first = recent->first;
	found->state.count = recent->bucket_count;
	if (!udp_takes() || (found->score < NET_UDP_BOUND && !recent->wildcard))
		return false;
	count_owner(found->owner, &packet->interface, false, bytes, packets);
	return true;
}

/* A flow that was learnt from what is sent is not among them: it changes with the next sender. */
static __always_inline void remember(const struct net_packet *packet,
				     const struct net_flow_owner *flow, bool wildcard)
{
	struct net_recent *recent = recent_of(packet);

	if (!recent)
		return;
	recent->net = packet->net;
	__builtin_memcpy(recent->source, packet->source, 16);
	__builtin_memcpy(recent->dest, packet->dest, 16);
	recent->source_port = packet->source_port;
	recent->dest_port = packet->dest_port;
	recent->ipv6 = packet->ipv6;
	recent->sock = flow->sock;
	recent->bucket = flow->bucket;
	recent->first = flow->first;
	recent->bucket_count = flow->bucket_count;
	recent->wildcard = wildcard;
	recent->epoch = flow->epoch;
}

/* What a lookup tells about the owner: 0 that it tells nothing. */
static __always_inline __u64 udp_owner(struct udp_found *found, const struct net_packet *packet)
{
	__u32 local;

	udp_find();
	if (!found->sock)
		return found->sure ? NET_OWNER(NET_OWNER_NO_SOCKET, 0) : 0;
	if (!found->wildcard)
		return found->owner;
	local = locality(packet, packet->dest);
	if (local == NET_LOCAL)
		return found->owner;
	if (local == NET_FOREIGN)
		return NET_OWNER(NET_OWNER_NO_SOCKET, 0);
	return found->owner >> 32 == NET_OWNER_KERNEL ? NET_OWNER(NET_OWNER_KERNEL_IF_LOCAL, 0)
						      : NET_OWNER(NET_OWNER_IF_LOCAL, found->owner);
}

/* What was learnt from a sent packet counts where the table of ports tells too little: several
 * sockets share the port (SO_REUSEPORT) and one of them has answered this remote end since the
 * table changed; no socket has the port, because the host masquerades; or the table is not known.
 */
static __always_inline bool is_learnt(struct net_flow_owner *flow, const struct udp_found *found,
				      __u64 owner)
{
	if (!flow->owner)
		return false;
	if (!owner)
		return true;
	if (!found->sock)
		return flow->owner >> 32 == NET_OWNER_FORWARDED;
	if (!found->shared)
		return false;
	if (!flow->bucket) {
		flow->bucket = found->bucket;
		flow->first = found->state.first;
		flow->bucket_count = found->state.count;
		flow->sock = 0;
		return true;
	}
	return flow->first == found->state.first && flow->bucket_count == found->state.count;
}

/* Whether this packet is for the socket that the flow's last one was for; found->owner has it. */
static __always_inline bool is_same_taker(const struct net_flow_owner *flow,
					  struct udp_found *found, const struct net_packet *packet)
{
	if (!flow->bucket || flow->epoch != epoch)
		return false;
	if (!flow->sock) {
		found->owner = flow->owner;
		return bucket_is_same(flow);
	}
	found->sock = flow->sock;
	found->bucket = flow->bucket;
	found->state.first = flow->first;
	found->state.count = flow->bucket_count;
	if (!udp_takes() ||
	    (found->score < NET_UDP_BOUND && locality(packet, packet->dest) != NET_LOCAL))
		return false;
	remember(packet, flow, found->score < NET_UDP_BOUND);
	return true;
}

static __always_inline void receive_udp(void *flows, struct waiting_place at,
					const struct net_packet *packet, __u64 bytes, __u64 packets)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, at.key);
	struct udp_found *found;
	__u64 owner, sock;
	__u32 zero = 0, count;

	found = bpf_map_lookup_elem(&lookups, &zero);
	if (!found)
		return; /* cannot be: an array has its element */
	if (flow && is_same_taker(flow, found, packet)) {
		count_owner(found->owner, &packet->interface, false, bytes, packets);
		return;
	}
	owner = udp_owner(found, packet);
	if (flow && is_learnt(flow, found, owner)) {
		touch(flow);
		count_owner(flow->owner, &packet->interface, false, bytes, packets);
		return;
	}
	/* Who answers will tell. */
	if (found->shared)
		owner = 0;
	if (owner >> 32 != NET_OWNER_UID && owner >> 32 != NET_OWNER_KERNEL) {
		if (flow)
			bpf_map_delete_elem(flows, at.key);
		let_wait(at, packet, owner, bytes, packets);
		return;
	}
	count_owner(owner, &packet->interface, false, bytes, packets);
	sock = owner >> 32 == NET_OWNER_UID ? found->sock : 0;
	/* Another socket of the port may connect, which changes no bucket: then each packet is
	 * looked up. */
	count = found->on_port == 1 ? found->state.count : NET_NO_COUNT;
	if (flow) {
		flow->owner = owner;
		flow->sock = sock;
		flow->bucket = found->bucket;
		flow->first = found->state.first;
		flow->bucket_count = count;
		flow->epoch = epoch;
	} else {
		struct net_flow_owner fresh = {.owner = owner,
					       .sock = sock,
					       .bucket = found->bucket,
					       .first = found->state.first,
					       .bucket_count = count,
					       .epoch = epoch};

		/* Without room the next packet is looked up as well: dearer, and as right. */
		bpf_map_update_elem(flows, at.key, &fresh, BPF_ANY);
	}
}

static __always_inline void fill_key4(struct net_flow4 *key, const struct net_packet *packet,
				      bool transmit)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->netns = packet->netns;
	key->local = transmit ? packet->source[0] : packet->dest[0];
	key->remote = transmit ? packet->dest[0] : packet->source[0];
	key->local_port = transmit ? packet->source_port : packet->dest_port;
	key->remote_port = transmit ? packet->dest_port : packet->source_port;
	key->protocol = packet->protocol;
}

static __always_inline void fill_key6(struct net_flow6 *key, const struct net_packet *packet,
				      bool transmit)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->netns = packet->netns;
	__builtin_memcpy(key->local, transmit ? packet->source : packet->dest, 16);
	__builtin_memcpy(key->remote, transmit ? packet->dest : packet->source, 16);
	key->local_port = transmit ? packet->source_port : packet->dest_port;
	key->remote_port = transmit ? packet->dest_port : packet->source_port;
	key->protocol = packet->protocol;
}
