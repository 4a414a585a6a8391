/* SPDX-License-Identifier: BSD-2-Clause */
/* What net_flows.c, net_resolve.c, net_prime.c, net_locality.c and net_sweep.c share; nobody else
 * includes it. */
#pragma once
#include <uthash.h>
#include "source/net/asker.h"
#include "source/net/flows.h"
#include "source/net/hidden.h"
#include "source/net/key.h"
#include "kernel/map_read.h"

/* What was read of one waiting entry so far. */
struct waiting_flow {
	struct flow_key key;
	struct net_waiting seen;
	uint64_t owner;  /* found by us and noted in the flow table; 0: none */
	bool forwarded;  /* as of the last time: its sockets need not be asked for */
	uint32_t active; /* epoch in which bytes last came */
	uint32_t read;   /* walk in which it was last seen in the map */
	bool closed;     /* nothing is added to it any more; in net_flows.closed */
	bool removed;    /* the map has it no more; what is not booked yet still waits here */
	/* Dumps of its namespace that broke off, one after the other; and when the last one did. */
	uint32_t failed, failed_at;
	/* Not booked yet, by part; and as much of it as was there when the dump was asked for. */
	uint64_t bytes[NET_WAITING_PARTS], packets[NET_WAITING_PARTS];
	uint64_t asked_bytes[NET_WAITING_PARTS], asked_packets[NET_WAITING_PARTS];
	struct waiting_flow *next_closed;
	UT_hash_handle hh;
};

struct net_flows {
	struct net_flows_maps maps;
	net_book_fn book;
	void *ctx;
	struct waiting_flow *waiting;
	struct waiting_flow *to_close, *closed; /* on their way out of the map */
	struct net_asker *asker;
	enum { ASKED_NOTHING, ASKED_PRIME, ASKED_WAITING, ASKED_PLACES } asked;
	struct net_diag heard; /* the answer about what waits, until it is used */
	bool has_heard;
	struct net_diag primed; /* what is still to be noted of the first dump */
	size_t primed_sockets, primed_addresses;
	struct map_walk walk4, walk6; /* where the sweep stands */
	bool sweeps4, sweeps6;        /* one is under way */
	uint64_t places_asked_ns;     /* when the local addresses were last asked for */
	struct net_hidden hidden;
	uint64_t replaced;     /* of the asker, as of the last read */
	uint64_t full;         /* owners that could not be noted, since the last read */
	uint64_t unresolved;   /* bytes that somebody may own and nobody can tell who, since then */
	uint32_t epoch, walks; /* of the waiting maps */
	uint32_t made;         /* waiting entries as of the last walk */
	uint64_t walked_ns;    /* when that was; 0: the next read walks */
	uint32_t flow_count4, flow_count6, counted4, counted6; /* of the last walk, of this one */
	bool blind;
	bool crowded; /* the waiting map is more than three quarters full */
};

/* Note whose a flow is; what the kernel side knows is better, and stays. 0 or a negative errno. */
int net_flows_note(struct net_flows *flows, const struct flow_key *key, uint64_t owner);

/* The owner is somebody, and not merely a guess or nobody. */
static inline bool net_is_settled(uint64_t owner)
{
	return owner >> 32 == NET_OWNER_UID || owner >> 32 == NET_OWNER_KERNEL ||
	       owner >> 32 == NET_OWNER_FORWARDED;
}

/* A packet may be read before its bytes. */
static inline bool net_part_waits(const struct waiting_flow *one, int part)
{
	return one->bytes[part] || one->packets[part];
}

static inline bool net_has_bytes(const struct waiting_flow *one)
{
	for (int i = 0; i < NET_WAITING_PARTS; i++)
		if (net_part_waits(one, i))
			return true;
	return false;
}

/* Whose a part is. What we found is about the first part only: a late segment of TCP meets
 * TIME_WAIT or, where the other side closed first, the listener; a second connection is another
 * socket. */
static inline uint64_t net_owner_of_part(const struct waiting_flow *one,
					 const struct net_waiting *now, int part)
{
	if (now->part[part].owner)
		return now->part[part].owner;
	return part == NET_WAITING_FIRST ? one->owner : 0;
}

/* By which interface all that waits there came; 0: by several, or that is not told apart. */
static inline uint32_t net_interface_of_part(const struct waiting_flow *one, int part)
{
	uint32_t interface = one->seen.part[part].interface;

	return interface == NET_INTERFACE_SEVERAL ? 0 : interface;
}

/* Without another word it may be somebody's: not so where no table has sockets of that protocol, or
 * the kernel side saw that no socket, or one of the kernel's, was there to take it. */
static inline bool net_may_be_owned(const struct waiting_flow *one, int part)
{
	uint64_t kind = net_owner_of_part(one, &one->seen, part) >> 32;

	return has_socket_table(one->key.flow.protocol) && kind != NET_OWNER_NO_SOCKET &&
	       kind != NET_OWNER_KERNEL_IF_LOCAL;
}

/* Forget it. */
void net_flows_drop(struct net_flows *flows, struct waiting_flow *one);

/* Book what came since the last read; what has no owner stays in one->bytes. 0 or a negative errno.
 */
int net_flows_account(struct net_flows *flows, struct waiting_flow *one,
		      const struct net_waiting *now);

/* ---- net_removal.c ---- */
/* Whether the kernel runs what closes entries: 0 or a negative errno. */
int net_removal_check(const struct net_flows *flows);
/* This entry is no longer needed. */
void net_removal_add(struct net_flows *flows, struct waiting_flow *one);
/* Take what was added, and what waits for it since the last time, out of the maps; with what came
 * meanwhile. What a program may still be adding to stays for the next time. 0 or a negative errno.
 */
int net_removal_go_on(struct net_flows *flows);

/* ---- net_resolve.c ---- */
/* Ask about what waits, unless an answer is due. What waits in a hidden namespace is booked without
 * a question. 0 or a negative errno. */
int net_resolve_ask(struct net_flows *flows);
/* Book what was asked about. 0 or a negative errno. */
int net_resolve_answer(struct net_flows *flows, const struct net_diag *diag,
		       struct counter_list *counters);

/* ---- net_prime.c ---- */
/* Ask for everything; and note a part of the answer, at most for 5 ms. */
int net_prime_ask(struct net_flows *flows);
int net_prime_go_on(struct net_flows *flows);

/* ---- net_locality.c ---- */
void net_locality_note(const struct net_flows *flows, uint64_t netns, bool ipv6,
		       const uint32_t address[4], bool local);
/* Ask for the local addresses of the namespaces of which some are noted, from time to time; and
 * correct what is noted by the answer. 0 or a negative errno. */
int net_locality_ask(struct net_flows *flows);
int net_locality_check(struct net_flows *flows, const struct net_diag *diag);
