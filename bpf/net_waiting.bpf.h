/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bytes that wait for their owner, and how an entry that is no longer needed leaves the map without
 * taking a byte along. A program that looked an entry up may add to it after the reader deleted it:
 * into memory that is free, or another flow's by then. So the reader closes an entry before, and
 * deletes it once each CPU was seen outside of the sections below: who enters one later finds it
 * closed, and takes the flow's other entry. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "abi/net.h"
#include "net_maps.bpf.h"
#include "net_packet.bpf.h"
#include "order.bpf.h"

/* One of each program and CPU, because a program may interrupt another one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NET_SECTIONS);
	__type(key, __u32);
	__type(value, struct net_section);
} sections SEC(".maps");

/* The keys that close_waiting() is about; of IPv4 in the first bytes of each. */
struct net_flow6 closing[NET_CLOSING];

/* Where a flow's entry is. turn: that byte of the key. */
struct waiting_place {
	void *map;
	const void *key;
	__u8 *turn;
	__u32 section;
};
#define PLACE(map, key, section) ((struct waiting_place){&(map), &(key), &(key).turn, section})

/* Nobody but the program itself may be interrupted by it, so its words stay its own: but not on
 * kernels that let a program interrupt itself, hence atomics. */
static __always_inline struct net_section *enter_section(__u32 which)
{
	struct net_section *section = bpf_map_lookup_elem(&sections, &which);

	if (section)
		fetch_add(&section->entered, 1);
	return section;
}

static __always_inline void leave_section(struct net_section *section)
{
	fetch_add(&section->left, 1);
}

static __always_inline bool is_closed(const struct net_waiting *waiting)
{
	return *(const volatile __u16 *)&waiting->closed;
}

/* The flow's open entry, or NULL: then the key names where one can be made, unless both entries are
 * closed. Within a section. */
static __always_inline struct net_waiting *find_waiting(struct waiting_place at, bool *both_closed)
{
	struct net_waiting *first, *other;

	*both_closed = false;
	*at.turn = 0;
	first = bpf_map_lookup_elem(at.map, at.key);
	if (first && !is_closed(first))
		return first;
	*at.turn = 1;
	other = bpf_map_lookup_elem(at.map, at.key);
	if (other && !is_closed(other))
		return other;
	if (!first)
		*at.turn = 0;
	else if (other)
		*both_closed = true;
	return NULL;
}

/* Constant offsets: an index would have to be bounded for the verifier's sake. */
static __always_inline struct net_waiting_part *current_part(struct net_waiting *waiting)
{
	if (waiting->current == NET_WAITING_LATE)
		return &waiting->part[NET_WAITING_LATE];
	if (waiting->current == NET_WAITING_AGAIN)
		return &waiting->part[NET_WAITING_AGAIN];
	return &waiting->part[NET_WAITING_FIRST];
}

/* A SYN: what the entry holds is of the last connection between these ports, or came after it. A
 * host takes a SYN only once that is over, so what has no owner by then met TIME_WAIT. */
static __always_inline void begin_connection(struct net_waiting *waiting)
{
	struct net_waiting_part *first = &waiting->part[NET_WAITING_FIRST];

	if (waiting->current == NET_WAITING_FIRST) {
		if (waiting->opening_bytes || !first->bytes)
			return;
		if (!first->owner)
			first->owner = NET_OWNER(NET_OWNER_NO_SOCKET, 0);
	}
	waiting->current = NET_WAITING_AGAIN;
}

/* The connection that the current part is about has an owner now. */
static __always_inline void claim(struct waiting_place at, __u64 owner)
{
	struct net_section *section = enter_section(at.section);
	struct net_waiting_part *part;
	struct net_waiting *waiting;
	bool closed;

	if (!section)
		return; /* cannot be: an array has its elements */
	waiting = find_waiting(at, &closed);
	if (waiting && waiting->current != NET_WAITING_LATE) {
		part = current_part(waiting);
		if (waiting->current == NET_WAITING_AGAIN && part->owner && part->owner != owner)
			loss_add(&net_losses, NET_LOSS_OWNER_MIXED, waiting->opening_bytes);
		else
			part->owner = owner;
	}
	leave_section(section);
	*at.turn = 0;
}

/* Its socket is gone; time_wait: and has left a TIME_WAIT, which owns nothing. */
static __always_inline void end_connection(struct waiting_place at, __u64 owner, bool time_wait)
{
	struct net_section *section = enter_section(at.section);
	struct net_waiting_part *part;
	struct net_waiting *waiting;
	bool closed;

	if (!section)
		return;
	waiting = find_waiting(at, &closed);
	if (waiting) {
		part = current_part(waiting);
		if (waiting->current != NET_WAITING_LATE && !part->owner)
			part->owner = owner;
		waiting->current = NET_WAITING_LATE;
		waiting->opening_bytes = 0;
		if (time_wait)
			waiting->part[NET_WAITING_LATE].owner = NET_OWNER(NET_OWNER_NO_SOCKET, 0);
	}
	leave_section(section);
	*at.turn = 0;
}

/* NULL: there is no room. Within a section. */
static __always_inline struct net_waiting *make_waiting(struct waiting_place at)
{
	struct net_waiting fresh = {}, *waiting;
	bool both_closed;

	waiting = find_waiting(at, &both_closed);
	if (waiting || both_closed)
		return waiting;
	/* Counted behind it, so that who sees the count finds the entry. */
	if (!bpf_map_update_elem(at.map, at.key, &fresh, BPF_NOEXIST))
		__sync_fetch_and_add(&waiting_made, 1);
	waiting = bpf_map_lookup_elem(at.map, at.key);
	return waiting && !is_closed(waiting) ? waiting : NULL;
}

/* Two CPUs that have the first packets of a flow at one moment, each by another interface, may
 * leave one of the two here. */
static __always_inline void note_interface(struct net_waiting_part *part, __u32 interface)
{
	if (!part->interface)
		part->interface = interface ?: NET_INTERFACE_SEVERAL;
	else if (part->interface != interface)
		part->interface = NET_INTERFACE_SEVERAL;
}

/* owner: what is known of it, or 0. */
static __always_inline void let_wait(struct waiting_place at, const struct net_packet *packet,
				     __u64 owner, __u64 bytes, __u64 packets)
{
	bool opens = packet->opens;
	struct net_section *section = enter_section(at.section);
	struct net_waiting *waiting = section ? make_waiting(at) : NULL;
	struct net_waiting_part *part;

	if (!waiting) {
		loss_add(&net_losses, NET_LOSS_WAITING_MAP_FULL, 1);
		count_class(NET_CLASS_OVERFLOW, false, bytes, packets);
		goto leave;
	}
	if (opens)
		begin_connection(waiting);
	if (opens || waiting->opening_bytes)
		waiting->opening_bytes += bytes;
	part = current_part(waiting);
	if (owner) {
		part = &waiting->part[NET_WAITING_FIRST];
		if (part->owner != owner && (part->owner || part->bytes))
			part = &waiting->part[NET_WAITING_LATE];
		if (!part->owner)
			part->owner = owner;
		else if (part->owner != owner)
			loss_add(&net_losses, NET_LOSS_OWNER_MIXED, bytes);
	}
	if (by_interface)
		note_interface(part, packet->interface);
	__sync_fetch_and_add(&part->packets, (__u32)packets);
	__sync_fetch_and_add(&part->bytes, bytes);
leave:
	if (section)
		leave_section(section);
	*at.turn = 0;
}
