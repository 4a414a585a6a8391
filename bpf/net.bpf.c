/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bytes and packets per uid at the IP layer, in every network namespace. A sent packet carries its
 * socket; a received one does not have it yet (net_flow.bpf.h finds it). Nothing is attached to a
 * cgroup: on Android netd owns those, and a second attach can silently replace its program. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi/net.h"
#include "net_device.bpf.h"
#include "net_flow.bpf.h"
#include "net_fragment.bpf.h"
#include "net_interface.bpf.h"
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"
#include "net_socket.bpf.h"
#include "net_waiting.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by the reader when it cannot dump a namespace: then TCP, too, is learnt from each packet. */
__u32 learn_every_packet;

/* The packet's fields: itself, or a copy of them. */
static __always_inline const struct sk_buff *fields_of(struct sk_buff *skb, struct net_work *work,
						       bool direct)
{
	__u32 from = bpf_core_field_offset(skb->dev) & ~7u;
	__u32 end = bpf_core_field_offset(skb->data) + 8;

	if (direct)
		return skb;
	if (end - from > sizeof(work->skb) ||
	    bpf_probe_read_kernel(work->skb, end - from, (const void *)skb + from))
		return NULL;
	return (const void *)work->skb - from;
}

static __always_inline void name_netns(struct net_packet *packet, struct net *net, bool direct)
{
	if (!packet->netns)
		packet->netns = netns_name(net, direct);
}

/* Nothing is cut into segments on loopback, so there the wire is the skb itself. */
static __always_inline void measure(const struct sk_buff *skb, const struct net_packet *packet,
				    bool loopback, __u64 *bytes, __u64 *packets)
{
	*bytes = packet->length;
	*packets = 1;
	if (!wire_length)
		net_length_netd(packet->length, packet->ipv6, bytes, packets);
	else if (!loopback)
		net_length_wire(skb, packet->length, packet->headers, bytes, packets);
}

static __always_inline int receive(struct sk_buff *packet_skb, bool direct)
{
	__u32 way = NET_RECEIVED;
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	const struct sk_buff *skb = work ? fields_of(packet_skb, work, direct) : NULL;
	struct device_view device;
	struct net_packet *packet;
	struct net_device *dev;
	__u32 length, linear, type;
	__u64 bytes, packets;
	__u16 ethertype;
	bool parsed, loopback, udp;

	if (!work || !skb)
		return 0;
	ethertype = bpf_ntohs(skb->protocol);
	if (ethertype != NET_ETH_P_IP && ethertype != NET_ETH_P_IPV6)
		return 0;
	packet = &work->packet;
	__builtin_memset(packet, 0, sizeof(*packet));
	type = BPF_CORE_READ_BITFIELD(skb, pkt_type);
	dev = skb->dev;
	if (!view_device(dev, work, &device, direct) || !receives(skb, dev, type, &device, packet))
		return 0;
	/* A multicast that this host sent and hears itself never saw the wire either. */
	loopback = device.flags & NET_IFF_LOOPBACK || type == NET_PACKET_LOOPBACK;
	length = skb->len;
	linear = length - skb->data_len;
	if (ethertype == NET_ETH_P_IP)
		parsed = net_parse4(packet, skb->data, linear, length, false);
	else
		parsed = net_parse6(packet, skb->data, linear, length, false);
	if (!parsed) {
		loss_add(&net_losses, NET_LOSS_HEADER, 1);
		count_class(NET_CLASS_OVERFLOW, false, length, 1);
		return 0;
	}
	if (packet->fragment) {
		name_netns(packet, device.net, direct);
		if (!join_pieces() && !wire_length)
			return 0;
	}
	measure(skb, packet, loopback, &bytes, &packets);
	if (loopback) {
		count_class(NET_CLASS_LOOPBACK, false, bytes, packets);
		return 0;
	}
	if (by_interface) {
		const struct net_device *counts = (const void *)packet->dev;

		name_netns(packet, device.net, direct);
		packet->interface = interface_of(
			counts,
			counts == dev ? device.ifindex : (__u32)BPF_CORE_READ(counts, ifindex),
			packet->netns);
	}
	udp = packet->protocol == IPPROTO_UDP && packet->has_ports;
	if (udp && receive_recent(packet, bytes, packets))
		return 0;
	name_netns(packet, device.net, direct);
	if (ethertype == NET_ETH_P_IP) {
		struct net_flow4 key;

		fill_key4(&key, packet, false);
		if (udp)
			receive_udp(&flows4, PLACE(waiting4, key, NET_IN_RECEIVE), packet, bytes,
				    packets);
		else
			receive_flow(&flows4, PLACE(waiting4, key, NET_IN_RECEIVE), packet, bytes,
				     packets);
	} else {
		struct net_flow6 key;

		fill_key6(&key, packet, false);
		if (udp)
			receive_udp(&flows6, PLACE(waiting6, key, NET_IN_RECEIVE), packet, bytes,
				    packets);
		else
			receive_flow(&flows6, PLACE(waiting6, key, NET_IN_RECEIVE), packet, bytes,
				     packets);
	}
	return 0;
}

