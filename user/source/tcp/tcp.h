/* SPDX-License-Identifier: BSD-2-Clause */
/* The TCP source: retransmits, round trips and connections that came to nothing, per uid, over all
 * network namespaces. Method: bpf/tcp.bpf.c. */
#pragma once
#include "jankscope/source.h"

struct tcp_options {
	const char *btf; /* file with the kernel's types, for a kernel without; or NULL */
	/* Tests only: a smaller map, so that its loss can be reached; 0: as in bpf/tcp.bpf.c. */
	uint32_t test_uids;
};

/* Options are copied; their strings must live as long as the source. NULL with errno ENOMEM. */
struct source *tcp_source_new(const struct tcp_options *options);
