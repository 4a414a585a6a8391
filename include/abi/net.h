/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What bpf/net.bpf.c and its reader share. Fixed width, no pointers, padded by hand, sizes
 * asserted. Addresses and ports are in network byte order, as they stand in the packet. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

struct net_bytes {
	__u64 rx_bytes, rx_packets, tx_bytes, tx_packets;
};

/* Sums of one CPU in one direction, for the owners that came first: found without a search. A row
 * is its owner's for good and only grows; who finds both of its places taken is summed in `uids`.
 */
#define NET_ROWS 64
struct net_rows {
	struct net_row {
		__u64 owner; /* NET_ROW_OF(interface, uid); 0: nobody's yet */
		__u64 bytes, packets;
	} row[NET_ROWS];
};
/* interface: 0 where interfaces are not told apart, or it is not known which one it was. */
#define NET_ROW_OF(interface, uid) NET_OWNER(NET_OWNER_UID + (interface), uid)
#define NET_ROW_INTERFACE(owner)   ((__u32)((owner) >> 32) - NET_OWNER_UID)
enum net_way { NET_RECEIVED = 0, NET_SENT = 1 };

/* Bytes without an owner that the kernel side can name at once; the index into `classes`. */
enum net_class {
	NET_CLASS_LOOPBACK = 0,
	NET_CLASS_FORWARDED = 1, /* sent on, by the packet's way in or by its foreign socket */
	NET_CLASS_KERNEL = 2,    /* sent by the kernel itself, or by a socket that it opened */
	NET_CLASS_OVERFLOW =
		3, /* no room in a map, or headers out of reach; also counted as lost */
	NET_CLASS_COUNT = 4,
};

/* The index into `net_losses`. */
enum net_loss {
	NET_LOSS_UID_MAP_FULL = 0,
	NET_LOSS_FLOW_MAP_FULL = 1, /* an owner was not noted; the flow is resolved at read-out */
	NET_LOSS_WAITING_MAP_FULL = 2, /* packets whose bytes could not wait for their owner */
	NET_LOSS_HEADER = 3,           /* packets whose IP header lies outside the linear part */
	NET_LOSS_OWNER_MIXED = 4,      /* bytes of one owner too many of one flow in one interval */
	NET_LOSS_COUNT = 5,
};

/* One direction of a conversation as the local end sees it. protocol is the IP protocol; an ICMP
 * echo has its identifier as local_port; what has no ports has zeros. netns names the network
 * namespace and is never used twice: the namespace's cookie (SO_NETNS_COOKIE, e8b9eab99232, 5.14)
 * or, on a kernel without, its inode number with the namespace's random hash_mix above it. turn: a
 * flow may have two waiting entries, 0 and 1, while one of them is closed. */
struct net_flow4 {
	__u64 netns;
	__u32 local, remote;
	__u16 local_port, remote_port;
	__u8 protocol;
	__u8 turn;
	__u8 reserved[2];
};

struct net_flow6 {
	__u64 netns;
	__u32 local[4], remote[4];
	__u16 local_port, remote_port;
	__u8 protocol;
	__u8 turn;
	__u8 reserved[2];
};

/* Whose a flow is: kind in the upper half, uid in the lower, so that one store changes both.
 * NET_OWNER_IF_LOCAL: a socket bound to no address takes the packet, provided that its destination
 * is one of the host's, and NET_OWNER_KERNEL_IF_LOCAL: a socket of the kernel's;
 * NET_OWNER_NO_SOCKET: no socket took it, as was seen when it came. */
enum net_owner_kind {
	NET_OWNER_NONE = 0,
	NET_OWNER_UID = 1,
	NET_OWNER_KERNEL = 2,
	NET_OWNER_FORWARDED = 3, /* answers to a connection that this host masquerades */
	NET_OWNER_IF_LOCAL = 4,
	NET_OWNER_NO_SOCKET = 5,
	NET_OWNER_KERNEL_IF_LOCAL = 6,
};
#define NET_OWNER(kind, uid) ((__u64)(kind) << 32 | (__u32)(uid))

