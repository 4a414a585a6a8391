/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of the network programs, and the sums.
 *
 * Memory (preallocated hashes; an element has 48 bytes of header): N flows of each family take
 * N * (48 + 24 + 40 + 48 + 48 + 40) bytes, W waiting entries W * (48 + 24 + 80 + 48 + 48 + 80), and
 * a hash 16 bytes for each bucket, the next power of two. W is N / 16 and at least 8,192. That is
 * 8.0 MiB for 16,384 flows (the default) and 31.9 MiB for 100,000; since 6.1 a flow takes its part
 * when it is there. A waiting entry is taken by each incoming connection until the next read-out.
 */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "loss.bpf.h"

/* Counts read-outs: tells the reader which flows are idle, and each flow when to look again. */
__u32 epoch;
/* Entries of waiting4 and waiting6 that were made so far: where none came since the last read-out,
 * the reader knows all that there are, and need not walk the tables. */
__u32 waiting_made;

const volatile bool wire_length; /* false: netd's formula */

/* Bytes of each interface apart. */
const volatile bool by_interface;
/* Rows of the map `uids` that interfaces may take; where they are taken an interface is not told.
 */
const volatile __u32 interface_places;
__u32 interface_rows;

/* Places of `rows` that are used; a power of two. */
const volatile __u32 row_places = NET_ROWS;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* by enum net_way */
	__type(key, __u32);
	__type(value, struct net_rows);
} rows SEC(".maps");

/* Whom the rows have no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, __u64); /* as struct net_row.owner */
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
	__uint(max_entries, 16384);
	__type(key, struct net_flow4);
	__type(value, struct net_flow_owner);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct net_flow6);
	__type(value, struct net_flow_owner);
} flows6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct net_flow4);
	__type(value, struct net_waiting);
} waiting4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct net_flow6);
	__type(value, struct net_waiting);
} waiting6 SEC(".maps");

/* A datagram that comes in pieces, until it is whole. */
#define NET_PIECES 48 /* of one datagram; 65,535 bytes in frames of 1,500 are 45 */
struct net_pieces {
	__u64 begun_ns;
	__u32 total; /* bytes behind the headers that are in each piece; 0: the last has not come */
	__u32 got;
	__u32 ports;   /* of the first piece, as are: */
	__u32 headers; /* bytes, and */
	__u8 protocol;
	bool has_first, has_ports;
	__u8 count;
	__u16 from[NET_PIECES]; /* where the pieces begin, in units of 8 bytes */
	__u32 reserved;
};

/* Of what is not whole nothing is counted: what is pushed out of here is as if it never became so.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct net_fragment);
	__type(value, struct net_pieces);
} fragments SEC(".maps");

/* A cache that holds no sums, so it may forget. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct net_address);
	__type(value, __u32);
} localities SEC(".maps");

DEFINE_LOSSES(net_losses, NET_LOSS_COUNT);

/* Both directions run with bottom halves off, so a CPU's slot has one writer at a time. Packets go
 * first, here and in what waits: the reader, which copies from the begin of a struct, then has none
 * of a packet's bytes without the packet. */
static __always_inline void add_pair(__u64 *to_bytes, __u64 *to_packets, __u64 bytes, __u64 packets)
{
	*to_packets += packets;
	asm volatile("" : : : "memory");
	*to_bytes += bytes;
}

static __always_inline void add_bytes(struct net_bytes *sums, bool transmit, __u64 bytes,
				      __u64 packets)
{
	if (transmit)
		add_pair(&sums->tx_bytes, &sums->tx_packets, bytes, packets);
	else
		add_pair(&sums->rx_bytes, &sums->rx_packets, bytes, packets);
}

static __always_inline void count_class(__u32 class, bool transmit, __u64 bytes, __u64 packets)
{
	struct net_bytes *sums = bpf_map_lookup_elem(&classes, &class);

	if (sums)
		add_bytes(sums, transmit, bytes, packets);
}

/* False: the place is another owner's. */
static __always_inline bool add_to_row(struct net_row *row, __u64 owner, __u64 bytes, __u64 packets)
{
	if (row->owner != owner) {
		if (row->owner)
			return false;
		row->owner = owner;
	}
	add_pair(&row->bytes, &row->packets, bytes, packets);
	return true;
}

/* The row of an owner that `rows` has no place for; NULL: there is no room. */
static __always_inline struct net_bytes *find_uid(__u64 owner)
{
	struct net_bytes *sums = bpf_map_lookup_elem(&uids, &owner), zero = {};

	if (sums)
		return sums;
	bpf_map_update_elem(&uids, &owner, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&uids, &owner);
}

static __always_inline struct net_bytes *find_uid_and_interface(__u64 owner)
{
	struct net_bytes *sums = bpf_map_lookup_elem(&uids, &owner);

	if (sums)
		return sums;
	if (interface_rows < interface_places) {
		interface_rows++; /* without a lock: one more or less does not matter */
		sums = find_uid(owner);
	}
	return sums ?: find_uid(NET_ROW_OF(0, (__u32)owner));
}

/* interface: where it is by the time of the call; not read unless interfaces are told apart. */
static __always_inline void count_uid(__u32 uid, const __u32 *interface, bool transmit, __u64 bytes,
				      __u64 packets)
{
	__u32 way = transmit ? NET_SENT : NET_RECEIVED, place = uid * 0x9e3779b1u >> 16;
	struct net_rows *table = bpf_map_lookup_elem(&rows, &way);
	__u64 owner = NET_ROW_OF(0, uid);
	struct net_bytes *sums;

	if (!table)
		return; /* cannot be: an array has its elements */
	if (by_interface) {
		owner = NET_ROW_OF(*interface, uid);
		place += *interface;
	}
	if (add_to_row(&table->row[place & (row_places - 1) & (NET_ROWS - 1)], owner, bytes,
		       packets) ||
	    add_to_row(&table->row[(place + 1) & (row_places - 1) & (NET_ROWS - 1)], owner, bytes,
		       packets))
		return;
	sums = by_interface ? find_uid_and_interface(owner) : find_uid(owner);
	if (!sums) {
		loss_add(&net_losses, NET_LOSS_UID_MAP_FULL, 1);
		count_class(NET_CLASS_OVERFLOW, transmit, bytes, packets);
		return;
	}
	add_bytes(sums, transmit, bytes, packets);
}

static __always_inline void count_owner(__u64 owner, const __u32 *interface, bool transmit,
					__u64 bytes, __u64 packets)
{
	if (owner >> 32 == NET_OWNER_KERNEL)
		count_class(NET_CLASS_KERNEL, transmit, bytes, packets);
	else if (owner >> 32 == NET_OWNER_FORWARDED)
		count_class(NET_CLASS_FORWARDED, transmit, bytes, packets);
	else
		count_uid((__u32)owner, interface, transmit, bytes, packets);
}
