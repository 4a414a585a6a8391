/* SPDX-License-Identifier: BSD-2-Clause */
/* The network source: bytes and packets per uid at the IP layer, over all network namespaces.
 * Method: bpf/net.bpf.c, or netd's own pinned map. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "jankscope/source.h"

/* Automatic takes netd's map where there is one, else the first twin that loads. */
enum net_variant {
	NET_VARIANT_AUTO = 0,
	NET_VARIANT_TP_BTF = 1,
	NET_VARIANT_RAW_TP = 2,
	NET_VARIANT_NETD = 3,
};

struct net_options {
	enum net_variant variant;
	bool wire;         /* lengths by the packets' segments; false: by netd's formula */
	const char *btf;   /* file with the kernel's types, for a kernel without; or NULL */
	bool hooks_only;   /* netd's map is not looked for */
	const char *bpffs; /* where netd pins its map; NULL: /sys/fs/bpf */
	bool check;        /* count packets, and compare with netd's map */
	bool by_interface; /* bytes of each interface apart, which netd's map cannot tell */
	/* Flows of each family that are held at a time; 0: 16,384. Memory: bpf/net_maps.bpf.h. */
	uint32_t flows;
	/* Tests only: smaller maps, so that each loss can be reached; 0: as in bpf/net.bpf.c. */
	struct {
		uint32_t uids, flows, waiting;
	} test_entries;
};

/* Options are copied; their strings must live as long as the source. NULL with errno ENOMEM. */
struct source *net_source_new(const struct net_options *options);
