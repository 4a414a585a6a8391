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
	COMPARE_LATE,
	COMPARE_LATE_TIME,
	COMPARE_LATE_CAUSE, /* the first of JANK_CAUSES: how long frames were late by that cause */
	COMPARE_LATE_LAST = COMPARE_LATE_CAUSE + JANK_CAUSES - 1,
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
	bool has_targets, has_blocks, judges_frames;
	/* The record of a block comes before that of the interval in which the block ended: what
	 * waits for that interval. */
	uint64_t blocks, blocked_ns;
	/* Late frames are told some seconds after they were shown: what came since the last
	 * interval, and the time of that one. */
	struct compare_late {
		uint64_t frames, ns, by_cause_ns[JANK_CAUSES];
		uint64_t dur_ns; /* 0: there was no interval yet */
	} late;
	bool any_judged; /* a frame that was in time is one, too */
};

/* Count a header, an interval, a block or a late frame; others are nothing. 0, -ENOMEM. */
int compare_run_add(struct compare_run *run, const struct record *record);
/* No more records come; may be called again. 0, -ENOMEM. */
int compare_run_end(struct compare_run *run);
void compare_run_free(struct compare_run *run);
