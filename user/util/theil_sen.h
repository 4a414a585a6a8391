/* SPDX-License-Identifier: BSD-2-Clause */
/* The slope of a series by Theil and Sen: the median of the slopes of all pairs of points. A third
 * of the points may lie anywhere without moving it far, as a process's memory does that grows while
 * a page is open and falls back.
 * P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct theil_sen_point {
	double x, y;
};

struct theil_sen {
	double slope;
	/* The 95 % interval: Sen's, between the slopes of two ranks. Which ranks these are follows
	 * from how Kendall's S is distributed where there is no slope: exactly for up to
	 * THEIL_SEN_EXACT points, by the normal distribution beyond. It holds where the errors of
	 * the points are independent of each other; equal values make it wider than need be. Less
	 * than 5 points have no interval. */
	bool has_interval;
	double low, high;
};

#define THEIL_SEN_EXACT 64

/* Points of equal x make no pair. 0, -ENOMEM, or -ENODATA: there is no pair. Takes count^2 / 2
 * numbers of memory and their sorting. */
int theil_sen(const struct theil_sen_point *points, size_t count, struct theil_sen *result);
