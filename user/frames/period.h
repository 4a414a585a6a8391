/* SPDX-License-Identifier: BSD-2-Clause */
/* The refresh period out of predicted presents, which lie on the vsync grid even when actual ones
 * do not. A render rate that divides the panel's shows as the render rate:
 * that is the unit in which frames are dropped. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERIOD_ASSUMED_NS  16666667
#define PERIOD_SHORTEST_NS 3500000       /* differences below are two displays, not one period */
#define PERIOD_LONGEST_NS  10000000000LL /* and above a gap, not a rate */
/* A window of one second holds no more differences than this. */
#define PERIOD_WINDOW_MAX 300

/* Sort times and drop the doubles. Returns how many are left. */
size_t period_sort(int64_t *times_ns, size_t count);

/* The period of sorted distinct times; 0 where no difference is long enough. */
int64_t period_global(const int64_t *times_ns, size_t count);

/* Numbers in ascending order. */
struct period_sorted {
	double values[PERIOD_WINDOW_MAX];
	size_t count;
};

/* The period around one time after the other, half a second to each side. */
struct period_window {
	const int64_t *times_ns;
	size_t count, low, high; /* times[low, high) lie in the window */
	int64_t global_ns, cached_ns;
	size_t difference_count; /* of those between times in the window that are long enough */
	/* Each difference divided by how many periods it is. That number is the same for every
	 * shortest difference between these two limits, so that a step of the window changes one
	 * value in and one out. */
	struct period_sorted periods;
	double shortest, above, below; /* shortest 0: none of this is filled in */
	bool moved;                    /* the limits are new; the next two are to be counted */
	size_t not_above, under;       /* differences <= above, and < below */
};

void period_window_init(struct period_window *window, const int64_t *times_ns, size_t count,
			int64_t global_ns);
/* Tells cheaply that the period near a time is still about what it was: that takes counting, not a
 * median. */
struct period_steady {
	const int64_t *times_ns;
	size_t count, low, high;        /* as in the window above */
	double period_ns;               /* 0: not known yet */
	size_t ones, multiples, others; /* differences of one such period, of 2 to 8, of neither */
};

void period_steady_init(struct period_steady *steady, const int64_t *times_ns, size_t count);
/* True: period_at would say the same as period_ns to within 4 %. False says nothing. Times must not
 * decrease from call to call. */
bool period_is_steady(struct period_steady *steady, int64_t time_ns, int64_t period_ns);

/* The period at a time; times must not decrease from call to call (else the window starts over).
 * The global period where fewer than four differences are near. */
int64_t period_at(struct period_window *window, int64_t time_ns);
