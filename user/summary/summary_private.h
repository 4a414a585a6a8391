/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the summary share. */
#pragma once
#include "summary/summary.h"

enum distribution {
	DISTRIBUTION_DUR,
	DISTRIBUTION_BUSY,
	DISTRIBUTION_SELF,
	DISTRIBUTION_BLOCK_WALL,
	DISTRIBUTION_MAX,
};

/* Blocks whose stacks are waited for: the newest ones. */
#define MAX_FOLLOWED 1024

struct summary {
	struct paths *paths;
	struct usage *usage;
	struct block_groups *groups;
	struct histogram *histograms[DISTRIBUTION_MAX];
	struct record_footer footer;
	struct record_distribution distributions[DISTRIBUTION_MAX];
	const struct loss_registry *registry;
	/* blocks_bare: without a stack although stacks were taken; a stack may follow. */
	uint64_t intervals, blocks, blocks_bare, exits, frames, records;
	double dur_ns;
	struct followed {
		uint64_t seq, wall_ns;
		bool waits, bare, ungrouped;
	} followed[MAX_FOLLOWED];
	size_t followed_next;
};

/* The total of that key path, 0 where there is none. */
double summary_get(const struct summary *summary, const char *key);
/* Set "lost_pct" and "lost_pct_of.*": a share for each whole that there is, 0 as well. */
int summary_set_shares(struct summary *summary);
