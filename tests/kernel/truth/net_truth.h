/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

enum truth_formula { TRUTH_NETD = 0, TRUTH_WIRE = 1, TRUTH_FORMULAS = 2 };

struct truth_key {
	__u32 uid;
	__u32 formula;
	__u32 loopback;
	__u32 in_init; /* it came while a thread of process 1 was current: see hides_init() */
};

struct truth_bytes {
	__u64 rx_bytes, rx_packets, tx_bytes, tx_packets;
	/* of the packets: segments of handshakes */
	__u64 rx_syns, tx_syns, rx_synacks6, tx_synacks6;
};
