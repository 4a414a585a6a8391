/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What bpf/tcp.bpf.c and its reader share. Fixed width, no pointers, sizes asserted. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* The index into tcp_sums.counts. */
enum tcp_counter {
	TCP_RETRANSMITS = 0, /* segments, as tcpi_total_retrans counts them */
	TCP_CONNECTS = 1,    /* that this host began, and that were answered */
	TCP_ACCEPTS = 2,
	/* Connections that this host began and that came to nothing, by what connect() tells. */
	TCP_CONNECTS_REFUSED = 3,
	TCP_CONNECTS_TIMED_OUT = 4,
	TCP_CONNECTS_UNREACHABLE = 5,
	TCP_CONNECTS_OTHER = 6,    /* any other error */
	TCP_CONNECTS_GIVEN_UP = 7, /* none: the program closed the socket before */
	TCP_TIMEOUTS = 8,          /* connections that stood, and that nobody answered any more */
	TCP_RESETS_RECEIVED = 9,   /* of connections that stood */
	TCP_COUNTERS = 10,
};

/* Round trips in us, four buckets a power of two: 0 to 3 us have one each, the last one holds all
 * from 14.7 s on. */
#define TCP_RTT_BUCKETS 92

/* Of one uid on one CPU; all of it only grows (the buckets modulo 2^32). */
struct tcp_sums {
	__u64 counts[TCP_COUNTERS];
	__u64 rtt_us; /* the sum of what the buckets count */
	__u32 rtt_buckets[TCP_RTT_BUCKETS];
};

/* The index into `tcp_losses`. */
enum tcp_loss { TCP_LOSS_UID_MAP_FULL = 0, TCP_LOSS_COUNT = 1 };

_Static_assert(sizeof(struct tcp_sums) == 456, "tcp_sums");
