/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the summary share. */
#pragma once
#include "compat/compat.h"
#include "summary/clusters.h"
#include "summary/scenes.h"
#include "summary/split.h"
#include "summary/summary.h"

struct histogram;

enum distribution {
	DISTRIBUTION_DUR,
	DISTRIBUTION_BUSY,
	DISTRIBUTION_SELF,
	DISTRIBUTION_BLOCK_WALL,
	DISTRIBUTION_AVAILABLE,
	DISTRIBUTION_TCP_RTT,
	DISTRIBUTION_TARGETS_RSS,
	DISTRIBUTION_TARGETS_PSS,
	DISTRIBUTION_HOTTEST,
	DISTRIBUTION_STARTUP_FRAME,
	DISTRIBUTION_STARTUP_IDLE,
	DISTRIBUTION_LAUNCH, /* and enum launch_kinds */
	DISTRIBUTION_LAUNCH_LAST = DISTRIBUTION_LAUNCH + 2,
	DISTRIBUTION_SPLIT, /* and enum split_value */
	DISTRIBUTION_SPLIT_LAST = DISTRIBUTION_SPLIT + SPLIT_VALUES - 1,
	DISTRIBUTION_MAX,
};

/* Of launches whose kind is known. */
enum launch_kinds { LAUNCH_COLD = 0, LAUNCH_WARM = 1, LAUNCH_HOT = 2 };

/* Blocks whose stacks are waited for: the newest ones. */
#define MAX_FOLLOWED 1024

/* Layers whose frames a second are followed for PerfDog's Drop(FPS). */
#define DROP_LAYERS 8

/* What the numbers of other tools need beside the totals. */
struct other_tools {
	uint64_t block_ns; /* of the header */
	uint64_t blocks, block_ms, block_thread_ms;
	bool thread_missing; /* of a block the CPU time is not known */
	struct drop_layer {
		pid_t pid;
		uint64_t name; /* hash */
		uint64_t shown;
		struct compat_drop_fps drop;
		/* The frames that were told last: when the first of them was on the screen, how
		 * many they are, and how long the layer was drawn meanwhile. */
		uint64_t first_boot_ns, frames;
		double drawn_ns;
	} layers[DROP_LAYERS];
	size_t layer_count;
	struct cluster_sums clusters;
};

struct summary {
	struct paths *paths;
	struct usage *usage;
	struct block_groups *groups, *late; /* late: of late frames */
	struct memory_runs *memory;
	struct disk_runs *disk;
	struct scenes *scenes;
	struct split *split;
	struct interface_sums *interfaces;
	uint64_t end_boot_ns; /* of the interval before; 0: there was none */
	struct histogram *histograms[DISTRIBUTION_MAX];
	struct record_footer footer;
	size_t last_total; /* of the footer's totals the one that was added to last */
	struct record_distribution distributions[DISTRIBUTION_MAX];
	const struct loss_registry *registry;
	/* blocks_bare: without a stack although stacks were taken; a stack may follow. */
	uint64_t intervals, blocks, blocks_bare, exits, frames, records;
	double dur_ns;
	bool judges_frames; /* each late frame has a record with its cause */
	bool watches_blocks;
	struct opt_i64 charge_uah; /* at the read-out before, where the battery was discharging */
	struct other_tools other_tools;
	struct followed {
		uint64_t seq, wall_ns;
		bool waits, bare, ungrouped;
	} followed[MAX_FOLLOWED];
	size_t followed_next;
};

/* Add to a total, or to a distribution, of the run and of the scenes that are selected. 0, -ENOMEM.
 */
int summary_add_to(struct summary *summary, const char *key, double value);
int summary_add_value(struct summary *summary, enum distribution which, uint64_t value);
/* Late frames by their stacks (late.c). 0, -ENOMEM. */
void summary_group_jank(struct summary *summary, const struct record_jank *jank);
int summary_set_late_paths(struct summary *summary);
/* The total of that key path; one that is new is 0. NULL with ENOMEM. */
double *summary_total(struct summary *summary, const char *key);
/* An event: a mark is a scene's begin or end, a start has its times (events.c). 0, -ENOMEM. */
int summary_add_event(struct summary *summary, const struct record *record);
/* The same of what histogram_each() told. */
int summary_add_bucket(struct summary *summary, enum distribution which, uint64_t low,
		       uint64_t high, uint64_t count);
/* A total that nothing was added to is 0 from now on. 0, -ENOMEM. */
int summary_ensure_total(struct summary *summary, const char *key);
/* A late frame, and that causes without one have 0 (janks.c). 0, -ENOMEM. */
int summary_add_jank(struct summary *summary, const struct record_jank *jank);
int summary_set_janks(struct summary *summary);
/* What happened until end_boot_ns (interval.c). 0, -ENOMEM. */
int summary_add_interval(struct summary *summary, const struct record_interval *interval,
			 uint64_t end_boot_ns);
/* The distribution of what a histogram has counted. */
struct record_distribution summary_describe(const struct histogram *histogram, const char *name);
/* The total of that key path, 0 where there is none. */
double summary_get(const struct summary *summary, const char *key);
/* For the numbers of other tools (other_tools.c). */
void summary_follow_frames(struct summary *summary, const struct record_interval *interval);
void summary_follow_block(struct summary *summary, const struct record_block *block);
/* Set the percentages (percentages.h) and the other numbers of "compat.*", each where what it needs
 * was measured. 0, -ENOMEM. */
int summary_set_percentages(struct summary *summary, struct opt_u64 targets_ns);
/* Set "lost_pct" and "lost_pct_of.*": a share for each whole that there is, 0 as well. */
int summary_set_shares(struct summary *summary);
