/* SPDX-License-Identifier: BSD-2-Clause */
/* Namespaces that nobody is in: how often they are looked for. */
#include <criterion/criterion.h>

#include "source/net/hidden.h"
#include "util/clock.h"

Test(net_hidden, rests_longer_each_time)
{
	struct net_hidden hidden = {0};
	uint64_t now_ns = 1000 * NSEC_PER_SEC, rest_ns = 2 * NSEC_PER_SEC;

	cr_expect_not(net_hidden_is(&hidden, 7, now_ns));
	net_hidden_note(&hidden, 7, false, now_ns);
	cr_expect_not(net_hidden_is(&hidden, 7, now_ns), "the first failure may be a race");
	for (int i = 0; i < 10; i++) {
		net_hidden_note(&hidden, 7, false, now_ns);
		cr_expect(net_hidden_is(&hidden, 7, now_ns + rest_ns - 1));
		cr_expect_not(net_hidden_is(&hidden, 7, now_ns + rest_ns));
		cr_expect_not(net_hidden_is(&hidden, 8, now_ns));
		now_ns += rest_ns;
		if (rest_ns < 64 * NSEC_PER_SEC)
			rest_ns *= 2;
	}
	net_hidden_note(&hidden, 7, true, now_ns);
	net_hidden_note(&hidden, 7, false, now_ns);
	cr_expect_not(net_hidden_is(&hidden, 7, now_ns), "it was found: all begins anew");
}

Test(net_hidden, found_ones_take_no_place)
{
	struct net_hidden hidden = {0};

	net_hidden_note(&hidden, 7, true, 1);
	for (unsigned i = 0; i < NET_HIDDEN; i++)
		cr_expect_eq(hidden.items[i].netns, 0);
}

Test(net_hidden, more_than_there_is_room_for)
{
	struct net_hidden hidden = {0};
	uint64_t now_ns = NSEC_PER_SEC;
	unsigned known = 0;

	for (uint64_t netns = 1; netns <= 10 * NET_HIDDEN; netns++) {
		net_hidden_note(&hidden, netns, false, now_ns + netns);
		net_hidden_note(&hidden, netns, false, now_ns + netns);
		cr_expect(net_hidden_is(&hidden, netns, now_ns + netns));
	}
	for (uint64_t netns = 1; netns <= 10 * NET_HIDDEN; netns++)
		known += net_hidden_is(&hidden, netns, now_ns + netns);
	cr_expect_eq(known, NET_HIDDEN);
}
