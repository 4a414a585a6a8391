/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether two sets of measurements differ by more than chance. Pure.
 *
 * The samples of a side are runs, or blocks of neighbouring intervals of one run: batch means,
 * whose neighbours hardly depend on each other where a batch is much longer than the memory of what
 * is measured (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", 1982). The
 * interval is a symmetric bootstrap-t (Hall, "On Symmetric Bootstrap Confidence Intervals", 1988):
 * 1,999 resamples of each side, by a fixed seed. With fewer than DIFFERENCE_FEW samples on a side
 * it is Welch's t instead, because so few can hardly be resampled. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "compare/series.h"

#define DIFFERENCE_FEW    5
#define DIFFERENCE_BLOCKS 32 /* of one run, the most */
#define DIFFERENCE_LEAST  3  /* samples of a side */

enum difference_verdict {
	DIFFERENCE_NONE, /* zero is in the interval */
	DIFFERENCE_MORE, /* new is more */
	DIFFERENCE_LESS,
	DIFFERENCE_TOO_SHORT, /* fewer than DIFFERENCE_LEAST samples on a side */
	DIFFERENCE_SAME,      /* no sample differs from another: nothing to be told by */
	DIFFERENCE_DRIFTS,    /* blocks depend on their neighbours: the run has a trend */
};

struct difference {
	double old, new, difference; /* new - old */
	double low, high;            /* 95 % interval of the difference */
	double detectable; /* a difference of that size would show in 8 of 10 such pairs */
	double chance;     /* how often chance alone parts the sides so far; NAN: not judged */
	enum difference_verdict verdict;
};

/* Samples of a side; a sample counts by what is under it. */
struct difference_side {
	const struct series_cell *samples;
	size_t count;
};

/* By samples that do not depend on each other: runs. 0, -ENOMEM. */
int difference_of_samples(const struct difference_side *old, const struct difference_side *new,
			  struct difference *difference);
/* By blocks of one run each: DIFFERENCE_BLOCKS, or half or a quarter as many where blocks depend on
 * their neighbours. 0, -ENOMEM. */
int difference_of_series(const struct series *old, const struct series *new,
			 struct difference *difference);
