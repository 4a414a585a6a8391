/* SPDX-License-Identifier: BSD-2-Clause */
/* Network namespaces that nobody can be found in: an open descriptor alone keeps them, or they have
 * ended. Each look for one reads all of /proc, so it is looked for less and less often. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define NET_HIDDEN 16 /* beyond them the one that is looked for soonest is forgotten */

/* Zeroed: none. */
struct net_hidden {
	struct net_hidden_item {
		uint64_t netns; /* 0: a free place */
		uint64_t until_ns, rest_ns;
	} items[NET_HIDDEN];
};

/* Whether this namespace is not to be looked for at now_ns (CLOCK_MONOTONIC). */
bool net_hidden_is(const struct net_hidden *hidden, uint64_t netns, uint64_t now_ns);
/* It was looked for: found or not. It rests from the second failure in a row on, for 2 s, and twice
 * as long each time, up to 64 s. */
void net_hidden_note(struct net_hidden *hidden, uint64_t netns, bool found, uint64_t now_ns);
