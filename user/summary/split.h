/* SPDX-License-Identifier: BSD-2-Clause */
/* What the targets used in the foreground and in the background. A process, or the uid of
 * processes, is in one of them for an interval when it was so at both of its ends; else the
 * interval counts as `mixed`, and as `unknown` where nobody could read its state. In bounded
 * memory. */
#pragma once
#include "jankscope/record.h"

struct split;

/* Distributions over processes and intervals, four of each: as enum split_state counts. */
enum split_value { SPLIT_RSS = 0, SPLIT_PSS = 4, SPLIT_VALUES = 8 };
enum split_state {
	SPLIT_FOREGROUND = 0,
	SPLIT_BACKGROUND = 1,
	SPLIT_MIXED = 2,
	SPLIT_UNKNOWN = 3,
	SPLIT_STATES = 4,
};

/* As the summary calls them. */
extern const char *const split_state_names[SPLIT_STATES];

struct cluster_sums;

/* Where the figures go. Each returns 0 or -ENOMEM. */
struct split_sink {
	void *ctx;
	/* Of the same summary, borrowed: which totals of clusters there are. */
	struct cluster_sums *clusters;
	/* A total: "foreground.cpu_ns". */
	int (*add)(void *ctx, const char *key, double value);
	/* A value of a distribution. */
	int (*add_value)(void *ctx, enum split_value which, uint64_t value);
	/* What is handed on from now on lasted from begin to end. */
	void (*select)(void *ctx, uint64_t begin_boot_ns, uint64_t end_boot_ns);
	/* Whether all bytes of that uid are the targets'. */
	bool (*is_target)(void *ctx, uid_t uid, const char *package);
};

/* The sink is copied. NULL with ENOMEM. */
struct split *split_new(const struct split_sink *sink);
void split_free(struct split *split);
/* An interval that began and ended then; nothing where it has no context. watches_blocks: a part
 * without any has none, and not an unknown number. 0 or -ENOMEM. */
int split_interval(struct split *split, const struct record_interval *interval,
		   uint64_t begin_boot_ns, uint64_t end_boot_ns, bool watches_blocks);
/* A block that is over: it is counted with the interval that it ended in, whose context says what
 * its process was. */
int split_block(struct split *split, const struct record_block *block);
/* A late frame, in the same way. It is told seconds later: one whose process changed meanwhile is
 * mixed. 0 or -ENOMEM. */
int split_jank(struct split *split, const struct record_jank *jank);
/* Blocks and late frames that no interval followed are of an unknown state. 0 or -ENOMEM. */
int split_finish(struct split *split);
