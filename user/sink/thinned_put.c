/* SPDX-License-Identifier: BSD-2-Clause */
/* The series as JSON. */
#include "sink/thinned_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Four digits are more than a screen shows; a sum and a level are exact. */
static void put_rough(struct json_buffer *to, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.4g", value);
	json_put_token(to, text);
}

static void put_rows(const struct thinned *thinned, struct json_buffer *to)
{
	json_put_key(to, "rows");
	json_put_mark(to, '[');
	for (size_t i = 0; i < thinned->count; i++) {
		const struct row *row = &thinned->rows[i];

		json_put_mark(to, '[');
		json_put_u64(to, row->begin_ns / 1000000);
		json_put_u64(to, row->end_ns / 1000000);
		json_put_u64(to, row->dur_ns);
		json_put_u64(to, row->intervals);
		json_put_mark(to, ']');
	}
	json_put_mark(to, ']');
}

enum part { PART_MIN, PART_MAX, PART_SUM };

static void put_cell(const struct series *series, const struct row *row, const struct cell *cell,
		     enum part part, struct json_buffer *to)
{
	bool is_sum = series->kind == SERIES_SUM;
	double value = part == PART_MIN ? cell->min : part == PART_MAX ? cell->max : cell->sum;

	if (is_sum && !row->measured_ns[series->group]) {
		json_put_token(to, "null");
	} else if (is_sum) {
		/* It was 0 in the intervals that nothing was added in. */
		if (part == PART_MIN && cell->weight < (double)row->measured_ns[series->group])
			value = 0;
		if (part == PART_SUM)
			json_put_number(to, value);
		else
			put_rough(to, value);
	} else if (cell->weight <= 0) {
		json_put_token(to, "null");
	} else if (part == PART_SUM) {
		json_put_number(to, round(value / cell->weight));
	} else {
		json_put_number(to, value);
	}
}

static void put_series(const struct thinned *thinned, const struct series *series,
		       struct json_buffer *to)
{
	static const char *const groups[] = {"cpu", "frames", "late", "blocks", "memory",
					     "net", "power",  "heat", "losses"};
	static const char *const keys[] = {"min", "max", "sum"};

	json_put_mark(to, '{');
	json_put_key(to, "group");
	json_put_text(to, groups[series->group], SIZE_MAX);
	json_put_key(to, "kind");
	json_put_text(to, series->kind == SERIES_SUM ? "sum" : "level", SIZE_MAX);
	json_put_key(to, "unit");
	json_put_text(to, series->unit, SIZE_MAX);
	if (series->has_name) {
		json_put_key(to, "name");
		json_put_text(to, series->key + 3, SIZE_MAX);
	}
	for (enum part part = PART_MIN; part <= PART_SUM; part++) {
		/* Where a row is one interval they say nothing more. */
		if (part != PART_SUM && (!series->has_name || thinned->stride == 1) &&
		    series->kind == SERIES_SUM)
			continue;
		/* What is added to a row and not to an interval has none of intervals. */
		if (part != PART_SUM && series->group == GROUP_LATE)
			continue;
		json_put_key(to, part == PART_SUM && series->kind == SERIES_LEVEL ? "mean"
										  : keys[part]);
		json_put_mark(to, '[');
		for (size_t i = 0; i < thinned->count; i++)
			put_cell(series, &thinned->rows[i], &series->cells[i], part, to);
		json_put_mark(to, ']');
	}
	json_put_mark(to, '}');
}

static int by_weight(struct series *a, struct series *b)
{
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->has_name != b->has_name)
		return a->has_name ? -1 : 1;
	return thinned_weight_of(a) < thinned_weight_of(b)   ? 1
	       : thinned_weight_of(a) > thinned_weight_of(b) ? -1
							     : 0;
}

#define GROUP_OF(series) (2 * (unsigned)(series)->group + (unsigned)(series)->kind)

void thinned_put(struct thinned *thinned, size_t shown, struct json_buffer *to)
{
	struct series *series, *next;
	unsigned group = UINT32_MAX, rank = 0;

	HASH_SORT(thinned->series, by_weight);
	HASH_ITER (hh, thinned->series, series, next) {
		rank = group == GROUP_OF(series) ? rank + 1 : 0;
		group = GROUP_OF(series);
		if (rank < shown || !series->has_name)
			continue;
		if (series->kind == SERIES_SUM)
			to->failed |= thinned_give_to_others(thinned, series) != 0;
		HASH_DEL(thinned->series, series);
		free(series);
	}
	put_rows(thinned, to);
	json_put_key(to, "series");
	json_put_mark(to, '[');
	HASH_ITER (hh, thinned->series, series, next)
		put_series(thinned, series, to);
	json_put_mark(to, ']');
}