struct sender {
	__u64 owner;
	bool learnable; /* replies to this packet are the sender's */
	bool opens;     /* it connects: nothing that came before is its own */
	bool forwarded;
	bool tcp;     /* a TCP socket: never cut into fragments */
	bool request; /* of a connection that is not there yet: a small struct */
};

/* UDP is looked up when it is received. Who sends says more only where the kernel chooses among
 * several sockets, or while the table of ports is not known. */
static __always_inline bool udp_is_learnt(struct sock *sk, const struct sock_common *common)
{
	if (BPF_CORE_READ_BITFIELD(common, skc_reuseport))
		return true;
	if (bpf_core_field_exists(((struct net *)0)->ipv4.udp_table) || shared_udp_table)
		return false;
	shared_udp_table = (__u64)BPF_CORE_READ(sk, __sk_common.skc_prot, h.udp_table);
	return true;
}

/* The fields that find_sender() reads: those of the socket itself, or of a copy. Where that cannot
 * be read as a whole, because a small struct lies at the end of what is mapped, only those that
 * each socket has: then *is_whole is false. */
static __always_inline const struct sock *sock_fields(struct sock *sk, struct net_work *work,
						      bool direct, bool *is_whole)
{
	__u32 from = SOCK_AT(__sk_common.skc_family) & ~7u, end = sock_span();

	*is_whole = true;
	if (direct)
		return sk;
	if (end > sizeof(work->sock) ||
	    bpf_probe_read_kernel(work->sock, end - from, (const void *)sk + from)) {
		*is_whole = false;
		if (bpf_probe_read_kernel(work->sock, SOCK_AT(__sk_common.skc_net) + 8 - from,
					  (const void *)sk + from))
			return NULL;
	}
	return (const void *)work->sock - from;
}

/* Who sent it. TIME_WAIT and request sockets are small structs without sk_uid: read as a full
 * socket they give plausible nonsense. */
static __always_inline struct sender find_sender(const struct sk_buff *skb, struct net *net,
						 struct net_work *work, bool direct)
{
	struct sender from = {.owner = NET_OWNER(NET_OWNER_KERNEL, 0)};
	struct sock *sk = skb->sk;
	const struct sock_common *common;
	const struct sock *fields;
	__u16 family, protocol;
	bool kernel, is_whole;
	__u8 state;

	if (!sk) {
		/* Set where a packet came in; a packet made here has none. */
		from.forwarded = skb->skb_iif != 0;
		return from;
	}
	if (is_wrapped(skb))
		return from;
	fields = sock_fields(sk, work, direct, &is_whole);
	if (!fields)
		return from;
	common = &fields->__sk_common;
	state = common->skc_state;
	if (state == TCP_TIME_WAIT)
		return from;
	if (state == TCP_NEW_SYN_RECV) {
		/* A pointer in a union: the verifier does not type it. */
		const struct sock *listener = BPF_CORE_READ(sk, __sk_common.skc_listener);
		const struct sock *holder = listener ? uid_holder(listener) : NULL;

		if (holder)
			from.owner = owner_of(holder);
		from.tcp = from.request = true;
		return from;
	}
	/* A bridge between namespaces shows the packet again with the first sender's socket. */
	if (common->skc_net.net != net) {
		from.forwarded = true;
		return from;
	}
	if (!is_whole)
		return from;
	family = common->skc_family;
	protocol = fields->sk_protocol;
	kernel = BPF_CORE_READ_BITFIELD(fields, sk_kern_sock);
	if (!kernel)
		from.owner = NET_OWNER(NET_OWNER_UID, fields->sk_uid.val);
	if (family != NET_AF_INET && family != NET_AF_INET6)
		return from;
	from.tcp = protocol == IPPROTO_TCP;
	if (from.tcp && kernel) {
		const struct sock *parent = mptcp_parent(sk);

		if (parent)
			from.owner = owner_of(parent);
	}
	if (from.tcp) {
		/* The other states were learnt at their tracepoint. The control socket that sends
		 * resets is in CLOSE and must not steal flows for uid 0. */
		from.opens = state == TCP_SYN_SENT;
		from.learnable = from.opens ||
				 (learn_every_packet && state != TCP_CLOSE && state != TCP_LISTEN);
	} else if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		from.learnable = !kernel;
	else if (protocol == IPPROTO_UDP)
		from.learnable = udp_is_learnt(sk, common);
	else
		from.learnable = fields->sk_type != NET_SOCK_RAW;
	/* Answers come twice where packets are translated: the socket's are those in its own words.
	 */
	if (from.learnable && skb->protocol == bpf_htons(NET_ETH_P_IPV6) &&
	    speaks_ipv4(family, common->skc_v6_daddr.in6_u.u6_addr32))
		from.learnable = false;
	return from;
}

