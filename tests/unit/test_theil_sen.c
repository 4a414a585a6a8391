/* SPDX-License-Identifier: BSD-2-Clause */
/* Slopes of series, against all pairs taken one by one and all orders counted one by one, and
 * against series whose slope is known. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "util/theil_sen.h"

/* ---- the oracle: of each rank how many slopes are smaller, without sorting ---- */

static double slope_of_rank(const struct theil_sen_point *points, size_t n, size_t rank)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			double slope = (points[j].y - points[i].y) / (points[j].x - points[i].x);
			size_t below = 0, same = 0;

			for (size_t a = 0; a < n; a++) {
				for (size_t b = a + 1; b < n; b++) {
					double other = (points[b].y - points[a].y) /
						       (points[b].x - points[a].x);

					below += other < slope;
					same += other == slope;
				}
			}
			if (below <= rank && rank < below + same)
				return slope;
		}
	}
	cr_assert_fail("no slope of rank %zu", rank);
	return 0;
}

/* Of all orders of n things, how many have exactly k inversions: by making each order. */
static void count_orders(size_t n, size_t *counts)
{
	size_t order[8], digits[8] = {0}, inversions;

	for (;;) {
		bool used[8] = {false};
		size_t i;

		/* digits are a number in the factorial base, and the choices that make an order */
		inversions = 0;
		for (i = 0; i < n; i++) {
			size_t left = digits[i], at = 0;

			while (used[at] || left) {
				left -= !used[at];
				at++;
			}
			used[at] = true;
			order[i] = at;
		}
		for (size_t a = 0; a < n; a++)
			for (size_t b = a + 1; b < n; b++)
				inversions += order[a] > order[b];
		counts[inversions]++;
		for (i = 0; i < n && ++digits[i] == n - i; i++)
			digits[i] = 0;
		if (i == n)
			return;
	}
}

/* The largest k with P(at most k - 1 inversions) <= 2.5 %. */
static size_t outside_by_orders(size_t n)
{
	size_t counts[64] = {0}, all = 1, sum = 0, k = 0;

	count_orders(n, counts);
	for (size_t i = 2; i <= n; i++)
		all *= i;
	while (40 * (sum + counts[k]) <= all)
		sum += counts[k++];
	return k;
}

static void make(struct theil_sen_point *points, size_t n, double slope, double noise,
		 uint64_t *state)
{
	double x = 0;

	for (size_t i = 0; i < n; i++) {
		x += 0.5 + uniform(state);
		points[i] = (struct theil_sen_point){x, slope * x + noise * normal(state)};
	}
}

Test(theil_sen, is_the_median_of_all_pairs)
{
	struct theil_sen_point points[24];
	struct theil_sen result;
	uint64_t state = 1;

	for (size_t n = 2; n <= 24; n++) {
		size_t pairs = n * (n - 1) / 2;
		double want;

		make(points, n, 3, 1, &state);
		want = pairs % 2 ? slope_of_rank(points, n, pairs / 2)
				 : (slope_of_rank(points, n, pairs / 2 - 1) +
				    slope_of_rank(points, n, pairs / 2)) /
					   2;
		cr_assert_eq(theil_sen(points, n, &result), 0);
		cr_expect_eq(result.slope, want, "%zu points: %g, not %g", n, result.slope, want);
	}
}

Test(theil_sen, the_interval_is_by_all_orders)
{
	struct theil_sen_point points[8];
	struct theil_sen result;
	uint64_t state = 2;

	for (size_t n = 2; n <= 8; n++) {
		size_t pairs = n * (n - 1) / 2, k = outside_by_orders(n);

		make(points, n, -2, 1, &state);
		cr_assert_eq(theil_sen(points, n, &result), 0);
		cr_expect_eq(result.has_interval, k > 0, "%zu points", n);
		if (!k)
			continue;
		cr_expect_eq(result.low, slope_of_rank(points, n, k - 1), "%zu points", n);
		cr_expect_eq(result.high, slope_of_rank(points, n, pairs - k), "%zu points", n);
	}
}

/* Sen's own example has the slope 4 (section 5 of his paper). */
Test(theil_sen, sens_example_and_equal_times)
{
	static const struct theil_sen_point points[] = {{1, 9},   {2, 15},  {3, 19}, {4, 20},
							{10, 45}, {12, 55}, {18, 78}};
	static const struct theil_sen_point same[] = {{1, 1}, {1, 5}};
	struct theil_sen result;

	cr_assert_eq(theil_sen(points, 7, &result), 0);
	cr_expect_eq(result.slope, 4);
	cr_expect_eq(theil_sen(same, 2, &result), -ENODATA);
	cr_expect_eq(theil_sen(same, 1, &result), -ENODATA);
	cr_expect_eq(theil_sen(same, 0, &result), -ENODATA);
}

Test(theil_sen, a_third_of_the_points_may_lie_anywhere)
{
	struct theil_sen_point points[90];
	struct theil_sen result;
	uint64_t state = 3;

	for (size_t i = 0; i < 90; i++)
		points[i] = (struct theil_sen_point){(double)i, i % 4 ? 10.0 * (double)i
								      : 1e6 * uniform(&state)};
	cr_assert_eq(theil_sen(points, 90, &result), 0);
	cr_expect_lt(fabs(result.slope - 10), 1, "%g", result.slope);
}

Test(theil_sen, what_stays_the_same_has_no_slope)
{
	struct theil_sen_point points[100];
	struct theil_sen result;

	for (size_t i = 0; i < 100; i++)
		points[i] = (struct theil_sen_point){(double)i, 5};
	cr_assert_eq(theil_sen(points, 100, &result), 0);
	cr_expect_eq(result.slope, 0);
	cr_expect(result.has_interval);
	cr_expect_eq(result.low, 0);
	cr_expect_eq(result.high, 0);
}

/* Of 1,000 series the interval must hold the true slope in 95 %: the binomial distribution allows
 * 931 to 967 (99.9 %) where it holds exactly; of few points no rank gives exactly 95 %, and it
 * holds more often. */
Test(theil_sen, the_interval_holds_the_slope_in_95_of_100_series)
{
	static const struct {
		size_t points, most;
		bool heavy; /* errors of a heavy-tailed distribution */
	} cases[] = {{8, 1000, false}, {20, 975, false},  {64, 971, false},
		     {65, 971, false}, {150, 969, false}, {150, 969, true}};
	struct theil_sen_point points[150];
	struct theil_sen result;
	uint64_t state = 4;

	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		size_t held = 0;

		for (size_t series = 0; series < 1000; series++) {
			make(points, cases[c].points, 7, 20, &state);
			for (size_t i = 0; cases[c].heavy && i < cases[c].points; i++)
				points[i].y += 30 * tan(M_PI * (uniform(&state) - 0.5));
			cr_assert_eq(theil_sen(points, cases[c].points, &result), 0);
			held += result.has_interval && result.low <= 7 && 7 <= result.high;
		}
		cr_expect_geq(held, 931, "%zu points: %zu of 1000", cases[c].points, held);
		cr_expect_leq(held, cases[c].most, "%zu points: %zu of 1000", cases[c].points,
			      held);
	}
}
