/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sockets: what is read of one, and which UDP socket a packet is for. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_packet.bpf.h"
#include "socket_owner.bpf.h"

const volatile bool netns_by_cookie; /* false: the kernel cannot tell user space the cookie */

/* struct net.ipv4.udp_table is of ba6aac151559 (6.1); before, all namespaces share one table, whose
 * address each UDP socket's protocol has: the first one that sends leaves it here. */
__u64 shared_udp_table;

#define SOCK_AT(field) bpf_core_field_offset(struct sock, field)
#define NET_UDP_CHAIN  32 /* sockets of one bucket that are looked at */
#define NET_ABOVE      16 /* devices on one device that are looked at */
#define NET_UDP_BOUND  32 /* points: more than all others together */

/* A name that is never given twice (see include/abi/net.h). */
static __always_inline __u64 netns_name(struct net *net, bool direct)
{
	if (netns_by_cookie && bpf_core_field_exists(net->net_cookie))
		return NET_FIELD(direct, net, net_cookie);
	return (__u64)NET_FIELD(direct, net, hash_mix) << 32 | NET_FIELD(direct, net, ns.inum);
}

/* Where the last of the fields ends that say whose a socket is. */
static __always_inline __u32 sock_span(void)
{
	__u32 end = SOCK_AT(sk_uid) + 4;

	if (SOCK_AT(sk_kern_sock) + 4 > end)
		end = SOCK_AT(sk_kern_sock) + 4;
	if (SOCK_AT(sk_protocol) + 2 > end)
		end = SOCK_AT(sk_protocol) + 2;
	if (SOCK_AT(sk_type) + 2 > end)
		end = SOCK_AT(sk_type) + 2;
	return (end + 7) & ~7u; /* whole words are copied faster */
}

/* ---- which UDP socket a packet is for ---- */
struct udp_bucket {
	__u64 first;
	__u32 count;
	__u32 reserved;
};

/* One lookup and its result. It lies in a map, not on the stack: what comes from a map is unknown
 * to the verifier, so that it need not try each way through the loop with each value. */
struct udp_found {
	__u64 sock; /* 0: none */
	__u64 bucket;
	struct udp_bucket state;
	__u64 owner;
	__u64 node; /* where the walk stands */
	__s32 best, score;
	__u8 wildcard; /* it is bound to no address */
	__u8 sure;     /* the whole bucket was looked at */
	__u8 shared;   /* SO_REUSEPORT: the kernel chooses by a secret hash, among several uids */
	__u8 on_port;  /* sockets of this namespace that have the port */
	__u8 reserved[4];
	char common[NET_SOCK_SPAN]; /* the socket that is looked at: struct sock_common, or more */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct udp_found);
} lookups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* by enum net_way */
	__type(key, __u32);
	__type(value, struct net_work);
} works SEC(".maps");

/* UDP flows of this CPU whose socket was found since the last read-out: what comes for one of them
 * needs no other search. */
#define NET_RECENT 32 /* a power of two */
struct net_recent {
	__u64 net;
	__u32 source[4], dest[4];
	__be16 source_port, dest_port;
	__u32 epoch; /* as in struct net_flow_owner, with all that follows */
	__u64 sock, bucket, first;
	__u32 bucket_count;
	__u32 ipv6;
	__u64 wildcard; /* as in struct udp_found */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NET_RECENT);
	__type(key, __u32);
	__type(value, struct net_recent);
} recents SEC(".maps");

static __always_inline bool read_bucket(struct udp_bucket *to, __u64 bucket)
{
	const struct udp_hslot *slot = (const void *)bucket;

	to->reserved = 0;
	/* One read where the two lie side by side, as in every kernel so far. */
	if (bpf_core_field_offset(struct udp_hslot, count) == 8)
		return !bpf_probe_read_kernel(to, 12, slot);
	to->first = (__u64)BPF_CORE_READ(slot, head.first);
	to->count = (__u32)BPF_CORE_READ(slot, count);
	return true;
}

