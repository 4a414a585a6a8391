/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/thinned_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct thinned *thinned_new(void)
{
	struct thinned *thinned = calloc(1, sizeof(*thinned));

	if (thinned)
		thinned->stride = 1;
	return thinned;
}

static void forget_waiting(struct thinned *thinned)
{
	struct waiting *waiting, *next;

	HASH_ITER (hh, thinned->waiting, waiting, next) {
		HASH_DEL(thinned->waiting, waiting);
		free(waiting);
	}
}

void thinned_free(struct thinned *thinned)
{
	struct series *series, *next;

	if (!thinned)
		return;
	HASH_ITER (hh, thinned->series, series, next) {
		HASH_DEL(thinned->series, series);
		free(series);
	}
	forget_waiting(thinned);
	free(thinned->touched);
	free(thinned);
}

/* ---- rows ---- */

static void merge_cell(struct cell *to, const struct cell *from)
{
	if (from->weight <= 0)
		return;
	if (to->weight <= 0) {
		*to = *from;
		return;
	}
	to->min = fmin(to->min, from->min);
	to->max = fmax(to->max, from->max);
	to->sum += from->sum;
	to->weight += from->weight;
}

static void merge_row(struct row *to, const struct row *from)
{
	to->end_ns = from->end_ns;
	to->dur_ns += from->dur_ns;
	to->intervals += from->intervals;
	for (size_t i = 0; i < THINNED_GROUPS; i++)
		to->measured_ns[i] += from->measured_ns[i];
}

static void halve(struct thinned *thinned)
{
	struct series *series, *next;

	for (size_t i = 0; i < THINNED_ROWS / 2; i++) {
		thinned->rows[i] = thinned->rows[2 * i];
		merge_row(&thinned->rows[i], &thinned->rows[2 * i + 1]);
	}
	HASH_ITER (hh, thinned->series, series, next) {
		for (size_t i = 0; i < THINNED_ROWS / 2; i++) {
			series->cells[i] = series->cells[2 * i];
			merge_cell(&series->cells[i], &series->cells[2 * i + 1]);
		}
		memset(series->cells + THINNED_ROWS / 2, 0, sizeof(series->cells) / 2);
	}
	memset(thinned->rows + THINNED_ROWS / 2, 0, sizeof(thinned->rows) / 2);
	thinned->count = THINNED_ROWS / 2;
	thinned->stride *= 2;
}

static struct row *newest(struct thinned *thinned)
{
	return &thinned->rows[thinned->count - 1];
}

void thinned_begin(struct thinned *thinned, uint64_t begin_ns, uint64_t end_ns, uint64_t dur_ns)
{
	struct row *row;

	if (thinned->count == THINNED_ROWS && newest(thinned)->intervals >= thinned->stride)
		halve(thinned);
	if (!thinned->count || newest(thinned)->intervals >= thinned->stride) {
		row = &thinned->rows[thinned->count++];
		row->begin_ns = begin_ns;
	}
	row = newest(thinned);
	row->end_ns = end_ns;
	row->dur_ns += dur_ns;
	row->intervals++;
	thinned->dur_ns = dur_ns;
}

void thinned_measured(struct thinned *thinned, enum thinned_group group)
{
	newest(thinned)->measured_ns[group] += thinned->dur_ns;
}

void thinned_end(struct thinned *thinned)
{
	size_t place = thinned->count - 1;

	for (size_t i = 0; i < thinned->touched_count; i++) {
		struct series *series = thinned->touched[i];
		struct cell one = {series->now, series->now, series->now, 1};

		if (series->kind == SERIES_SUM) {
			one.min = one.max =
				thinned->dur_ns ? series->now * 1e9 / (double)thinned->dur_ns : 0;
			one.weight = thinned->dur_ns ? (double)thinned->dur_ns : 1;
		}
		merge_cell(&series->cells[place], &one);
		series->total += series->now;
		series->greatest = fmax(series->greatest, series->now);
		series->touched = false;
		series->now = 0;
	}
	thinned->touched_count = 0;
}

/* ---- series ---- */

static struct series *find(struct thinned *thinned, const char *key)
{
	struct series *series;

	HASH_FIND_STR(thinned->series, key, series);
	return series;
}

static void make_key(char key[THINNED_NAME_BYTES + 4], enum thinned_group group,
		     enum series_kind kind, const char *unit, const char *name)
{
	snprintf(key, THINNED_NAME_BYTES + 4, "%c%c%c%s", 'a' + (int)group, 'a' + (int)kind,
		 unit[0], name ? name : "");
}

static struct series *make(struct thinned *thinned, enum thinned_group group, enum series_kind kind,
			   const char *unit, const char *name)
{
	struct series *series = calloc(1, sizeof(*series));

	if (!series)
		return NULL;
	make_key(series->key, group, kind, unit, name);
	series->group = group;
	series->kind = kind;
	series->unit = unit;
	series->has_name = name != NULL;
	HASH_ADD_STR(thinned->series, key, series);
	return series;
}

static void untouch(struct thinned *thinned, const struct series *series)
{
	for (size_t i = 0; i < thinned->touched_count; i++)
		if (thinned->touched[i] == series) {
			thinned->touched[i] = thinned->touched[--thinned->touched_count];
			return;
		}
}

double thinned_weight_of(const struct series *series)
{
	return series->kind == SERIES_SUM ? series->total + series->now
					  : fmax(series->greatest, series->now);
}

