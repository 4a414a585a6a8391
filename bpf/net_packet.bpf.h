/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From an skb to a flow key and a length; knows no map but the cache of fragments. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "abi/net.h"

/* Read p->field: directly where the verifier knows p's type (tp_btf), else by probe read.
 * `direct` is a constant of each twin, so the other branch vanishes at compile time. */
#define NET_FIELD(direct, p, field) \
	((direct) ? (p)->field : (typeof((p)->field))BPF_CORE_READ(p, field))
#define NET_BITFIELD(direct, p, field) \
	((direct) ? BPF_CORE_READ_BITFIELD(p, field) : BPF_CORE_READ_BITFIELD_PROBED(p, field))

/* 354259fa73e2 (6.2) tells a VLAN tag by vlan_all. */
struct sk_buff___before_6_2 {
	__u8 vlan_present : 1;
} __attribute__((preserve_access_index));

/* Macros of the kernel, so BTF has none. */
#define NET_ETH_P_IP         0x0800
#define NET_ETH_P_IPV6       0x86dd
#define NET_IFF_LOOPBACK     0x8
#define NET_IFF_SLAVE        0x800  /* of a bond */
#define NET_IFF_BRIDGE_PORT  0x200  /* in priv_flags */
#define NET_IFF_MACVLAN_PORT 0x100  /* in priv_flags: macvlans are on top of it */
#define NET_IFF_TEAM_PORT    0x2000 /* in priv_flags */
#define NET_PACKET_OTHERHOST 3
#define NET_PACKET_LOOPBACK  5
#define NET_CHECKSUM_PARTIAL 3 /* the device is to put it in */
#define NET_IPV4_HEADER      20
#define NET_AF_INET          2
#define NET_AF_INET6         10
#define IPPROTO_ICMPV6       58
#define NET_SOCK_RAW         3
#define NET_ICMP_ECHO_REPLY  0
#define NET_ICMP_ECHO        8
#define NET_ICMP6_ECHO       128
#define NET_ICMP6_ECHO_REPLY 129
#define NET_NEXTHDR_HOP      0
#define NET_NEXTHDR_ROUTING  43
#define NET_NEXTHDR_FRAGMENT 44
#define NET_NEXTHDR_DEST     60
#define NET_MAX_EXTENSIONS   8
#define NET_OWN_EXTENSIONS   4 /* of what is sent: its socket is known without them */
#define NET_TCP_SYN          2
#define NET_GSO_MTU          1500
#define NET_SOCK_SPAN        1024 /* struct sock up to sk_uid is 536 to 616 bytes, 5.10 to 6.18 */

/* The first 16 bytes behind the IP header: ports of TCP and UDP, type and id of ICMP, and TCP's
 * data offset and flags. */
struct net_transport {
	union {
		struct {
			__be16 source, dest;
		};
		struct {
			__u8 icmp_type, icmp_code;
		};
	};
	__be16 word2; /* ICMP: the echo's identifier; UDP: length */
	__be16 word3;
	__u8 tcp_middle[4];
	__u8 tcp_offset; /* upper four bits: 32-bit words */
	__u8 tcp_flags;
	__u8 tail[2];
};

/* A parsed packet. Addresses of IPv4 are in word 0. */
struct net_packet {
	__u64 net; /* kernel address of the namespace, and the name that no other ever has */
	__u64 netns;
	__u64 dev;       /* where it was received */
	__u32 interface; /* id of the interface that counts, where interfaces are told apart */
	__u32 source[4], dest[4];
	__u32 length;        /* from the IP header on, without link padding */
	__u32 headers;       /* IP and transport headers: what each further segment repeats */
	__u32 fragment_id;   /* network order, as it stands */
	__u32 fragment_from; /* offset of this fragment's payload, and the bytes in front of it */
	__u32 fragment_headers;
	__be16 source_port, dest_port;
	__u8 protocol;
	bool ipv6;
	bool fragment, more_fragments;
	bool has_ports; /* or an echo's identifier */
	bool opens;     /* a SYN: a connection of TCP begins */
};