/* An answer to this packet is its sender's. One that is sent on in this host's name (masquerading)
 * is answered to this host, and no socket is there. */
static __always_inline void learn_sent(const struct sk_buff *skb, struct net_packet *packet,
				       const struct sender *from)
{
	const struct sock *sk = skb->sk, *holder = NULL;
	__u64 owner = from->owner;

	if (from->tcp && sk && !from->request)
		holder = uid_holder(sk);
	if (from->forwarded) {
		if (locality(packet, packet->source) != NET_LOCAL)
			return;
		owner = NET_OWNER(NET_OWNER_FORWARDED, 0);
	}
	if (packet->ipv6) {
		struct net_flow6 key;

		fill_key6(&key, packet, true);
		if (!from->forwarded || !bpf_map_lookup_elem(&flows6, &key))
			learn(&flows6, PLACE(waiting6, key, NET_IN_TRANSMIT), owner, holder,
			      !from->opens);
	} else {
		struct net_flow4 key;

		fill_key4(&key, packet, true);
		if (!from->forwarded || !bpf_map_lookup_elem(&flows4, &key))
			learn(&flows4, PLACE(waiting4, key, NET_IN_TRANSMIT), owner, holder,
			      !from->opens);
	}
}

static __always_inline int transmit(struct sk_buff *packet_skb, bool direct)
{
	__u32 way = NET_SENT;
	struct net_work *work = bpf_map_lookup_elem(&works, &way);
	const struct sk_buff *skb = work ? fields_of(packet_skb, work, direct) : NULL;
	struct device_view device;
	struct net_packet *packet;
	struct net_device *dev;
	struct net *net;
	const void *head;
	__u32 length, linear, offset, skip;
	__u64 bytes, packets;
	struct sender from;
	__u16 ethertype;
	bool parsed, loopback;

	if (!work || !skb)
		return 0;
	ethertype = bpf_ntohs(skb->protocol);
	if (ethertype != NET_ETH_P_IP && ethertype != NET_ETH_P_IPV6)
		return 0;
	dev = skb->dev;
	if (!view_device(dev, work, &device, direct) || sent_above(skb, dev, &device))
		return 0;
	loopback = device.flags & NET_IFF_LOOPBACK;
	net = device.net;
	head = skb->head;
	offset = skb->network_header;
	length = skb->len;
	linear = length - skb->data_len;
	skip = offset - (__u32)((const void *)skb->data - head); /* the link header in front */
	if (skip > linear) {
		loss_add(&net_losses, NET_LOSS_HEADER, 1);
		count_class(NET_CLASS_OVERFLOW, true, length, 1);
		return 0;
	}
	from = find_sender(skb, net, work, direct);
	/* The common case needs no byte of the packet: nothing is learnt from it, and it is no
	 * fragment, because TCP makes none and a device cannot put a checksum into one
	 * (ip_do_fragment, ip6_fragment: that is done before). */
	if (!wire_length && !from.learnable && !from.forwarded && !from.request &&
	    (from.tcp || BPF_CORE_READ_BITFIELD(skb, ip_summed) == NET_CHECKSUM_PARTIAL)) {
		bytes = length - skip;
		packets = 1;
		net_length_netd(length - skip, ethertype == NET_ETH_P_IPV6, &bytes, &packets);
		goto count;
	}
	packet = &work->packet;
	__builtin_memset(packet, 0, sizeof(*packet));
	if (ethertype == NET_ETH_P_IP)
		parsed = net_parse4(packet, head + offset, linear - skip, length - skip, true);
	else
		parsed = net_parse6(packet, head + offset, linear - skip, length - skip, true);
	/* Without headers (a packet socket can put all in page fragments) the sender is known all
	 * the same; only the flow is not. */
	if (!parsed) {
		packet->length = length - skip;
		packet->headers = 0;
		packet->has_ports = false;
	}
	if (from.request && packet->has_ports)
		from.learnable = is_redirected(skb, packet);
	if ((from.learnable || from.forwarded) && packet->has_ports && !loopback) {
		packet->net = (__u64)net;
		name_netns(packet, net, direct);
		learn_sent(skb, packet, &from);
	}
	if (parsed && !wire_length && !whole_datagram(packet))
		return 0;
	measure(skb, packet, loopback, &bytes, &packets);
count:
	if (by_interface && !loopback)
		work->packet.interface = interface_of(dev, device.ifindex, netns_name(net, direct));
	if (loopback)
		count_class(NET_CLASS_LOOPBACK, true, bytes, packets);
	else if (from.forwarded)
		count_class(NET_CLASS_FORWARDED, true, bytes, packets);
	else
		count_owner(from.owner, &work->packet.interface, true, bytes, packets);
	return 0;
}