struct net_flow_owner {
	__u64 owner; /* counts where sock is 0 */
	/* Kernel address of the socket. Its uid is read at each packet: accept() and fchown()
	 * change it and no tracepoint tells. Only read through a fault-proof probe. */
	__u64 sock;
	/* UDP: the hash bucket in which the socket was found, and how it began then. While that is
	 * unchanged the socket is in it. */
	__u64 bucket, first;
	__u32 bucket_count;
	__u32 epoch; /* of the last packet */
};

/* An address as the destination of a packet: is it the namespace's own? The reader knows. */
struct net_address {
	__u64 netns;
	__u32 address[4];
	__u32 ipv6;
	__u32 reserved;
};
enum net_locality { NET_LOCAL = 1, NET_FOREIGN = 2 };

/* The parts of a waiting entry. A CLOSE of a TCP socket moves on to the second part, so that a late
 * segment is not blamed on the socket that went; a SYN after it moves on to the third one, so that
 * the next connection between the same ports answers neither for the first one nor for what came
 * late. UDP: the first two parts are of one owner each. */
enum net_waiting_at {
	NET_WAITING_FIRST = 0,
	NET_WAITING_LATE = 1,
	NET_WAITING_AGAIN = 2,
	NET_WAITING_PARTS = 3,
};

/* Bytes received before their owner was known. Only the kernel side writes, and the counters never
 * go back. */
struct net_waiting {
	struct net_waiting_part {
		__u64 bytes;
		__u32 packets;   /* modulo 2^32 */
		__u32 interface; /* by which they came; 0: none yet, or not told apart */
		__u64 owner;
	} part[NET_WAITING_PARTS];
	__u16 current; /* enum net_waiting_at: where bytes are added */
	__u16 closed;  /* set at the reader's word, for good: nothing more is added
			  (net_waiting.bpf.h) */
	/* Of the last SYN and what followed it; 0: the entry has seen none, so that what is in its
	 * first part came late, or belongs to a connection older than jankscope. */
	__u32 opening_bytes;
};

/* Where a program uses waiting entries: equal numbers at one time mean that it does not just then.
 * A program that began later sees what the reader closed before. */
enum net_in { NET_IN_RECEIVE = 0, NET_IN_TRANSMIT = 1, NET_IN_STATE = 2, NET_SECTIONS = 3 };
struct net_section {
	__u64 entered, left;
};
#define NET_CLOSING 128 /* entries that are closed at a time */

/* An interface is named by its number in its namespace, which is not given twice. */
struct net_interface_key {
	__u64 netns; /* as in struct net_flow4 */
	__u32 ifindex;
	__u32 reserved;
};

struct net_interface {
	__u32 id; /* in rows and waiting parts; not 0 and not NET_INTERFACE_SEVERAL */
	__u32 reserved;
	char name[16]; /* as it was at the first packet since the last read-out that had one */
};
#define NET_INTERFACE_SEVERAL 0x7fffffffu /* of a waiting part */

/* A datagram that comes in fragments; protocol: of IPv4 only. */
struct net_fragment {
	__u64 netns;
	__u32 local[4], remote[4];
	__u32 id;
	__u8 protocol;
	__u8 reserved[3];
};

_Static_assert(sizeof(struct net_bytes) == 32, "net_bytes");
_Static_assert(sizeof(struct net_rows) == 24 * NET_ROWS, "net_rows");
_Static_assert(sizeof(struct net_flow4) == 24, "net_flow4");
_Static_assert(sizeof(struct net_flow6) == 48, "net_flow6");
_Static_assert(sizeof(struct net_flow_owner) == 40, "net_flow_owner");
_Static_assert(sizeof(struct net_address) == 32, "net_address");
_Static_assert(sizeof(struct net_section) == 16, "net_section");
_Static_assert(sizeof(struct net_waiting) == 80, "net_waiting");
_Static_assert(sizeof(struct net_fragment) == 48, "net_fragment");
_Static_assert(sizeof(struct net_interface_key) == 16, "net_interface_key");
_Static_assert(sizeof(struct net_interface) == 24, "net_interface");
