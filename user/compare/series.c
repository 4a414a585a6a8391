/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void add(struct series_cell *to, const struct series_cell *cell)
{
	to->over += cell->over;
	to->under += cell->under;
}

/* Two neighbours become one. */
static void widen(struct series *series)
{
	for (size_t i = 0; i < series->count; i += 2) {
		struct series_cell both = series->cells[i];

		if (i + 1 < series->count)
			add(&both, &series->cells[i + 1]);
		series->cells[i / 2] = both;
	}
	series->count = (series->count + 1) / 2;
	series->width *= 2;
}

int series_add(struct series *series, double over, double under)
{
	const struct series_cell cell = {over, under};

	if (!series->cells) {
		series->cells = calloc(SERIES_CELLS, sizeof(*series->cells));
		if (!series->cells)
			return -ENOMEM;
		series->width = series->open = 1;
	}
	if (series->open == series->width) {
		if (series->count == SERIES_CELLS)
			widen(series);
		series->open = 0;
		series->cells[series->count++] = (struct series_cell){0};
	}
	add(&series->cells[series->count - 1], &cell);
	series->open++;
	return 0;
}

void series_free(struct series *series)
{
	free(series->cells);
	*series = (struct series){0};
}

double series_quotient(const struct series *series)
{
	struct series_cell sum = {0};

	for (size_t i = 0; i < series->count; i++)
		add(&sum, &series->cells[i]);
	return sum.under > 0 ? sum.over / sum.under : NAN;
}

size_t series_blocks(const struct series *series, struct series_cell *blocks, size_t count)
{
	if (count > series->count)
		count = series->count;
	for (size_t i = 0; i < count; i++)
		blocks[i] = (struct series_cell){0};
	for (size_t i = 0; i < series->count; i++)
		add(&blocks[i * count / series->count], &series->cells[i]);
	return count;
}
