/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of a recording that can be compared with another one's, each as a quotient over time
 * of what its records have. */
#pragma once
#include "compare/series.h"
#include "jankscope/record.h"

enum compare_metric {
	COMPARE_TARGETS_CPU,
	COMPARE_TARGETS_RUNNABLE,
	COMPARE_BUSY,
	COMPARE_JANK,
	COMPARE_DROPPED,
	COMPARE_BLOCKS,
	COMPARE_BLOCKED,
	COMPARE_PSS,
	COMPARE_RSS,
	COMPARE_RX,
	COMPARE_TX,
	COMPARE_DISK_READ,
	COMPARE_DISK_WRITE,
	COMPARE_METRICS,
};

struct compare_metric_info {
	const char *name; /* with its unit, as it is printed */
	const char *key;  /* of a rule, with the same unit */
	double scale;     /* of a quotient to that unit */
	bool is_bad;      /* more of it is worse */
};
extern const struct compare_metric_info compare_metrics[COMPARE_METRICS];

/* One recording. Zero it before the first record; free with compare_run_free(). */
struct compare_run {
	struct series series[COMPARE_METRICS]; /* empty: the recording has no such figure */
	bool has_targets, has_blocks;
	/* The record of a block comes before that of the interval in which the block ended: what
	 * waits for that interval. */
	uint64_t blocks, blocked_ns;
};

/* Count a header, an interval or a block; others are nothing. 0, -ENOMEM. */
int compare_run_add(struct compare_run *run, const struct record *record);
void compare_run_free(struct compare_run *run);