static __always_inline bool is_any6(const __u32 address[4])
{
	return !(address[0] | address[1] | address[2] | address[3]);
}

static __always_inline bool same6(const __u32 a[4], const __u32 b[4])
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* As compute_score and the order of lookups in net/ipv4/udp.c and net/ipv6/udp.c: a socket bound to
 * the address before one that is not, then the one with more that fits. False: not for it. The
 * points are added up in the map for the verifier's sake, too. */
#define POINTS(found, more) (*(volatile __s32 *)&(found)->score += (more))

static __always_inline bool udp_fits4(struct udp_found *found, const struct sock_common *common,
				      const struct net_packet *packet)
{
	if (common->skc_family == NET_AF_INET)
		POINTS(found, 1);
	else if (BPF_CORE_READ_BITFIELD(common, skc_ipv6only))
		return false;
	if (common->skc_rcv_saddr) {
		if (common->skc_rcv_saddr != packet->dest[0])
			return false;
		POINTS(found, NET_UDP_BOUND);
	}
	if (common->skc_daddr) {
		if (common->skc_daddr != packet->source[0])
			return false;
		POINTS(found, 4);
	}
	return true;
}

static __always_inline bool udp_fits6(struct udp_found *found, const struct sock_common *common,
				      const struct net_packet *packet)
{
	if (common->skc_family != NET_AF_INET6)
		return false;
	if (!is_any6(common->skc_v6_rcv_saddr.in6_u.u6_addr32)) {
		if (!same6(common->skc_v6_rcv_saddr.in6_u.u6_addr32, packet->dest))
			return false;
		POINTS(found, NET_UDP_BOUND);
	}
	if (!is_any6(common->skc_v6_daddr.in6_u.u6_addr32)) {
		if (!same6(common->skc_v6_daddr.in6_u.u6_addr32, packet->source))
			return false;
		POINTS(found, 4);
	}
	return true;
}

/* Whether a device of this number stands on the one that the packet came by, as a VLAN, a bond or a
 * VRF does: they take it behind the tracepoint, and it is for sockets that are bound to them. A
 * function like udp_find(), for the verifier's sake. */
__noinline int udp_is_above(void)
{
	__u32 zero = 0, way = NET_RECEIVED;
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	struct udp_found *found = bpf_map_lookup_elem(&lookups, &zero);
	const struct net_device *dev;
	__u64 end, node;
	int i, bound;

	if (!work || !found)
		return 0;
	bound = ((const struct sock_common *)(const void *)found->common)->skc_bound_dev_if;
	dev = (const void *)work->packet.dev;
	end = (__u64)dev + bpf_core_field_offset(struct net_device, adj_list.upper);
	node = (__u64)BPF_CORE_READ(dev, adj_list.upper.next);
	for (i = 0; i < NET_ABOVE && node && node != end; i++) {
		const struct netdev_adjacent *one =
			(const void *)(node - bpf_core_field_offset(struct netdev_adjacent, list));

		if (BPF_CORE_READ(one, dev, ifindex) == bound)
			return 1;
		node = (__u64)BPF_CORE_READ(one, list.next);
	}
	return 0;
}

static __always_inline bool udp_fits(struct udp_found *found, const struct net_packet *packet)
{
	const struct sock_common *common = (const void *)found->common;

	found->score = 0;
	if (common->skc_net.net != (struct net *)packet->net ||
	    common->skc_num != bpf_ntohs(packet->dest_port))
		return false;
	if (common->skc_dport) {
		if (common->skc_dport != packet->source_port)
			return false;
		POINTS(found, 4);
	}
	if (common->skc_bound_dev_if) {
		const struct net_device *dev = (const void *)packet->dev;

		if (common->skc_bound_dev_if != BPF_CORE_READ(dev, ifindex) && !udp_is_above())
			return false;
		POINTS(found, 4);
	}
	return packet->ipv6 ? udp_fits6(found, common, packet) : udp_fits4(found, common, packet);
}

