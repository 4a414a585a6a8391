/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader's half of the flow tables: tells the kernel side whose existing connections are, and
 * finds the owners of bytes that came before their flow was known. It never waits: what it cannot
 * tell it asks for (net_asker.h), and books when the answer is there. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "abi/net.h"
#include "jankscope/record.h"

struct net_flows;
struct warden;

struct net_flows_maps {
	int flows4, flows6, waiting4, waiting6, localities, sections;
	int close_waiting;         /* the program */
	struct net_flow6 *closing; /* what it is about */
	int possible_cpus;
	uint32_t flow_entries, waiting_entries, locality_entries;
	bool by_cookie;               /* how the kernel side names namespaces */
	const uint32_t *waiting_made; /* the kernel side's count of entries of waiting4, waiting6 */
};

/* Where received bytes go once it is known. */
enum net_bucket {
	NET_BUCKET_UID = 0,
	NET_BUCKET_FORWARDED = 1,
	NET_BUCKET_KERNEL = 2,
	NET_BUCKET_NO_SOCKET = 3,
	NET_BUCKET_UNKNOWN = 4, /* the namespace could not be asked */
};

/* uid counts for NET_BUCKET_UID only; interface: its id, 0 where it is not known. 0, or a negative
 * errno that ends the read. */
typedef int (*net_book_fn)(void *ctx, enum net_bucket bucket, uint32_t uid, uint32_t interface,
			   uint64_t bytes, uint64_t packets);

/* Forks the process that dumps, and asks for all that is there: call it after the programs were
 * attached. The descriptors stay the caller's. NULL with errno. */
struct net_flows *net_flows_new(const struct net_flows_maps *maps, struct warden *warden,
				net_book_fn book, void *ctx);
void net_flows_free(struct net_flows *flows);

/* Book what was received for unknown flows and whose owner is known by now. final: no read
 * follows, so the last answer is waited for (200 ms at most) and what is still unknown is booked as
 * such. 0 or a negative errno. Counters: net_flow_map_full, net_namespace_unreadable,
 * net_unresolved_bytes (lost), net_pending_bytes (late), net_asker_replaced (repaired). */
int net_flows_read(struct net_flows *flows, uint32_t epoch, bool final,
		   struct counter_list *counters);

/* Look for flows to forget, once through the tables; again and again while they are crowded. */
void net_flows_begin_sweep(struct net_flows *flows);
/* Forget flows without a packet for idle_epochs, some of them at each call while a sweep is under
 * way, so that no call takes long. Forgetting loses no byte: what comes next is looked up again. 0
 * or a negative errno. */
int net_flows_sweep(struct net_flows *flows, uint32_t epoch, uint32_t idle_epochs);

/* A namespace with traffic could not be asked at the last read: learn from every packet. */
bool net_flows_are_blind(const struct net_flows *flows);
