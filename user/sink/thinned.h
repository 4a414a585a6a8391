/* SPDX-License-Identifier: BSD-2-Clause */
/* Series over the time of a recording in bounded memory: a row has one interval, then 2, 4 ... of
 * them, with the least, the greatest and the sum of each series, so that a peak of one interval in
 * three days is still there, and sums stay exact. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/json_buffer.h"

#define THINNED_ROWS 1200 /* at the most; half of them at the least once they were merged */

enum thinned_group {
	GROUP_CPU,
	GROUP_FRAMES,
	GROUP_LATE,
	GROUP_BLOCKS,
	GROUP_MEMORY,
	GROUP_NET,
	GROUP_POWER,
	GROUP_HEAT,
	GROUP_LOSSES,
	THINNED_GROUPS,
};

/* A sum is spread over the interval, and its least and greatest are amounts a second; a level is
 * read once. */
enum series_kind { SERIES_SUM, SERIES_LEVEL };

struct thinned;
struct series;

/* NULL with ENOMEM. */
struct thinned *thinned_new(void);
void thinned_free(struct thinned *thinned);
/* An interval begins; times are of the x axis. */
void thinned_begin(struct thinned *thinned, uint64_t begin_ns, uint64_t end_ns, uint64_t dur_ns);
/* The group was measured in this interval: a sum of it that nothing is added to was 0. */
void thinned_measured(struct thinned *thinned, enum thinned_group group);
/* Add to a series of the interval; it is made where it is not there. `limit`: so many series of
 * this group, kind and unit have a name of their own (0: any number): a name that comes to more
 * than the least of them takes its place. A sum that has no series, now or any more, is in the
 * group's series without a name. 0 or -ENOMEM. */
int thinned_add(struct thinned *thinned, enum thinned_group group, enum series_kind kind,
		const char *unit, const char *name, size_t limit, double value);
/* 0 or -ENOMEM. */
void thinned_end(struct thinned *thinned);
/* Add to the row that a time is in: of what is told later than its interval. */
int thinned_add_at(struct thinned *thinned, enum thinned_group group, const char *unit,
		   const char *name, uint64_t at_ns, double value);
/* "rows": [[begin, end, dur, intervals]...], "series": [...]; of sums at most so many of a group,
 * the rest in the one without a name. Times are in ms. */
void thinned_put(struct thinned *thinned, size_t shown, struct json_buffer *to);