/* Rare beside packets, and half of the fields lie in struct inet_sock: probe reads in both twins.
 * At CLOSE skc_num is 0 already; inet_sport is not. While a socket is cloned for an accept, one of
 * its ports may still be 0: then ESTABLISHED tells. A socket that connects has its ports for sure
 * when it sends its SYN, which tells (find_sender). */
static __always_inline int state_changed(const struct sock *sk, int old_state, int new_state)
{
	/* The two states from which tcp_time_wait() is called. */
	bool time_wait = old_state == TCP_FIN_WAIT2 || old_state == TCP_CLOSING;
	const struct sock *holder;
	struct in6_addr mapped;
	__u16 local_port, remote_port, family;
	__u64 owner, netns;
	struct net *net;

	if (new_state != TCP_ESTABLISHED && new_state != TCP_SYN_RECV && new_state != TCP_CLOSE)
		return 0;
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	local_port = BPF_CORE_READ((const struct inet_sock *)sk, inet_sport);
	remote_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	if (!local_port || !remote_port)
		return 0;
	net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
	netns = netns_name(net, false);
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	holder = uid_holder(sk);
	owner = holder ? owner_of(holder) : NET_OWNER(NET_OWNER_KERNEL, 0);
	if (family == NET_AF_INET6) {
		BPF_CORE_READ_INTO(&mapped, sk, __sk_common.skc_v6_daddr);
		if (!mapped.in6_u.u6_addr32[0] && !mapped.in6_u.u6_addr32[1] &&
		    mapped.in6_u.u6_addr32[2] == bpf_htonl(0xffff))
			family = NET_AF_INET; /* an IPv6 socket that speaks IPv4 */
	}
	if (family == NET_AF_INET) {
		struct net_flow4 key = {.netns = netns,
					.local_port = local_port,
					.remote_port = remote_port,
					.protocol = IPPROTO_TCP};

		key.local = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		key.remote = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		if (new_state == TCP_CLOSE)
			forget(&flows4, PLACE(waiting4, key, NET_IN_STATE), owner, holder,
			       time_wait);
		else
			learn(&flows4, PLACE(waiting4, key, NET_IN_STATE), owner, holder, true);
	} else if (family == NET_AF_INET6) {
		struct net_flow6 key = {.netns = netns,
					.local_port = local_port,
					.remote_port = remote_port,
					.protocol = IPPROTO_TCP};

		bpf_core_read(key.local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(key.remote, 16, &sk->__sk_common.skc_v6_daddr);
		if (new_state == TCP_CLOSE)
			forget(&flows6, PLACE(waiting6, key, NET_IN_STATE), owner, holder,
			       time_wait);
		else
			learn(&flows6, PLACE(waiting6, key, NET_IN_STATE), owner, holder, true);
	}
	return 0;
}

SEC("?tp_btf/net_dev_queue")
int BPF_PROG(transmit_btf, struct sk_buff *skb)
{
	return transmit(skb, true);
}

SEC("?raw_tp/net_dev_queue")
int BPF_PROG(transmit_raw, struct sk_buff *skb)
{
	return transmit(skb, false);
}

SEC("?tp_btf/netif_receive_skb")
int BPF_PROG(receive_btf, struct sk_buff *skb)
{
	return receive(skb, true);
}

SEC("?raw_tp/netif_receive_skb")
int BPF_PROG(receive_raw, struct sk_buff *skb)
{
	return receive(skb, false);
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(state_btf, const struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

SEC("?raw_tp/inet_sock_set_state")
int BPF_PROG(state_raw, const struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

static __always_inline void close_one(void *map, const void *key)
{
	struct net_waiting *waiting = bpf_map_lookup_elem(map, key);

	if (waiting)
		waiting->closed = 1;
}

/* Attached nowhere: the reader runs it (BPF_PROG_TEST_RUN, 1b4d60ec162f, 5.10) with the number of
 * keys in `closing`, and whether they are of IPv6. */
SEC("raw_tp/netif_receive_skb")
int close_waiting(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], ipv6 = ctx->args[1];

	for (__u32 i = 0; i < NET_CLOSING; i++) {
		if (i >= count)
			break;
		if (ipv6)
			close_one(&waiting6, &closing[i]);
		else
			close_one(&waiting4, &closing[i]);
	}
	return 0;
}