/* What a CPU works on in one direction; in a map, because the stack is small and because what comes
 * from a map is unknown to the verifier, which then has fewer cases to try.
 * skb: where the verifier knows the type (tp_btf) a packet's fields are read from the packet
 * itself, else from this copy that one probe read makes: such a read costs 34 ns, and 0.06 ns for
 * each byte. The fields from `dev` to `data` take 192 to 208 bytes in 5.10 to 6.18. */
struct net_work {
	char skb[256];
	char sock[NET_SOCK_SPAN]; /* the same of struct sock, from skc_family to sk_uid */
	char device[320]; /* and of struct net_device, its flags and, where it lies near, nd_net */
	struct net_packet packet;
};

static __always_inline bool net_is_echo(__u8 protocol, __u8 type, bool transmit)
{
	if (protocol == IPPROTO_ICMP)
		return type == (transmit ? NET_ICMP_ECHO : NET_ICMP_ECHO_REPLY);
	return protocol == IPPROTO_ICMPV6 &&
	       type == (transmit ? NET_ICMP6_ECHO : NET_ICMP6_ECHO_REPLY);
}

static __always_inline void net_parse_transport(struct net_packet *packet,
						const struct net_transport *transport,
						__u32 ip_headers, bool transmit)
{
	packet->headers = ip_headers;
	switch (packet->protocol) {
	case IPPROTO_TCP:
		packet->headers += (transport->tcp_offset >> 4) * 4;
		packet->opens = transport->tcp_flags & NET_TCP_SYN;
		packet->source_port = transport->source;
		packet->dest_port = transport->dest;
		packet->has_ports = true;
		break;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		packet->headers += 8;
		packet->source_port = transport->source;
		packet->dest_port = transport->dest;
		packet->has_ports = true;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (!net_is_echo(packet->protocol, transport->icmp_type, transmit))
			break;
		/* The identifier is the port of a ping socket (net/ipv4/ping.c). */
		*(transmit ? &packet->source_port : &packet->dest_port) = transport->word2;
		packet->has_ports = true;
		break;
	}
}

/* start: kernel address of the IP header; linear: bytes from there on that are not in page
 * fragments; length: of the skb from there on. Reading a little past the linear part is safe: the
 * skb_shared_info lies behind it. False: the headers are out of reach. */
static __always_inline bool net_parse4(struct net_packet *packet, const void *start, __u32 linear,
				       __u32 length, bool transmit)
{
	struct {
		struct iphdr ip;
		struct net_transport transport;
	} raw;
	__u32 ip_bytes, total, fragment;

	if (linear < sizeof(raw.ip) || bpf_probe_read_kernel(&raw, sizeof(raw), start))
		return false;
	ip_bytes = raw.ip.ihl * 4;
	if (raw.ip.version != 4 || ip_bytes < sizeof(raw.ip))
		return false;
	/* Short Ethernet frames are padded; ip_rcv trims them only after this tracepoint. BIG TCP
	 * has 0 here. */
	total = bpf_ntohs(raw.ip.tot_len);
	packet->length = total && total < length ? total : length;
	packet->source[0] = raw.ip.saddr;
	packet->dest[0] = raw.ip.daddr;
	packet->protocol = raw.ip.protocol;
	packet->headers = ip_bytes;
	fragment = bpf_ntohs(raw.ip.frag_off);
	packet->fragment_from = (fragment & 0x1fff) * 8;
	packet->more_fragments = fragment & 0x2000;
	packet->fragment = packet->more_fragments || packet->fragment_from;
	packet->fragment_id = raw.ip.id;
	packet->fragment_headers = ip_bytes;
	if (packet->fragment_from)
		return true;
	if (ip_bytes > sizeof(raw.ip) &&
	    bpf_probe_read_kernel(&raw.transport, sizeof(raw.transport), start + ip_bytes))
		return false;
	if (linear < ip_bytes + 8)
		return true; /* no ports: counted, but as nobody's */
	net_parse_transport(packet, &raw.transport, ip_bytes, transmit);
	return true;
}