static __always_inline __u64 udp_bucket_of(const struct net_packet *packet, const struct net *net)
{
	const struct udp_table *table = (const void *)shared_udp_table;
	__u32 mask;

	if (bpf_core_field_exists(net->ipv4.udp_table))
		table = BPF_CORE_READ(net, ipv4.udp_table);
	if (!table)
		return 0;
	mask = BPF_CORE_READ(table, mask);
	/* udp_hashfn() */
	return (__u64)BPF_CORE_READ(table, hash) +
	       (__u64)((bpf_ntohs(packet->dest_port) + BPF_CORE_READ(net, hash_mix)) & mask) *
		       bpf_core_type_size(struct udp_hslot);
}

/* Tunnels and the like receive by sockets of the kernel's. */
static __always_inline __u64 udp_owner_of(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock) ? NET_OWNER(NET_OWNER_KERNEL, 0)
							       : owner_of(sk);
}

static __always_inline void look_at_socket(struct udp_found *found, __u64 sock,
					   const struct net_packet *packet)
{
	const struct sock_common *common = (const void *)found->common;
	__s32 score;

	if (common->skc_net.net == (struct net *)packet->net &&
	    common->skc_num == bpf_ntohs(packet->dest_port))
		found->on_port++;
	if (!udp_fits(found, packet))
		return;
	/* A connected socket keeps the CPU that its last packet came to, and is given the next one
	 * before another that fits as well, also when it is no longer connected. */
	if ((__u32)common->skc_incoming_cpu == bpf_get_smp_processor_id())
		POINTS(found, 1);
	score = *(volatile __s32 *)&found->score;
	if (score < found->best)
		return;
	if (score == found->best) {
		if (BPF_CORE_READ_BITFIELD(common, skc_reuseport) &&
		    udp_owner_of((const struct sock *)sock) != found->owner)
			found->shared = true;
		return; /* the first one in the bucket is the newest, and is taken */
	}
	found->best = score;
	found->sock = sock;
	found->wildcard = score < NET_UDP_BOUND;
	found->owner = udp_owner_of((const struct sock *)sock);
	found->shared = false;
}

/* The kernel's own table of ports, read as the packet comes: the only way to the owner of a socket
 * that only receives and may be gone at the next read-out. UDP sockets are freed after a grace
 * period of RCU (SOCK_RCU_FREE), and this program runs within one.
 * A global function without arguments, because the verifier walks a static one anew for each state
 * that it is called with: 226,000 instructions in 0.5 s and 19 MiB, where this takes some 10,000. A
 * pointer as the argument of a global function needs 5.12 (e5069b9c23b3). */
__noinline int udp_find(void)
{
	__u32 zero = 0, way = NET_RECEIVED;
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	struct udp_found *found = bpf_map_lookup_elem(&lookups, &zero);
	const struct net_packet *packet;
	const struct sock_common *common;
	int i;

	if (!work || !found)
		return 0; /* cannot be: an array has its elements */
	packet = &work->packet;
	common = (const void *)found->common;
	found->sock = 0;
	found->sure = found->shared = false;
	found->on_port = 0;
	found->best = -1;
	found->bucket = udp_bucket_of(packet, (const void *)packet->net);
	if (!found->bucket || !read_bucket(&found->state, found->bucket))
		return 0;
	found->node = found->state.first;
	for (i = 0; i < NET_UDP_CHAIN && found->node; i++) {
		__u64 sock = found->node - bpf_core_field_offset(struct sock_common, skc_node);

		if (bpf_probe_read_kernel(found->common, SOCK_AT(__sk_common.skc_incoming_cpu) + 4,
					  (const void *)sock))
			return 0;
		found->node = (__u64)common->skc_node.next;
		look_at_socket(found, sock, packet);
	}
	found->sure = !found->node;
	if (!found->sure)
		found->sock = 0;
	return 0;
}

