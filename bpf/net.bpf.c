/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bytes and packets per uid at the IP layer, in every network namespace. A sent packet carries its
 * socket; a received one does not have it yet, so flows are learnt from what is sent, from
 * inet_sock_set_state and from the reader's sock_diag dumps. What arrives for an unknown flow
 * waits in a map of its own until the reader has found the owner. Nothing is attached to a
 * cgroup: on Android netd owns those, and a second attach can silently replace its program. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi/net.h"
#include "loss.bpf.h"
#include "net_packet.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool wire_length; /* false: netd's formula */

/* Counts read-outs: tells the reader which flows are idle. */
__u32 epoch;
/* Set by the reader when it cannot dump a namespace: then TCP, too, is learnt from each packet. */
__u32 learn_every_packet;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, __u32);
	__type(value, struct net_bytes);
} uids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NET_CLASS_COUNT);
	__type(key, __u32);
	__type(value, struct net_bytes);
} classes SEC(".maps");

/* Plain hashes with a sweep from user space: an LRU would drop waiting bytes without a word. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct net_flow4);
	__type(value, struct net_flow_owner);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct net_flow6);
	__type(value, struct net_flow_owner);
} flows6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct net_flow4);
	__type(value, struct net_waiting);
} waiting4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct net_flow6);
	__type(value, struct net_waiting);
} waiting6 SEC(".maps");

/* A cache that holds no sums, so it may forget. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct net_fragment);
	__type(value, __u32);
} fragments SEC(".maps");

DEFINE_LOSSES(net_losses, NET_LOSS_COUNT);

/* Both directions run with bottom halves off, so a CPU's slot has one writer at a time. */
static __always_inline void add_bytes(struct net_bytes *sums, bool transmit, __u64 bytes,
				      __u64 packets)
{
	if (transmit) {
		sums->tx_bytes += bytes;
		sums->tx_packets += packets;
	} else {
		sums->rx_bytes += bytes;
		sums->rx_packets += packets;
	}
}

static __always_inline void count_class(__u32 class, bool transmit, __u64 bytes, __u64 packets)
{
	struct net_bytes *sums = bpf_map_lookup_elem(&classes, &class);

	if (sums)
		add_bytes(sums, transmit, bytes, packets);
}

static __always_inline void count_uid(__u32 uid, bool transmit, __u64 bytes, __u64 packets)
{
	struct net_bytes *sums = bpf_map_lookup_elem(&uids, &uid);

	if (!sums) {
		struct net_bytes zero = {};

		bpf_map_update_elem(&uids, &uid, &zero, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&uids, &uid);
		if (!sums) {
			loss_add(&net_losses, NET_LOSS_UID_MAP_FULL, 1);
			count_class(NET_CLASS_OVERFLOW, transmit, bytes, packets);
			return;
		}
	}
	add_bytes(sums, transmit, bytes, packets);
}

static __always_inline void count_owner(__u64 owner, bool transmit, __u64 bytes, __u64 packets)
{
	if (owner >> 32 == NET_OWNER_KERNEL)
		count_class(NET_CLASS_KERNEL, transmit, bytes, packets);
	else
		count_uid((__u32)owner, transmit, bytes, packets);
}

static __always_inline void touch(struct net_flow_owner *flow)
{
	if (flow->epoch != epoch)
		flow->epoch = epoch;
}

/* Note whose a flow is, and who owns what already waits for it. */
static __always_inline void learn(void *flows, void *waiting_map, const void *key, __u64 owner,
				  const struct sock *unaccepted)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, key);
	struct net_waiting *waiting;

	if (flow) {
		if (flow->owner != owner)
			flow->owner = owner;
		flow->unaccepted = (__u64)unaccepted;
		touch(flow);
		return;
	}
	struct net_flow_owner fresh = {
		.owner = owner, .unaccepted = (__u64)unaccepted, .epoch = epoch};

	if (bpf_map_update_elem(flows, key, &fresh, BPF_ANY))
		loss_add(&net_losses, NET_LOSS_FLOW_MAP_FULL, 1);
	waiting = bpf_map_lookup_elem(waiting_map, key);
	if (waiting)
		waiting->part[waiting->current & 1].owner = owner;
}

