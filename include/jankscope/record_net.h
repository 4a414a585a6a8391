/* SPDX-License-Identifier: BSD-2-Clause */
/* What a record says of the network; a part of record.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct record_bytes {
	uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
};

/* Texts and rows belong to the source and live until its next sample. */
struct record_interface_net {
	const char *interface; /* its name; NULL: not known */
	uint32_t ifindex;      /* 0: which one it was is not known */
	uint64_t netns;        /* 0: the recorder's own namespace; else that one's number */
	struct record_bytes bytes;
};

struct record_uid_net {
	uid_t uid;
	const char *package;
	struct record_bytes bytes;
	bool netd_present;
	struct record_bytes netd;                /* what netd's own map has of the same time */
	struct record_interface_net *interfaces; /* where they were asked for: the sum is bytes */
	size_t interface_count;
};

struct record_net {
	bool present;
	struct record_uid_net *uids;
	size_t uid_count;
	struct record_bytes loopback, unattributed;
	/* parts of unattributed: forwarded, the kernel's own, no socket known */
	struct record_bytes forwarded, kernel, no_socket;
	bool netd_present; /* compared with netd's map: of all uids */
	struct record_bytes netd;
};

struct record_uid_tcp {
	uid_t uid;
	const char *package;
	uint64_t retransmits;
	uint64_t connects, accepts;
	struct {
		uint64_t refused, timed_out, unreachable, other, given_up;
	} failed;
	uint64_t timeouts, resets_received;
	uint64_t rtt_samples;
	struct opt_u64 rtt_mean_ns;
	const struct histogram *rtt_hist; /* in ns; NULL: none */
};

struct record_tcp {
	bool present;
	struct record_uid_tcp *uids;
	size_t uid_count;
};