/* Of a sum only the sum goes over: when the others were at their least nobody knows. */
int thinned_give_to_others(struct thinned *thinned, struct series *series)
{
	char key[THINNED_NAME_BYTES + 4];
	struct series *others;

	make_key(key, series->group, series->kind, series->unit, NULL);
	others = find(thinned, key);
	if (!others)
		others = make(thinned, series->group, series->kind, series->unit, NULL);
	if (!others)
		return -ENOMEM;
	for (size_t i = 0; i < thinned->count; i++) {
		others->cells[i].sum += series->cells[i].sum;
		others->cells[i].weight += series->cells[i].weight;
	}
	others->total += series->total;
	if (series->touched) {
		others->cells[thinned->count - 1].sum += series->now;
		others->cells[thinned->count - 1].weight += (double)thinned->dur_ns;
		others->total += series->now;
	}
	return 0;
}

/* That with the least of a group and kind, as its slot says from then on. */
static struct series *find_least(struct thinned *thinned, enum thinned_group group,
				 enum series_kind kind, const char *unit)
{
	struct slot *slot = &thinned->slots[group][kind];
	struct series *series, *next, *least = NULL;

	slot->count = 0;
	HASH_ITER (hh, thinned->series, series, next) {
		if (series->group != group || series->kind != kind || !series->has_name ||
		    strcmp(series->unit, unit))
			continue;
		slot->count++;
		if (!least || thinned_weight_of(series) < thinned_weight_of(least))
			least = series;
	}
	slot->least = least ? thinned_weight_of(least) : 0;
	return least;
}

static int drop(struct thinned *thinned, struct series *series)
{
	int err = series->kind == SERIES_SUM ? thinned_give_to_others(thinned, series) : 0;

	untouch(thinned, series);
	HASH_DEL(thinned->series, series);
	free(series);
	return err;
}

/* What came of this name so far, with the value; a level: the value. Negative: -ENOMEM. */
static double wait_for(struct thinned *thinned, const char *key, enum series_kind kind,
		       double value)
{
	struct waiting *waiting;

	if (kind == SERIES_LEVEL)
		return value;
	HASH_FIND_STR(thinned->waiting, key, waiting);
	if (!waiting) {
		if (HASH_COUNT(thinned->waiting) == WAITING)
			forget_waiting(thinned);
		waiting = calloc(1, sizeof(*waiting));
		if (!waiting)
			return -ENOMEM;
		strcpy(waiting->key, key);
		HASH_ADD_STR(thinned->waiting, key, waiting);
	}
	return waiting->total += value;
}

/* Make room for one more. 1: there is room; 0: it is too light for that; -ENOMEM. */
static int make_room(struct thinned *thinned, enum thinned_group group, enum series_kind kind,
		     const char *unit, const char *key, size_t limit, double value)
{
	const struct slot *slot = &thinned->slots[group][kind];
	struct waiting *waiting;
	struct series *least;
	double weight;
	int err;

	if (slot->count < limit)
		find_least(thinned, group, kind, unit);
	if (slot->count < limit)
		return 1;
	weight = wait_for(thinned, key, kind, value);
	if (weight < 0)
		return weight == -ENOMEM ? -ENOMEM : 0;
	/* Sums and greatest values only grow, so that the slot's is a lower bound. */
	if (weight <= slot->least)
		return 0;
	least = find_least(thinned, group, kind, unit);
	if (!least || weight <= slot->least)
		return 0;
	HASH_FIND_STR(thinned->waiting, key, waiting);
	if (waiting) {
		HASH_DEL(thinned->waiting, waiting);
		free(waiting);
	}
	err = drop(thinned, least);
	/* The newcomer may be the least now. */
	thinned->slots[group][kind].least = 0;
	return err ? err : 1;
}

static int touch(struct thinned *thinned, struct series *series)
{
	size_t room = thinned->touched_room ? 2 * thinned->touched_room : 128;
	struct series **more;

	if (series->touched)
		return 0;
	if (thinned->touched_count == thinned->touched_room) {
		more = reallocarray(thinned->touched, room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		thinned->touched = more;
		thinned->touched_room = room;
	}
	thinned->touched[thinned->touched_count++] = series;
	series->touched = true;
	return 0;
}

int thinned_add(struct thinned *thinned, enum thinned_group group, enum series_kind kind,
		const char *unit, const char *name, size_t limit, double value)
{
	char key[THINNED_NAME_BYTES + 4];
	struct series *series;
	int err = 0;

	if (!isfinite(value))
		return 0;
	make_key(key, group, kind, unit, name);
	series = find(thinned, key);
	if (!series && limit) {
		err = make_room(thinned, group, kind, unit, key, limit, value);
		if (err < 0)
			return err;
		if (!err)
			return kind == SERIES_SUM
				       ? thinned_add(thinned, group, kind, unit, NULL, 0, value)
				       : 0;
		err = 0;
		thinned->slots[group][kind].count = 0; /* to be counted anew */
	}
	if (!series)
		series = make(thinned, group, kind, unit, name);
	if (!series)
		return -ENOMEM;
	if (!err)
		err = touch(thinned, series);
	series->now += value;
	return err;
}

int thinned_add_at(struct thinned *thinned, enum thinned_group group, const char *unit,
		   const char *name, uint64_t at_ns, double value)
{
	char key[THINNED_NAME_BYTES + 4];
	struct series *series;
	struct cell *cell;
	size_t low = 0, high = thinned->count;

	if (!thinned->count)
		return 0;
	make_key(key, group, SERIES_SUM, unit, name);
	series = find(thinned, key);
	if (!series)
		series = make(thinned, group, SERIES_SUM, unit, name);
	if (!series)
		return -ENOMEM;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (thinned->rows[middle].begin_ns <= at_ns)
			low = middle;
		else
			high = middle;
	}
	cell = &series->cells[low];
	cell->sum += value;
	cell->min = 0;
	cell->max = fmax(cell->max, value);
	cell->weight += 1;
	thinned->rows[low].measured_ns[group] = thinned->rows[low].dur_ns;
	series->total += value;
	return 0;
}
