/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What netd does on a device, in the test's own cgroup: bytes per uid by cgroup_skb. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "kernel/truth/net_truth.h"

#define SEEN 0x7365656e

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool tells_init; /* whether this kernel tells a cgroup's program who is current */

__u64 filtered_twice; /* segments that came to the ingress hook again */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct truth_key);
	__type(value, struct truth_bytes);
} truth SEC(".maps");

#define SYN 2
#define ACK 16

/* The packets of the tests have no IPv6 extensions. */
static __always_inline __u8 tcp_flags(struct __sk_buff *skb, bool ipv6)
{
	__u8 first = 0, protocol = 0, flags = 0;
	__u32 ip = 40;

	bpf_skb_load_bytes(skb, 0, &first, 1);
	if (!ipv6)
		ip = (first & 15) * 4;
	bpf_skb_load_bytes(skb, ipv6 ? 6 : 9, &protocol, 1);
	if (protocol == IPPROTO_TCP)
		bpf_skb_load_bytes(skb, ip + 13, &flags, 1);
	return flags;
}

static __always_inline void add(struct __sk_buff *skb, __u32 formula, bool transmit, __u64 bytes,
				__u64 packets)
{
	struct truth_key key = {
		.uid = bpf_get_socket_uid(skb), .formula = formula, .loopback = skb->ifindex == 1};
	struct truth_bytes zero = {}, *sums;
	bool ipv6 = skb->protocol == bpf_htons(0x86dd);
	__u8 flags;

	if (tells_init)
		key.in_init = bpf_get_current_pid_tgid() >> 32 == 1;
	bpf_map_update_elem(&truth, &key, &zero, BPF_NOEXIST);
	sums = bpf_map_lookup_elem(&truth, &key);
	if (!sums)
		return;
	__sync_fetch_and_add(transmit ? &sums->tx_bytes : &sums->rx_bytes, bytes);
	__sync_fetch_and_add(transmit ? &sums->tx_packets : &sums->rx_packets, packets);
	flags = tcp_flags(skb, ipv6);
	if (flags & SYN)
		__sync_fetch_and_add(transmit ? &sums->tx_syns : &sums->rx_syns, 1);
	if (ipv6 && (flags & (SYN | ACK)) == (SYN | ACK))
		__sync_fetch_and_add(transmit ? &sums->tx_synacks6 : &sums->rx_synacks6, 1);
}

/* IP and transport headers; the packets of the tests have no IPv6 extensions. */
static __always_inline __u32 headers(struct __sk_buff *skb)
{
	__u8 first = 0, protocol = 0, offset = 0;
	__u32 ip = 40;

	bpf_skb_load_bytes(skb, 0, &first, 1);
	if (first >> 4 == 4) {
		ip = (first & 15) * 4;
		bpf_skb_load_bytes(skb, 9, &protocol, 1);
	} else {
		bpf_skb_load_bytes(skb, 6, &protocol, 1);
	}
	if (protocol == IPPROTO_UDP)
		return ip + 8;
	bpf_skb_load_bytes(skb, ip + 12, &offset, 1);
	return ip + (offset >> 4) * 4;
}

static __always_inline void count(struct __sk_buff *skb, bool transmit)
{
	__u32 overhead = (skb->protocol == bpf_htons(0x86dd) ? 40 : 20) + 20 + 12;
	__u64 bytes = skb->len, packets = 1;

	if (skb->len > 1500) {
		__u64 payload = skb->len - overhead, mss = 1500 - overhead;

		packets = (payload + mss - 1) / mss;
		bytes = overhead * packets + payload;
	}
	add(skb, TRUTH_NETD, transmit, bytes, packets);
	bytes = skb->len;
	packets = 1;
	if (skb->ifindex != 1 && skb->gso_size && skb->len > headers(skb)) {
		/* gso_segs may be stale where TCP's segment size changed; gso_size decides. */
		packets = (skb->len - headers(skb) + skb->gso_size - 1) / skb->gso_size;
		bytes += (packets - 1) * headers(skb);
	}
	add(skb, TRUTH_WIRE, transmit, bytes, packets);
}

SEC("cgroup_skb/egress")
int truth_egress(struct __sk_buff *skb)
{
	count(skb, true);
	return 1;
}

/* Where two CPUs have segments of one handshake, the one that loses the race for the request socket
 * has been filtered for the listener and is filtered again for the child (e0f9759f530b). One
 * segment is one: it keeps its mark from the first time to the second. */
SEC("cgroup_skb/ingress")
int truth_ingress(struct __sk_buff *skb)
{
	if (skb->mark == SEEN) {
		__sync_fetch_and_add(&filtered_twice, 1);
		return 1;
	}
	skb->mark = SEEN;
	count(skb, false);
	return 1;
}

/* For the bench: a pair of the shape of netd's (uid, its row, add), and what the dispatch of the
 * two tracepoints alone costs. */
static __always_inline int netd_shape(struct __sk_buff *skb, bool transmit)
{
	struct truth_key key = {.uid = bpf_get_socket_uid(skb)};
	__u32 overhead = (skb->protocol == bpf_htons(0x86dd) ? 40 : 20) + 20 + 12;
	__u64 bytes = skb->len, packets = 1;
	struct truth_bytes *sums = bpf_map_lookup_elem(&truth, &key);

	if (!sums) {
		struct truth_bytes zero = {};

		bpf_map_update_elem(&truth, &key, &zero, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&truth, &key);
	}
	if (!sums)
		return 1;
	if (skb->len > 1500) {
		__u64 payload = skb->len - overhead, mss = 1500 - overhead;

		packets = (payload + mss - 1) / mss;
		bytes = overhead * packets + payload;
	}
	__sync_fetch_and_add(transmit ? &sums->tx_packets : &sums->rx_packets, packets);
	__sync_fetch_and_add(transmit ? &sums->tx_bytes : &sums->rx_bytes, bytes);
	return 1;
}

SEC("?cgroup_skb/egress")
int netd_egress(struct __sk_buff *skb)
{
	return netd_shape(skb, true);
}

SEC("?cgroup_skb/ingress")
int netd_ingress(struct __sk_buff *skb)
{
	return netd_shape(skb, false);
}

SEC("?tp_btf/net_dev_queue")
int empty_transmit(void *ctx)
{
	return 0;
}

SEC("?tp_btf/netif_receive_skb")
int empty_receive(void *ctx)
{
	return 0;
}

/* From an interrupt, so amid any program of a packet: as on a machine whose hypervisor takes the
 * CPU away at the worst moment. */
SEC("perf_event")
int pause_30_us(void *ctx)
{
	for (int i = 0; i < 1000; i++)
		bpf_ktime_get_ns();
	return 0;
}