/* The socket is gone: what comes now belongs to nobody, in netd's eyes too. */
static __always_inline void forget(void *flows, void *waiting_map, const void *key, __u64 owner)
{
	struct net_waiting *waiting;

	bpf_map_delete_elem(flows, key);
	waiting = bpf_map_lookup_elem(waiting_map, key);
	if (!waiting)
		return;
	if (waiting->current == 0) {
		if (!waiting->part[0].owner)
			waiting->part[0].owner = owner;
		waiting->current = 1;
	}
}

/* Until it is accepted a socket has the uid of its listener; sock_graft gives it that of the
 * process that accepts. No tracepoint tells, so the flow asks until it knows. The address is only
 * read through a fault-proof probe, and goes with the flow at CLOSE. */
static __always_inline void ask_accepted(struct net_flow_owner *flow)
{
	const struct sock *sk = (const struct sock *)flow->unaccepted;

	if (!BPF_CORE_READ(sk, sk_socket))
		return;
	flow->owner = NET_OWNER(NET_OWNER_UID, BPF_CORE_READ(sk, sk_uid.val));
	flow->unaccepted = 0;
}

static __always_inline void receive_flow(void *flows, void *waiting_map, const void *key,
					 __u64 bytes, __u64 packets)
{
	struct net_flow_owner *flow = bpf_map_lookup_elem(flows, key);
	struct net_waiting *waiting;
	struct net_waiting_part *part;

	if (flow) {
		touch(flow);
		if (flow->unaccepted)
			ask_accepted(flow);
		count_owner(flow->owner, false, bytes, packets);
		return;
	}
	waiting = bpf_map_lookup_elem(waiting_map, key);
	if (!waiting) {
		struct net_waiting fresh = {};

		bpf_map_update_elem(waiting_map, key, &fresh, BPF_NOEXIST);
		waiting = bpf_map_lookup_elem(waiting_map, key);
		if (!waiting) {
			loss_add(&net_losses, NET_LOSS_WAITING_MAP_FULL, 1);
			count_class(NET_CLASS_OVERFLOW, false, bytes, packets);
			return;
		}
	}
	part = &waiting->part[waiting->current & 1];
	__sync_fetch_and_add(&part->bytes, bytes);
	__sync_fetch_and_add(&part->packets, packets);
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

/* Nothing is cut into segments on loopback, so there the wire is the skb itself. */
static __always_inline void measure(struct sk_buff *skb, const void *head,
				    const struct net_packet *packet, bool loopback, bool direct,
				    __u64 *bytes, __u64 *packets)
{
	*bytes = packet->length;
	*packets = 1;
	if (!wire_length)
		net_length_netd(packet->length, packet->ipv6, bytes, packets);
	else if (!loopback)
		net_length_wire(skb, head, packet->length, packet->headers, direct, bytes, packets);
}

/* A bridge shows a packet twice, on itself and on its port; it has its addresses itself. What it
 * only passes from port to port never comes to the IP layer. */
static __always_inline bool is_bridge_port(struct net_device *dev, bool direct)
{
	return NET_BITFIELD(direct, dev, priv_flags) & NET_IFF_BRIDGE_PORT;
}

static __always_inline int receive(struct sk_buff *skb, bool direct)
{
	__u16 ethertype = bpf_ntohs(NET_FIELD(direct, skb, protocol));
	struct net_packet packet = {};
	struct net_device *dev;
	struct net *net;
	const void *head, *data;
	__u32 length, linear, type;
	__u64 bytes, packets;
	bool parsed, loopback;

	if (ethertype != NET_ETH_P_IP && ethertype != NET_ETH_P_IPV6)
		return 0;
	type = NET_BITFIELD(direct, skb, pkt_type);
	if (type == NET_PACKET_OTHERHOST)
		return 0; /* a promiscuous device: ip_rcv drops it */
	dev = NET_FIELD(direct, skb, dev);
	if (is_bridge_port(dev, direct))
		return 0;
	/* A multicast that this host sent and hears itself never saw the wire either. */
	loopback = NET_FIELD(direct, dev, flags) & NET_IFF_LOOPBACK || type == NET_PACKET_LOOPBACK;
	net = NET_FIELD(direct, dev, nd_net.net);
	packet.netns = NET_FIELD(direct, net, ns.inum);
	head = NET_FIELD(direct, skb, head);
	data = NET_FIELD(direct, skb, data);
	length = NET_FIELD(direct, skb, len);
	linear = length - NET_FIELD(direct, skb, data_len);
	if (ethertype == NET_ETH_P_IP)
		parsed = net_parse4(&packet, data, linear, length, false);
	else
		parsed = net_parse6(&packet, data, linear, length, false);
	if (!parsed) {
		loss_add(&net_losses, NET_LOSS_HEADER, 1);
		count_class(NET_CLASS_OVERFLOW, false, length, 1);
		return 0;
	}
	if (packet.fragment)
		match_fragment(&packet);
	if (!wire_length && !whole_datagram(&packet))
		return 0;
	measure(skb, head, &packet, loopback, direct, &bytes, &packets);
	if (loopback) {
		count_class(NET_CLASS_LOOPBACK, false, bytes, packets);
	} else if (ethertype == NET_ETH_P_IP) {
		struct net_flow4 key;

		fill_key4(&key, &packet, false);
		receive_flow(&flows4, &waiting4, &key, bytes, packets);
	} else {
		struct net_flow6 key;

		fill_key6(&key, &packet, false);
		receive_flow(&flows6, &waiting6, &key, bytes, packets);
	}
	return 0;
}

struct sender {
	__u64 owner;
	bool learnable; /* replies to this packet are the sender's */
	bool forwarded;
	bool tcp; /* a TCP socket: never cut into fragments */
};

/* Who sent it. TIME_WAIT and request sockets are small structs without sk_uid: read as a full
 * socket they give plausible nonsense. */
static __always_inline struct sender find_sender(struct sk_buff *skb, struct net *net, bool direct)
{
	struct sender from = {.owner = NET_OWNER(NET_OWNER_KERNEL, 0)};
	struct sock *sk = NET_FIELD(direct, skb, sk);
	__u16 family, protocol;
	bool kernel;
	__u8 state;

	if (!sk) {
		/* Set where a packet came in; a packet made here has none. */
		from.forwarded = NET_FIELD(direct, skb, skb_iif) != 0;
		return from;
	}
	state = NET_FIELD(direct, sk, __sk_common.skc_state);
	if (state == TCP_TIME_WAIT)
		return from;
	if (state == TCP_NEW_SYN_RECV) {
		/* A pointer in a union: the verifier does not type it. */
		const struct sock *listener = BPF_CORE_READ(sk, __sk_common.skc_listener);

		if (listener)
			from.owner = NET_OWNER(NET_OWNER_UID, BPF_CORE_READ(listener, sk_uid.val));
		from.tcp = true;
		return from;
	}
	/* A bridge between namespaces shows the packet again with the first sender's socket. */
	if (NET_FIELD(direct, sk, __sk_common.skc_net.net) != net) {
		from.forwarded = true;
		return from;
	}
	family = NET_FIELD(direct, sk, __sk_common.skc_family);
	protocol = NET_FIELD(direct, sk, sk_protocol);
	kernel = NET_BITFIELD(direct, sk, sk_kern_sock);
	if (!kernel)
		from.owner = NET_OWNER(NET_OWNER_UID, NET_FIELD(direct, sk, sk_uid.val));
	if (family != NET_AF_INET && family != NET_AF_INET6)
		return from;
	from.tcp = protocol == IPPROTO_TCP;
	if (from.tcp)
		/* The other states were learnt at their tracepoint. The control socket that sends
		 * resets is in CLOSE and must not steal flows for uid 0. */
		from.learnable = state == TCP_SYN_SENT ||
				 (learn_every_packet && state != TCP_CLOSE && state != TCP_LISTEN);
	else if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		from.learnable = !kernel;
	else
		from.learnable = NET_FIELD(direct, sk, sk_type) != NET_SOCK_RAW;
	return from;
}

static __always_inline int transmit(struct sk_buff *skb, bool direct)
{
	__u16 ethertype = bpf_ntohs(NET_FIELD(direct, skb, protocol));
	struct net_packet packet = {};
	struct net_device *dev;
	struct net *net;
	const void *head, *data;
	__u32 length, linear, offset, skip, flags;
	__u64 bytes, packets;
	struct sender from;
	bool parsed, loopback;

	if (ethertype != NET_ETH_P_IP && ethertype != NET_ETH_P_IPV6)
		return 0;
	dev = NET_FIELD(direct, skb, dev);
	flags = NET_FIELD(direct, dev, flags);
	/* Sent through the bond or the bridge above it, and counted there. */
	if (flags & NET_IFF_SLAVE || is_bridge_port(dev, direct))
		return 0;
	loopback = flags & NET_IFF_LOOPBACK;
	net = NET_FIELD(direct, dev, nd_net.net);
	head = NET_FIELD(direct, skb, head);
	data = NET_FIELD(direct, skb, data);
	offset = NET_FIELD(direct, skb, network_header);
	length = NET_FIELD(direct, skb, len);
	linear = length - NET_FIELD(direct, skb, data_len);
	skip = offset - (__u32)(data - head); /* the link header in front */
	if (skip > linear) {
		loss_add(&net_losses, NET_LOSS_HEADER, 1);
		count_class(NET_CLASS_OVERFLOW, true, length, 1);
		return 0;
	}
	from = find_sender(skb, net, direct);
	if (!wire_length && from.tcp && !from.learnable) {
		/* The common case needs no byte of the packet. */
		bytes = length - skip;
		packets = 1;
		net_length_netd(length - skip, ethertype == NET_ETH_P_IPV6, &bytes, &packets);
		goto count;
	}
	packet.netns = NET_FIELD(direct, net, ns.inum);
	if (ethertype == NET_ETH_P_IP)
		parsed = net_parse4(&packet, head + offset, linear - skip, length - skip, true);
	else
		parsed = net_parse6(&packet, head + offset, linear - skip, length - skip, true);
	/* Without headers (a packet socket can put all in page fragments) the sender is known all
	 * the same; only the flow is not. */
	if (!parsed) {
		packet.length = length - skip;
		packet.headers = 0;
		packet.has_ports = false;
	}
	if (from.learnable && packet.has_ports && !loopback) {
		if (ethertype == NET_ETH_P_IP) {
			struct net_flow4 key;

			fill_key4(&key, &packet, true);
			learn(&flows4, &waiting4, &key, from.owner, NULL);
		} else {
			struct net_flow6 key;

			fill_key6(&key, &packet, true);
			learn(&flows6, &waiting6, &key, from.owner, NULL);
		}
	}
	if (parsed && !wire_length && !whole_datagram(&packet))
		return 0;
	measure(skb, head, &packet, loopback, direct, &bytes, &packets);
count:
	if (loopback)
		count_class(NET_CLASS_LOOPBACK, true, bytes, packets);
	else if (from.forwarded)
		count_class(NET_CLASS_FORWARDED, true, bytes, packets);
	else
		count_owner(from.owner, true, bytes, packets);
	return 0;
}

/* Rare beside packets, and half of the fields lie in struct inet_sock: probe reads in both twins.
 * At CLOSE skc_num is 0 already; inet_sport is not. While a socket connects or is cloned for an
 * accept, one of its ports may still be 0: then its first packet or ESTABLISHED tells. */
static __always_inline int state_changed(const struct sock *sk, int new_state)
{
	const struct sock *unaccepted = NULL;
	struct in6_addr mapped;
	__u16 local_port, remote_port, family;
	__u32 netns;
	__u64 owner;

	if (new_state != TCP_ESTABLISHED && new_state != TCP_SYN_SENT &&
	    new_state != TCP_SYN_RECV && new_state != TCP_CLOSE)
		return 0;
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	local_port = BPF_CORE_READ((const struct inet_sock *)sk, inet_sport);
	remote_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	if (!local_port || !remote_port)
		return 0;
	netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock))
		owner = NET_OWNER(NET_OWNER_KERNEL, 0);
	else
		owner = NET_OWNER(NET_OWNER_UID, BPF_CORE_READ(sk, sk_uid.val));
	if (!BPF_CORE_READ(sk, sk_socket))
		unaccepted = sk;
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
			forget(&flows4, &waiting4, &key, owner);
		else
			learn(&flows4, &waiting4, &key, owner, unaccepted);
	} else if (family == NET_AF_INET6) {
		struct net_flow6 key = {.netns = netns,
					.local_port = local_port,
					.remote_port = remote_port,
					.protocol = IPPROTO_TCP};

		bpf_core_read(key.local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(key.remote, 16, &sk->__sk_common.skc_v6_daddr);
		if (new_state == TCP_CLOSE)
			forget(&flows6, &waiting6, &key, owner);
		else
			learn(&flows6, &waiting6, &key, owner, unaccepted);
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
	return state_changed(sk, new_state);
}

SEC("?raw_tp/inet_sock_set_state")
int BPF_PROG(state_raw, const struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, new_state);
}
