/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A packet may pass several devices on its way, and the tracepoints with each: which of them
 * counts, and which namespace it is for. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"
#include "net_socket.bpf.h"

#define NET_MACVLAN_CHAIN 8
#define NET_GOLDEN_RATIO  0x61C8864680B583EBull

/* What each packet asks of its device. */
struct device_view {
	__u32 flags, private_flags;
	__u32 ifindex; /* where interfaces are told apart */
	struct net *net;
};

#define DEVICE_AT(field) bpf_core_field_offset(struct net_device, field)

/* The flags lie side by side on 5.10, and nd_net 680 bytes behind them; since 6.8 all three and
 * ifindex lie in 272 bytes. What lies near comes with one probe read. */
static __always_inline bool view_device(struct net_device *dev, struct net_work *work,
					struct device_view *view, bool direct)
{
	__u32 from =
		DEVICE_AT(flags) < DEVICE_AT(priv_flags) ? DEVICE_AT(flags) : DEVICE_AT(priv_flags);
	__u32 end = DEVICE_AT(flags) < DEVICE_AT(priv_flags) ? DEVICE_AT(priv_flags) + 8
							     : DEVICE_AT(flags) + 4;
	const struct net_device *copy = (const void *)work->device - from;
	bool net_is_near =
		DEVICE_AT(nd_net) >= end && DEVICE_AT(nd_net) + 8 - from <= sizeof(work->device);

	if (direct || end - from > sizeof(work->device)) {
		view->flags = NET_FIELD(direct, dev, flags);
		view->private_flags = NET_BITFIELD(direct, dev, priv_flags);
		view->net = NET_FIELD(direct, dev, nd_net.net);
		if (by_interface)
			view->ifindex = (__u32)NET_FIELD(direct, dev, ifindex);
		return true;
	}
	if (net_is_near)
		end = DEVICE_AT(nd_net) + 8;
	if (bpf_probe_read_kernel(work->device, end - from, (const void *)dev + from))
		return false;
	view->flags = copy->flags;
	view->private_flags = BPF_CORE_READ_BITFIELD(copy, priv_flags);
	view->net = net_is_near ? copy->nd_net.net : BPF_CORE_READ(dev, nd_net.net);
	if (by_interface)
		view->ifindex = (__u32)(DEVICE_AT(ifindex) >= from && DEVICE_AT(ifindex) < end
						? copy->ifindex
						: BPF_CORE_READ(dev, ifindex));
	return true;
}

/* What is read of drivers/net/macvlan.c. Where macvlan is a module (Debian's arm64 kernels) or left
 * out (GKI), the kernel's vmlinux.h lacks it; libbpf looks for the types in loaded modules too. */
struct macvlan_port___read {
	struct hlist_head vlan_hash[1];
} __attribute__((preserve_access_index));

struct macvlan_dev___read {
	struct hlist_node hlist;
	struct net_device *dev;
} __attribute__((preserve_access_index));

/* The macvlan on top of `lower` that a frame is for: its rx handler gives the packet to it behind
 * the tracepoint (macvlan_handle_frame in drivers/net/macvlan.c, macvlan_eth_hash). NULL: none. */
static __noinline __u64 find_macvlan(const struct net_device *lower, __u64 mac)
{
	const struct macvlan_port___read *port;
	const struct macvlan_dev___read *vlan;
	__u64 node;
	int i;

	if (!bpf_core_type_exists(struct macvlan_port___read) ||
	    !bpf_core_type_exists(struct macvlan_dev___read))
		return 0;
	port = BPF_CORE_READ(lower, rx_handler_data);
	mac <<= 16;
	node = (__u64)BPF_CORE_READ(port, vlan_hash[0].first);
	node = (__u64)port + bpf_core_field_offset(struct macvlan_port___read, vlan_hash) +
	       (mac * NET_GOLDEN_RATIO >> 56) * sizeof(void *);
	if (bpf_probe_read_kernel(&node, sizeof(node), (const void *)node))
		return 0;
	for (i = 0; i < NET_MACVLAN_CHAIN && node; i++) {
		struct net_device *dev;
		__u64 own = 0;

		vlan = (const void *)(node -
				      bpf_core_field_offset(struct macvlan_dev___read, hlist));
		dev = BPF_CORE_READ(vlan, dev);
		bpf_probe_read_kernel(&own, 6, BPF_CORE_READ(dev, dev_addr));
		if (own << 16 == mac)
			return (__u64)dev;
		node = (__u64)BPF_CORE_READ(vlan, hlist.next);
	}
	return 0;
}

