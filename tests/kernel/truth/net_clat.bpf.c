/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* 464XLAT as Android does it at tc (packages/modules/Connectivity, bpf/progs/clatd.c), stateless
 * and the same at both ends: an IPv4 address is the last four bytes of an IPv6 address. The sum of
 * the prefix is that of nothing (RFC 1071), so that the checksums of UDP and TCP stay right. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LINK_HEADER 14
#define TYPE_AT     12
#define TYPE_IPV4   0x0800
#define TYPE_IPV6   0x86dd
#define PASS        0 /* TC_ACT_OK */
#define DROP        2 /* TC_ACT_SHOT */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 outside, inside; /* the device with IPv6, the one that apps see */

/* fd77:9:27f::/96 */
static __always_inline void embed(struct in6_addr *to, __u32 address)
{
	__builtin_memset(to, 0, sizeof(*to));
	to->in6_u.u6_addr16[0] = bpf_htons(0xfd77);
	to->in6_u.u6_addr16[1] = bpf_htons(0x0009);
	to->in6_u.u6_addr16[2] = bpf_htons(0x027f);
	to->in6_u.u6_addr32[3] = address;
}

static __always_inline bool is_embedded(const struct in6_addr *address)
{
	return address->in6_u.u6_addr16[0] == bpf_htons(0xfd77) &&
	       address->in6_u.u6_addr16[1] == bpf_htons(0x0009) &&
	       address->in6_u.u6_addr16[2] == bpf_htons(0x027f);
}

static __always_inline int put_header(struct __sk_buff *skb, __u16 type, const void *header,
				      __u32 length)
{
	__be16 wire = bpf_htons(type);

	return bpf_skb_change_proto(skb, wire, 0) ||
	       bpf_skb_store_bytes(skb, LINK_HEADER, header, length, 0) ||
	       bpf_skb_store_bytes(skb, TYPE_AT, &wire, sizeof(wire), 0);
}

/* Of the device that apps see: what they send leaves the other one. */
SEC("tc")
int translate_out(struct __sk_buff *skb)
{
	struct ipv6hdr ipv6 = {.version = 6};
	struct iphdr ipv4;

	if (skb->protocol != bpf_htons(TYPE_IPV4) ||
	    bpf_skb_load_bytes(skb, LINK_HEADER, &ipv4, sizeof(ipv4)))
		return PASS;
	ipv6.payload_len = bpf_htons(bpf_ntohs(ipv4.tot_len) - sizeof(ipv4));
	ipv6.nexthdr = ipv4.protocol;
	ipv6.hop_limit = ipv4.ttl;
	embed(&ipv6.saddr, ipv4.saddr);
	embed(&ipv6.daddr, ipv4.daddr);
	if (put_header(skb, TYPE_IPV6, &ipv6, sizeof(ipv6)))
		return DROP;
	return bpf_redirect_neigh(outside, NULL, 0, 0);
}

/* Of the device with IPv6. */
SEC("tc")
int translate_in(struct __sk_buff *skb)
{
	struct iphdr ipv4 = {.version = 4, .ihl = 5, .frag_off = bpf_htons(0x4000)};
	const __be16 *words = (const void *)&ipv4;
	struct ipv6hdr ipv6;
	__u32 sum = 0;

	if (skb->protocol != bpf_htons(TYPE_IPV6) ||
	    bpf_skb_load_bytes(skb, LINK_HEADER, &ipv6, sizeof(ipv6)) || !is_embedded(&ipv6.daddr))
		return PASS;
	ipv4.tot_len = bpf_htons(bpf_ntohs(ipv6.payload_len) + sizeof(ipv4));
	ipv4.protocol = ipv6.nexthdr;
	ipv4.ttl = ipv6.hop_limit;
	ipv4.saddr = ipv6.saddr.in6_u.u6_addr32[3];
	ipv4.daddr = ipv6.daddr.in6_u.u6_addr32[3];
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	ipv4.check = ~((sum & 0xffff) + (sum >> 16));
	if (put_header(skb, TYPE_IPV4, &ipv4, sizeof(ipv4)))
		return DROP;
	return bpf_redirect(inside, BPF_F_INGRESS);
}