/* Whether the socket that took the last packet of this flow takes this one: it may have been
 * closed, connected to somebody else or bound to a device since, and another one may have come that
 * takes it. The caller says what was found (sock, bucket, state), and gets the owner and the score.
 * A function like udp_find(), for the same reason. */
__noinline int udp_takes(void)
{
	__u32 zero = 0, way = NET_RECEIVED, end = sock_span();
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	struct udp_found *found = bpf_map_lookup_elem(&lookups, &zero);
	const struct sock_common *common;
	const struct sock *sk;
	struct udp_bucket now;

	if (!work || !found)
		return 0; /* cannot be: an array has its elements */
	common = (const void *)found->common;
	sk = (const void *)found->common;
	if (end > sizeof(found->common) ||
	    bpf_probe_read_kernel(found->common, end, (const void *)found->sock))
		return 0;
	if (!udp_fits(found, &work->packet))
		return 0;
	found->owner = NET_OWNER(NET_OWNER_UID, sk->sk_uid.val);
	/* Alone in its bucket: no other one can have the port. */
	if (!common->skc_node.next && (__u64)common->skc_node.pprev == found->bucket)
		return 1;
	return read_bucket(&now, found->bucket) && now.first == found->state.first &&
	       now.count == found->state.count;
}

/* A tunnel of the kernel's keeps the sender's socket on the packet that it wraps up: the sender's
 * bytes were counted at the tunnel's device. The mark of that (encapsulation) is taken back where
 * the device has no checksum to put in, as in a ping and in the parts of a datagram
 * (iptunnel_handle_offloads), and WireGuard sets none (wg_reset_packet); both leave where the link
 * header of the tunnel's device was: behind the IP header of today. It lies in front of that
 * header's end, or outside of the packet, where no device was passed before (a packet that was only
 * given a longer header of its own, as 464XLAT does, has it inside: pskb_expand_head moves it). */
static __always_inline bool is_wrapped(const struct sk_buff *skb)
{
	return BPF_CORE_READ_BITFIELD(skb, encapsulation) ||
	       (skb->inner_mac_header >= skb->network_header + NET_IPV4_HEADER &&
		skb->inner_mac_header < skb->end);
}

/* Whether the socket itself speaks IPv4: its IPv6 packet was translated behind it, and what is
 * answered is translated before it comes to the socket. An unconnected UDP socket of IPv6 that
 * sends to an IPv4 address cannot be told. */
static __always_inline bool speaks_ipv4(__u16 family, const __u32 *remote)
{
	return family == NET_AF_INET ||
	       (!remote[0] && !remote[1] && remote[2] == bpf_htonl(0xffff));
}

/* The host redirects what comes for one of its ports, or addresses, to a socket that has another:
 * packets have the one, and the states of the socket the other. Its SYN-ACK alone tells both, which
 * is looked at because there is one of them in a connection. */
static __always_inline bool is_redirected(const struct sk_buff *skb,
					  const struct net_packet *packet)
{
	const struct sock *sk = skb->sk;
	struct in6_addr local, remote;

	if (!sk)
		return false; /* cannot be, but the verifier forgets that */
	if (packet->ipv6) {
		BPF_CORE_READ_INTO(&remote, sk, __sk_common.skc_v6_daddr);
		if (speaks_ipv4(BPF_CORE_READ(sk, __sk_common.skc_family), remote.in6_u.u6_addr32))
			return false;
	}
	if (BPF_CORE_READ(sk, __sk_common.skc_num) != bpf_ntohs(packet->source_port))
		return true;
	if (!packet->ipv6)
		return BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr) != packet->source[0];
	BPF_CORE_READ_INTO(&local, sk, __sk_common.skc_v6_rcv_saddr);
	return !same6(local.in6_u.u6_addr32, packet->source);
}
