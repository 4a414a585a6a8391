/* SPDX-License-Identifier: BSD-2-Clause */
/* A quotient over time, like CPU time by wall time, in bounded memory: cells of neighbouring
 * intervals, which become twice as wide when there are too many. */
#pragma once
#include <stddef.h>

#define SERIES_CELLS 4096

struct series_cell {
	double over, under; /* what is divided, and by what */
};

struct series {
	struct series_cell *cells; /* NULL: nothing was added */
	size_t count;
	size_t width, open; /* additions to a cell, and to the last one so far */
};

/* Add what an interval has. 0, -ENOMEM. */
int series_add(struct series *series, double over, double under);
void series_free(struct series *series);
/* Of all of it. Not a number where under is 0. */
double series_quotient(const struct series *series);
/* Sum the series up in `count` cells of equally many additions (at most one more each), the last
 * ones of the run included. The number of cells: fewer where there are not as many. */
size_t series_blocks(const struct series *series, struct series_cell *blocks, size_t count);
