/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of two sets of runs: which can be judged, and what they say one by one and together.
 * Pure. */
#pragma once
#include "compare/alike.h"
#include "compare/difference.h"
#include "compare/metrics.h"

struct compare_side {
	struct compare_run *runs;
	size_t count;
};

struct compare_figure {
	size_t runs[2];               /* that have it: old, new */
	struct difference difference; /* where both sides have it */
	const char *unjudged;         /* why it is not judged, in words; NULL: it is */
	/* It can be worse, and is so or better beyond what chance does among all that can
	 * (compare/family.h). */
	bool differs;
};

/* Judge all figures, in the order of enum compare_metric. 0, -ENOMEM. */
int compare_figures(const struct compare_side *old, const struct compare_side *new,
		    const struct alike *alike, struct compare_figure figures[COMPARE_METRICS]);
