/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader's half of the flow tables: tells the kernel side whose existing connections are,
 * finds the owners of bytes that came before their flow was known, and sweeps what is idle. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "abi/net.h"
#include "jankscope/record.h"

struct net_flows;

struct net_flows_maps {
	int flows4, flows6, waiting4, waiting6;
	uint32_t flow_entries, waiting_entries;
};

/* Where received bytes go once it is known. */
enum net_bucket {
	NET_BUCKET_UID = 0,
	NET_BUCKET_FORWARDED = 1,
	NET_BUCKET_KERNEL = 2,
	NET_BUCKET_NO_SOCKET = 3,
	NET_BUCKET_UNKNOWN = 4, /* the namespace could not be asked */
};

/* uid counts for NET_BUCKET_UID only. 0, or a negative errno that ends the read. */
typedef int (*net_book_fn)(void *ctx, enum net_bucket bucket, uint32_t uid, uint64_t bytes,
			   uint64_t packets);

/* The descriptors stay the caller's. NULL with errno. */
struct net_flows *net_flows_new(const struct net_flows_maps *maps, net_book_fn book, void *ctx);
void net_flows_free(struct net_flows *flows);

/* Note the owners of all connected sockets of all namespaces; call it after the programs were
 * attached. 0 or a negative errno; what could not be read or noted is counted in lost. */
int net_flows_prime(struct net_flows *flows, uint32_t epoch, struct counter_list *lost);

/* Book what was received for unknown flows since the last call, to its owner where one can be
 * found now. Nothing is dumped when nothing waits. 0 or a negative errno. */
int net_flows_read(struct net_flows *flows, uint32_t epoch, struct counter_list *lost);

/* Forget flows whose sockets are gone (UDP has no tracepoint for that) and, where the namespace
 * cannot be asked, those without a packet for idle_epochs. 0 or a negative errno. */
int net_flows_sweep(struct net_flows *flows, uint32_t epoch, uint32_t idle_epochs);

/* A namespace with traffic could not be asked at the last read: learn from every packet. */
bool net_flows_are_blind(const struct net_flows *flows);
