/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which interface a packet is counted for, where that was asked for: a number that stands in rows
 * and waiting parts. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct net_interface_key);
	__type(value, struct net_interface);
} interfaces SEC(".maps");

/* Of each CPU, because a number that is given once needs an add that fetches, or this. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} interface_ids SEC(".maps");
#define NET_CPU_BITS 13

/* Those that this CPU had packets of: found without a hash. */
#define NET_RECENT_INTERFACES 32 /* a power of two */
struct net_recent_interface {
	__u64 netns;
	__u32 ifindex, id;
	__u32 epoch; /* until the next read-out its name holds */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NET_RECENT_INTERFACES);
	__type(key, __u32);
	__type(value, struct net_recent_interface);
} recent_interfaces SEC(".maps");

static __always_inline __u32 next_interface_id(void)
{
	__u32 zero = 0, *last = bpf_map_lookup_elem(&interface_ids, &zero);

	return last ? (++*last << NET_CPU_BITS) + bpf_get_smp_processor_id() : 0;
}

/* 0: there is no room. */
static __noinline __u32 look_at_interface(const struct net_device *dev, __u32 ifindex, __u64 netns)
{
	struct net_interface_key key = {.netns = netns, .ifindex = ifindex};
	struct net_interface fresh = {}, *known = bpf_map_lookup_elem(&interfaces, &key);

	bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), dev->name);
	if (!known) {
		fresh.id = next_interface_id();
		bpf_map_update_elem(&interfaces, &key, &fresh, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&interfaces, &key);
		return known ? known->id : 0;
	}
	/* It was renamed, or deleted and made again under its number. */
	if (((__u64 *)known->name)[0] != ((__u64 *)fresh.name)[0] ||
	    ((__u64 *)known->name)[1] != ((__u64 *)fresh.name)[1])
		__builtin_memcpy(known->name, fresh.name, sizeof(fresh.name));
	return known->id;
}

static __always_inline __u32 interface_of(const struct net_device *dev, __u32 ifindex, __u64 netns)
{
	__u32 at = (ifindex + (__u32)(netns * 7)) & (NET_RECENT_INTERFACES - 1);
	struct net_recent_interface *recent = bpf_map_lookup_elem(&recent_interfaces, &at);

	if (!recent)
		return 0; /* cannot be: an array has its elements */
	if (recent->ifindex == ifindex && recent->netns == netns && recent->epoch == epoch)
		return recent->id;
	recent->id = look_at_interface(dev, ifindex, netns);
	recent->netns = netns;
	recent->ifindex = ifindex;
	recent->epoch = epoch;
	return recent->id;
}
