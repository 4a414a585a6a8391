/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "record/histogram.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t nearest_rank(const uint64_t *sorted, size_t n, double percent)
{
	size_t rank = (size_t)ceil(percent * (double)n / 100);

	return sorted[(rank ? rank : 1) - 1];
}

Test(histogram, empty)
{
	struct histogram *histogram = histogram_new();

	cr_expect_eq(histogram_count(histogram), 0);
	cr_expect_eq(histogram_percentile(histogram, 99), 0);
	cr_expect_eq(histogram_mean(histogram), 0);
	histogram_free(histogram);
	histogram_free(NULL);
}

Test(histogram, cleared_is_empty)
{
	struct histogram *histogram = histogram_new();

	for (uint64_t v = 1; v; v <<= 1)
		cr_assert_eq(histogram_add(histogram, v), 0);
	histogram_clear(histogram);
	cr_expect_eq(histogram_count(histogram), 0);
	cr_expect_eq(histogram_percentile(histogram, 99), 0);
	cr_expect_eq(histogram_max(histogram), 0);
	cr_assert_eq(histogram_add(histogram, 70), 0);
	cr_assert_eq(histogram_add(histogram, 1ull << 40), 0);
	cr_expect_eq(histogram_count(histogram), 2);
	cr_expect_eq(histogram_min(histogram), 70);
	cr_expect_eq(histogram_percentile(histogram, 50), 70);
	cr_expect_eq(histogram_max(histogram), 1ull << 40);
	histogram_free(histogram);
}

Test(histogram, small_values_are_exact)
{
	struct histogram *histogram = histogram_new();

	for (uint64_t v = 1; v <= 100; v++)
		cr_assert_eq(histogram_add(histogram, v), 0);
	for (unsigned percent = 1; percent <= 100; percent++)
		cr_expect_eq(histogram_percentile(histogram, percent), percent);
	cr_expect_eq(histogram_min(histogram), 1);
	cr_expect_eq(histogram_max(histogram), 100);
	cr_expect_float_eq(histogram_mean(histogram), 50.5, 1e-9);
	histogram_free(histogram);
}

Test(histogram, percentiles_within_a_128th)
{
	enum { N = 20000 };
	static uint64_t values[N];
	static const double percents[] = {0.01, 1, 10, 50, 90, 95, 99, 99.9, 100};
	struct histogram *histogram = histogram_new();
	double sum = 0;

	srand48(11);
	for (size_t i = 0; i < N; i++) {
		values[i] = (uint64_t)exp(drand48() * 40);
		sum += (double)values[i];
		cr_assert_eq(histogram_add(histogram, values[i]), 0);
	}
	qsort(values, N, sizeof(*values), by_value);
	for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
		double truth = (double)nearest_rank(values, N, percents[i]);
		double got = (double)histogram_percentile(histogram, percents[i]);

		cr_expect_leq(fabs(got - truth), truth / 128, "p%g: %g, truth %g", percents[i], got,
			      truth);
	}
	cr_expect_eq(histogram_min(histogram), values[0]);
	cr_expect_eq(histogram_max(histogram), values[N - 1]);
	cr_expect_eq(histogram_count(histogram), N);
	cr_expect_float_eq(histogram_mean(histogram) / (sum / N), 1, 1e-12);
	histogram_free(histogram);
}

struct walk {
	uint64_t total, last_high, buckets;
	bool ordered, wide;
};

static void visit(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	struct walk *walk = ctx;

	if (walk->buckets++ && low <= walk->last_high)
		walk->ordered = false;
	if (low > high || (high - low) > low / 64)
		walk->wide = true;
	walk->last_high = high;
	walk->total += count;
}

Test(histogram, buckets_of_the_extremes)
{
	static const uint64_t values[] = {0,
					  1,
					  63,
					  64,
					  127,
					  128,
					  129,
					  (1u << 20) - 1,
					  1u << 20,
					  1ull << 63,
					  UINT64_MAX - 1,
					  UINT64_MAX};
	struct histogram *histogram = histogram_new();
	struct walk walk = {.ordered = true};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		cr_assert_eq(histogram_add(histogram, values[i]), 0);
	histogram_each(histogram, visit, &walk);
	cr_expect_eq(walk.total, sizeof(values) / sizeof(*values));
	cr_expect(walk.ordered);
	cr_expect(!walk.wide);
	cr_expect_eq(walk.last_high, UINT64_MAX);
	cr_expect_eq(histogram_percentile(histogram, 100), UINT64_MAX - (1ull << 56));
	cr_expect_eq(histogram_max(histogram), UINT64_MAX);
	histogram_free(histogram);
}

Test(histogram, every_value_lies_in_its_bucket)
{
	struct walk walk;

	for (unsigned shift = 0; shift < 64; shift++)
		for (int step = -1; step <= 1; step++) {
			uint64_t value = (1ull << shift) + (uint64_t)(int64_t)step;
			struct histogram *histogram = histogram_new();

			walk = (struct walk){.ordered = true};
			cr_assert_eq(histogram_add(histogram, value), 0);
			histogram_each(histogram, visit, &walk);
			cr_expect_eq(walk.buckets, 1);
			cr_expect_geq(walk.last_high, value);
			cr_expect(!walk.wide);
			/* One value: every percentile is that value. */
			cr_expect_eq(histogram_percentile(histogram, 50), value);
			histogram_free(histogram);
		}
}

static void add_bucket(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	cr_assert_eq(histogram_add_bucket(ctx, low, high, count), 0);
}

/* What a record tells of a histogram makes one with the same buckets. */
Test(histogram, from_its_own_buckets)
{
	struct histogram *a = histogram_new(), *b = histogram_new();

	for (uint64_t v = 0; v < 5000; v++)
		cr_assert_eq(histogram_add(a, v * v), 0);
	histogram_each(a, add_bucket, b);
	cr_expect_eq(histogram_count(b), 5000);
	for (double percent = 1; percent <= 99; percent += 1)
		cr_expect_eq(histogram_percentile(a, percent), histogram_percentile(b, percent));
	cr_expect_float_eq(histogram_mean(b), histogram_mean(a), histogram_mean(a) / 128);
	cr_expect_eq(histogram_min(b), 0);
	cr_expect_geq(histogram_max(b), 4999ull * 4999);
	histogram_free(a);
	histogram_free(b);
}
