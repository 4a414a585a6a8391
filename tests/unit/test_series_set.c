/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/series_set.h"
#include "util/clock.h"

static const char *const rest[SERIES_LABELS] = {NULL, "_other"};

static void add(struct series_set *set, const char *name, uint64_t value)
{
	series_set_add(set, (const char *[SERIES_LABELS]){NULL, name},
		       (uint64_t[SERIES_VALUES]){value}, value);
}

static double value_of(const struct series_set *set, const char *name)
{
	struct metrics_row rows[SERIES_ROOM];
	size_t count = series_set_rows(set, 1, rows);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(rows[i].labels[1], name))
			return rows[i].values[0];
	return -1;
}

Test(series_set, a_name_begins_at_0_and_its_past_is_in_the_rest)
{
	struct series_set *set = series_set_new(4, rest, false);

	add(set, "a", 5);
	cr_expect_eq(value_of(set, "a"), -1);
	cr_expect_eq(value_of(set, "_other"), 5);
	series_set_settle(set, NSEC_PER_SEC);
	cr_expect_eq(value_of(set, "a"), 0);
	add(set, "a", 7);
	cr_expect_eq(value_of(set, "a"), 7);
	cr_expect_eq(value_of(set, "_other"), 5);
	series_set_free(set);
}

Test(series_set, at_once)
{
	struct series_set *set = series_set_new(3, rest, true);

	add(set, "a", 5);
	cr_expect_eq(value_of(set, "a"), 5);
	add(set, "b", 1);
	add(set, "c", 1000000);
	for (int i = 0; i < 100; i++) {
		series_set_settle(set, 100 * NSEC_PER_SEC);
		add(set, "c", 1000000);
	}
	cr_expect_eq(value_of(set, "a"), 5);
	cr_expect_eq(value_of(set, "b"), 1);
	cr_expect_eq(value_of(set, "c"), -1);
	cr_expect_eq(value_of(set, "_other"), 101000000);
	series_set_free(set);
}

/* Names come and go, among them more than there is room for: each series only grows while it is
 * there, the rest always does, and what grows in a step is what was used in it. */
Test(series_set, nothing_shrinks_and_nothing_is_lost)
{
	struct series_set *set = series_set_new(8, rest, false);
	struct metrics_row rows[SERIES_ROOM];
	char names[SERIES_ROOM][32], name[32];
	double before[SERIES_ROOM] = {0}, all = 0, changes = 0;
	size_t count_before = 1;

	strcpy(names[0], "_other");
	srand(3);
	for (int step = 0; step < 2000; step++) {
		double used = 0, grown = 0;
		size_t count;

		for (int i = 0; i < 60; i++) {
			uint64_t value = (uint64_t)(rand() % 1000);

			snprintf(name, sizeof(name), "n%d", rand() % 12 + step / 100 * 6);
			if (i >= 50) /* a storm of names */
				snprintf(name, sizeof(name), "storm-%d-%d", step, i);
			add(set, name, value);
			used += (double)value;
		}
		count = series_set_rows(set, 1, rows);
		cr_assert_leq(count, 8);
		for (size_t i = 0; i < count; i++) {
			size_t k = 0;

			while (k < count_before && strcmp(names[k], rows[i].labels[1]))
				k++;
			cr_assert_lt(k, count_before, "%s came within an interval",
				     rows[i].labels[1]);
			cr_assert_geq(rows[i].values[0], before[k]);
			grown += rows[i].values[0] - before[k];
		}
		cr_assert_eq(grown, used, "step %d: %.0f of %.0f", step, grown, used);
		all += used;
		series_set_settle(set, 10 * NSEC_PER_SEC);
		count = series_set_rows(set, 1, rows);
		for (size_t i = 0; i < count; i++) {
			size_t k = 0;

			while (k < count_before && strcmp(names[k], rows[i].labels[1]))
				k++;
			changes += k == count_before;
		}
		count_before = count;
		for (size_t i = 0; i < count; i++) {
			snprintf(names[i], sizeof(names[i]), "%s", rows[i].labels[1]);
			before[i] = rows[i].values[0];
		}
		cr_assert_str_eq(names[count - 1], "_other");
	}
	cr_expect_gt(changes, 20, "names that became heavy have a series: %.0f", changes);
	/* at most one a minute, and 7 at the begin */
	cr_expect_lt(changes, 2000 / 6 + 8);
	series_set_free(set);
}

/* A page that has a series twice is refused as a whole: no name of an app may bring that about. */
Test(series_set, hostile_names_make_no_series_twice)
{
	static const char *const hostile[] = {"_other", "a\x01", "a\x02", "a\x1b", "\xff", "\xfe",
					      "",       "a\"",   "a\\",   "a\nb",  "a\rb"};
	char long_names[2][600];
	struct series_set *set = series_set_new(24, rest, false);
	struct metrics_row rows[SERIES_ROOM];
	size_t count;

	memset(long_names, 'x', sizeof(long_names));
	long_names[0][598] = 'y';
	long_names[0][599] = long_names[1][599] = 0;
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++)
			add(set, hostile[i], 1000);
		add(set, long_names[0], 1000);
		add(set, long_names[1], 1000);
		series_set_settle(set, NSEC_PER_SEC);
	}
	count = series_set_rows(set, 1, rows);
	cr_expect_gt(count, 4);
	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++)
			cr_expect(strcmp(rows[i].labels[1] ?: "", rows[k].labels[1] ?: ""),
				  "%s is there twice", rows[i].labels[1]);
	series_set_free(set);
}
