/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/hidden.h"

#include <stddef.h>

#include "util/clock.h"

#define FIRST_NS   (2 * NSEC_PER_SEC)
#define LONGEST_NS (64 * NSEC_PER_SEC)

bool net_hidden_is(const struct net_hidden *hidden, uint64_t netns, uint64_t now_ns)
{
	for (size_t i = 0; i < NET_HIDDEN; i++)
		if (hidden->items[i].netns == netns)
			return now_ns < hidden->items[i].until_ns;
	return false;
}

void net_hidden_note(struct net_hidden *hidden, uint64_t netns, bool found, uint64_t now_ns)
{
	struct net_hidden_item *place = &hidden->items[0];
	size_t i;

	for (i = 0; i < NET_HIDDEN && hidden->items[i].netns != netns; i++)
		if (!hidden->items[i].netns ||
		    (place->netns && hidden->items[i].until_ns < place->until_ns))
			place = &hidden->items[i];
	if (i < NET_HIDDEN)
		place = &hidden->items[i];
	if (found && place->netns == netns)
		*place = (struct net_hidden_item){0};
	if (found)
		return;
	if (place->netns != netns) {
		/* Who was to show the way may have ended at that moment. */
		*place = (struct net_hidden_item){.netns = netns, .until_ns = now_ns};
		return;
	}
	place->rest_ns = place->rest_ns ? 2 * place->rest_ns : FIRST_NS;
	if (place->rest_ns > LONGEST_NS)
		place->rest_ns = LONGEST_NS;
	place->until_ns = now_ns + place->rest_ns;
}
