/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of who used what while a run goes on, a bounded number of them: the heaviest names of
 * late have a series each, all others are one. No series of a name ever shrinks, and neither does
 * the rest: a name that gets a series begins at 0, and what it had used before stays in the rest. A
 * scraper takes the difference of two readings, and takes one that shrinks for a restart. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sink/openmetrics_page.h"

#define SERIES_LABELS 3
#define SERIES_VALUES 3
#define SERIES_NAMES  256 /* that are followed, with and without a series */
#define SERIES_ROOM   24  /* rows, the rest among them, at the most */

struct series_set;

/* rows: how many there may be, with the rest; rest: its labels, the caller's as long as the set
 * lives. at_once: names that are few and not to be compared have a series from the first value on,
 * and keep it. NULL with ENOMEM. */
struct series_set *series_set_new(size_t rows, const char *const rest[SERIES_LABELS], bool at_once);
void series_set_free(struct series_set *set);
/* Count what a name used; labels (copied; NULL: it has none) say whose it is. weight: what names
 * are compared by. */
void series_set_add(struct series_set *set, const char *const labels[SERIES_LABELS],
		    const uint64_t values[SERIES_VALUES], uint64_t weight);
void series_set_add_rest(struct series_set *set, const uint64_t values[SERIES_VALUES]);
/* An interval of this length is over: names that became heavy get a series, at most one a minute
 * that of another one, which had less than half as much of late. */
void series_set_settle(struct series_set *set, uint64_t dur_ns);
/* Fill rows with the series of the set, that of the rest last; their texts are valid until the next
 * call. Each value is multiplied by `factor` and marked as present. Returns how many rows there
 * are.
 */
size_t series_set_rows(const struct series_set *set, double factor,
		       struct metrics_row rows[SERIES_ROOM]);