static __always_inline bool net_parse6(struct net_packet *packet, const void *start, __u32 linear,
				       __u32 length, bool transmit)
{
	struct {
		struct ipv6hdr ip;
		struct net_transport transport;
	} raw;
	__u32 at = sizeof(raw.ip), payload;
	__u8 next, extension[8];
	int i;

	if (linear < sizeof(raw.ip) || bpf_probe_read_kernel(&raw, sizeof(raw), start))
		return false;
	if (raw.ip.version != 6)
		return false;
	payload = bpf_ntohs(raw.ip.payload_len);
	packet->length = payload && payload + sizeof(raw.ip) < length
				 ? payload + (__u32)sizeof(raw.ip)
				 : length;
	__builtin_memcpy(packet->source, &raw.ip.saddr, 16);
	__builtin_memcpy(packet->dest, &raw.ip.daddr, 16);
	packet->ipv6 = true;
	next = raw.ip.nexthdr;
	for (i = 0; i < (transmit ? NET_OWN_EXTENSIONS : NET_MAX_EXTENSIONS); i++) {
		if (next != NET_NEXTHDR_HOP && next != NET_NEXTHDR_ROUTING &&
		    next != NET_NEXTHDR_FRAGMENT && next != NET_NEXTHDR_DEST)
			break;
		if (linear < at + sizeof(extension) ||
		    bpf_probe_read_kernel(extension, sizeof(extension), start + at))
			break;
		if (next == NET_NEXTHDR_FRAGMENT) {
			packet->fragment_from = (extension[2] << 8 | extension[3]) & 0xfff8;
			packet->more_fragments = extension[3] & 1;
			/* An atomic fragment (RFC 6946) is a whole datagram. */
			packet->fragment = packet->more_fragments || packet->fragment_from;
			__builtin_memcpy(&packet->fragment_id, extension + 4, 4);
			next = extension[0];
			at += sizeof(extension);
			packet->fragment_headers = at;
			if (packet->fragment_from)
				break;
		} else {
			next = extension[0];
			at += (extension[1] + 1) * 8;
		}
	}
	packet->protocol = next;
	packet->headers = at;
	if (packet->fragment_from)
		return true;
	if (at > sizeof(raw.ip) &&
	    bpf_probe_read_kernel(&raw.transport, sizeof(raw.transport), start + at))
		return false;
	if (linear < at + 8)
		return true;
	net_parse_transport(packet, &raw.transport, at, transmit);
	return true;
}

/* What netd books for an skb of `length` bytes (bpf_progs/netd.c of packages/modules/
 * Connectivity): above an MTU of 1500 it takes the skb for TCP segments with timestamps. This one
 * and the next change *bytes and *packets only where one skb stands for several packets. */
static __always_inline void net_length_netd(__u32 length, bool ipv6, __u64 *bytes, __u64 *packets)
{
	__u32 overhead = (ipv6 ? 40 : 20) + 20 + 12;
	__u32 payload = length - overhead, mss = NET_GSO_MTU - overhead;

	if (length <= NET_GSO_MTU)
		return;
	*packets = (payload + mss - 1) / mss;
	*bytes = (__u64)overhead * *packets + payload;
}

/* What crosses the wire: each segment of a super-packet has its own headers. */
static __always_inline void net_length_wire(const struct sk_buff *skb, __u32 length, __u32 headers,
					    __u64 *bytes, __u64 *packets)
{
	struct skb_shared_info *shared = (void *)skb->head + skb->end;
	__u32 size = BPF_CORE_READ(shared, gso_size), segments;

	if (!size || length <= headers)
		return;
	/* Not gso_segs: drivers that aggregate in hardware may leave it 0. */
	segments = (length - headers + size - 1) / size;
	*packets = segments;
	*bytes = length + (__u64)(segments - 1) * headers;
}