/* The link address at this offset of the link header: 0 is the receiver's, 6 the sender's. */
static __always_inline __u64 link_address(const struct sk_buff *skb, __u32 offset)
{
	__u64 mac = 0;

	bpf_probe_read_kernel(&mac, 6, (const void *)skb->head + skb->mac_header + offset);
	return mac;
}

/* Whether this is the one time that the received packet is counted, and for which namespace; that
 * is named here only where it is not the device's. */
static __always_inline bool receives(const struct sk_buff *skb, struct net_device *dev, __u32 type,
				     const struct device_view *view, struct net_packet *packet)
{
	__u32 flags = view->private_flags;

	/* A bridge shows a packet twice, on itself and on its port; it has its addresses itself.
	 * What it only passes from port to port never comes to the IP layer. */
	if (flags & NET_IFF_BRIDGE_PORT)
		return false;
	packet->dev = (__u64)dev;
	/* An ifb gives back what was redirected to it, and says that it came from there
	 * (ifb_ri_tasklet): the tracepoint was passed before. */
	if (bpf_core_field_exists(skb->tc_skip_classify) &&
	    BPF_CORE_READ_BITFIELD(skb, tc_skip_classify) && skb->skb_iif)
		return false;
	if (flags & NET_IFF_MACVLAN_PORT) {
		const struct net_device *above =
			(const void *)find_macvlan(dev, link_address(skb, 0));

		if (above) {
			struct net *net = BPF_CORE_READ(above, nd_net.net);

			packet->dev = (__u64)above;
			packet->net = (__u64)net;
			packet->netns = netns_name(net, false);
			return true;
		}
	}
	if (type == NET_PACKET_OTHERHOST)
		return false; /* a promiscuous device: ip_rcv drops it */
	packet->net = (__u64)view->net;
	return true;
}

static __always_inline bool is_ifb(struct net_device *dev)
{
	char kind[4] = {};

	bpf_probe_read_kernel_str(kind, sizeof(kind), BPF_CORE_READ(dev, rtnl_link_ops, kind));
	return kind[0] == 'i' && kind[1] == 'f' && kind[2] == 'b';
}

/* Whether a sent packet was or will be counted at another device. */
static __always_inline bool sent_above(const struct sk_buff *skb, struct net_device *dev,
				       const struct device_view *view)
{
	__u32 private_flags = view->private_flags;

	/* Sent through the bond, the bridge or the team above it. */
	if (view->flags & NET_IFF_SLAVE)
		return true;
	if (private_flags & (NET_IFF_BRIDGE_PORT | NET_IFF_TEAM_PORT))
		return true;
	/* Sent through a macvlan above it. */
	if (private_flags & NET_IFF_MACVLAN_PORT && find_macvlan(dev, link_address(skb, 6)))
		return true;
	/* Sent through a VLAN device above it, which leaves its tag to the driver. */
	if (bpf_core_field_exists(((struct sk_buff___before_6_2 *)0)->vlan_present)) {
		const struct sk_buff___before_6_2 *old = (const void *)skb;

		if (BPF_CORE_READ_BITFIELD(old, vlan_present))
			return true;
	} else if (bpf_core_field_exists(skb->vlan_all) && skb->vlan_all) {
		return true;
	}
	/* Redirected to an ifb by a filter at the qdisc: passed this tracepoint before or, coming
	 * back, passes it again (tcf_action_exec takes the mark of what came from a clsact filter).
	 */
	if (bpf_core_field_exists(skb->tc_skip_classify) &&
	    BPF_CORE_READ_BITFIELD(skb, tc_skip_classify))
		return true;
	return bpf_core_field_exists(skb->redirected) && BPF_CORE_READ_BITFIELD(skb, redirected) &&
	       is_ifb(dev);
}
