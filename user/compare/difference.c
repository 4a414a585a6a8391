/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/difference.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define RESAMPLES 1999
/* Half the width of the interval is 1.96 errors; 8 of 10 differences that lie 0.84 errors beyond it
 * show. */
#define POWER_OF_HALF (1 + 0.84 / 1.96)

/* A quotient of sums and its error, by the first term of its series in both sums (the delta method:
 * the samples' residuals are what is left of `over` when the quotient is taken out). */
struct estimate {
	double value, error;
};

static struct estimate estimate(const struct series_cell *const *samples, size_t count)
{
	double over = 0, under = 0, squares = 0;
	struct estimate result = {NAN, NAN};

	for (size_t i = 0; i < count; i++) {
		over += samples[i]->over;
		under += samples[i]->under;
	}
	if (!(under > 0))
		return result;
	result.value = over / under;
	for (size_t i = 0; i < count; i++) {
		double residual = samples[i]->over - result.value * samples[i]->under;

		squares += residual * residual;
	}
	result.error = sqrt(squares * (double)count / (double)(count - 1)) / under;
	return result;
}

/* The two-sided 95 % point of Student's t: Cornish and Fisher's series in 1/n, with the exact
 * values where it is not good enough (Abramowitz and Stegun, 26.7.5). */
static double student_95(double freedom)
{
	static const double few[] = {12.706, 12.706, 4.303, 3.182, 2.776, 2.571};
	const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

	if (freedom < 5)
		return few[freedom < 1 ? 1 : (size_t)freedom];
	return z + (z3 + z) / (4 * freedom) +
	       (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

#define STEPS        400 /* of an integral; even */
#define MOST_DEGREES 200

static double power(double base, unsigned exponent)
{
	double result = 1;

	for (; exponent; exponent /= 2, base *= base)
		if (exponent % 2)
			result *= base;
	return result;
}

/* The density of Student's t without its factor: at x, or (t > 0) at t / x, times what a step of x
 * is there. */
static double density(double x, double t, unsigned degrees)
{
	double square = x * x + t * t / degrees;

	return t > 0 ? t / square * power(x / sqrt(square), degrees - 1)
		     : power(1 / sqrt(1 + x * x / degrees), degrees + 1);
}

/* By Simpson's rule. */
static double area(double begin, double end, double t, unsigned degrees)
{
	double step = (end - begin) / STEPS, sum = 0;

	for (int i = 0; i <= STEPS; i++)
		sum += density(begin + i * step, t, degrees) * (i == 0 || i == STEPS ? 1
								: i % 2              ? 4
										     : 2);
	return sum * step;
}

/* How often chance is so many errors off, by Student's t with whole degrees of freedom, rounded
 * down. What lies beyond t, which has no end, is looked at by its inverse; the libm's functions for
 * this would be 90 KiB of the binary. */
static double student_chance(double t, double freedom)
{
	unsigned degrees = freedom < MOST_DEGREES ? (unsigned)freedom : MOST_DEGREES;
	double beyond_1, within_1;

	if (!degrees)
		degrees = 1;
	beyond_1 = area(0, 1, 1, degrees);
	within_1 = area(0, 1, 0, degrees);
	return (t < 1 ? beyond_1 + area(t, 1, 0, degrees) : area(0, 1, t, degrees)) /
	       (beyond_1 + within_1);
}

/* xorshift64* (Vigna, 2016). */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Dull;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void resample(const struct difference_side *side, const struct series_cell **drawn,
		     uint64_t *state)
{
	for (size_t i = 0; i < side->count; i++)
		drawn[i] = &side->samples[(random_next(state) >> 11) % side->count];
}

/* How many errors the difference of a resample is off from that of the samples: sorted. */
static int draw(const struct difference_side *old, const struct difference_side *new,
		double difference, double *drawn)
{
	size_t room = old->count > new->count ? old->count : new->count;
	const struct series_cell **samples = calloc(room, sizeof(struct series_cell *));
	uint64_t state = 0x9E3779B97F4A7C15ull;

	if (!samples)
		return -ENOMEM;
	for (size_t i = 0; i < RESAMPLES; i++) {
		struct estimate a, b;
		double error, off;

		resample(old, samples, &state);
		a = estimate(samples, old->count);
		resample(new, samples, &state);
		b = estimate(samples, new->count);
		error = hypot(a.error, b.error);
		off = b.value - a.value - difference;
		/* One and the same sample all over, or samples that nothing is under, say nothing
		 * of the error: they are as far off as any. */
		drawn[i] = error > 0 && isfinite(off) ? fabs(off) / error : INFINITY;
	}
	free(samples);
	qsort(drawn, RESAMPLES, sizeof(*drawn), compare);
	return 0;
}

static struct estimate estimate_side(const struct difference_side *side,
				     const struct series_cell **room)
{
	for (size_t i = 0; i < side->count; i++)
		room[i] = &side->samples[i];
	return estimate(room, side->count);
}

/* Welch's degrees of freedom. */
static double freedom(const struct estimate *a, size_t a_count, const struct estimate *b,
		      size_t b_count)
{
	double x = a->error * a->error, y = b->error * b->error;

	return (x + y) * (x + y) / (x * x / (double)(a_count - 1) + y * y / (double)(b_count - 1));
}

static int set_interval(const struct difference_side *old, const struct estimate *a,
			const struct difference_side *new, const struct estimate *b,
			struct difference *difference)
{
	double error = hypot(a->error, b->error), half, drawn[RESAMPLES];
	double off = fabs(difference->difference) / error, degrees;
	size_t farther = 1; /* the samples as they are, one of RESAMPLES + 1 */
	int err = 0;

	if (old->count < DIFFERENCE_FEW || new->count < DIFFERENCE_FEW) {
		degrees = freedom(a, old->count, b, new->count);
		half = error * student_95(degrees);
		difference->chance = student_chance(off, degrees);
	} else {
		err = draw(old, new, difference->difference, drawn);
		half = err ? NAN : error * drawn[RESAMPLES * 95 / 100];
		for (size_t i = 0; !err && i < RESAMPLES; i++)
			farther += drawn[i] >= off;
		difference->chance = (double)farther / (RESAMPLES + 1);
	}
	difference->low = difference->difference - half;
	difference->high = difference->difference + half;
	return err;
}

/* All runs of a side are equal, and the sides are not: an event count, often. Were there no
 * difference, each way to deal the samples to the sides would be as likely as this one, and two of
 * them part the values like this (Fisher's exact test). */
static double chance_of_parting(size_t old_count, size_t new_count)
{
	double ways = 1;

	for (size_t i = 1; i <= old_count && ways < 1e9; i++)
		ways = ways * (double)(new_count + i) / (double)i;
	return 2 / ways;
}

static int judge(const struct difference_side *old, const struct difference_side *new,
		 bool are_runs, struct difference *difference)
{
	size_t room = old->count > new->count ? old->count : new->count;
	const struct series_cell **samples = calloc(room ? room : 1, sizeof(struct series_cell *));
	struct estimate a, b;
	int err;

	if (!samples)
		return -ENOMEM;
	a = estimate_side(old, samples);
	b = estimate_side(new, samples);
	free(samples);
	*difference = (struct difference){.old = a.value,
					  .new = b.value,
					  .difference = b.value - a.value,
					  .low = NAN,
					  .high = NAN,
					  .detectable = NAN,
					  .chance = NAN,
					  .verdict = DIFFERENCE_TOO_SHORT};
	if (old->count < DIFFERENCE_LEAST || new->count < DIFFERENCE_LEAST)
		return 0;
	if (!(hypot(a.error, b.error) > 0)) {
		difference->verdict = DIFFERENCE_SAME;
		if (!difference->difference)
			difference->chance = 1;
		else if (are_runs)
			difference->chance = chance_of_parting(old->count, new->count);
		if (difference->chance <= 0.05)
			difference->verdict =
				difference->difference > 0 ? DIFFERENCE_MORE : DIFFERENCE_LESS;
		return 0;
	}
	err = set_interval(old, &a, new, &b, difference);
	difference->detectable = (difference->high - difference->low) / 2 * POWER_OF_HALF;
	if (difference->low > 0)
		difference->verdict = DIFFERENCE_MORE;
	else if (difference->high < 0)
		difference->verdict = DIFFERENCE_LESS;
	else
		difference->verdict = DIFFERENCE_NONE;
	return err;
}

int difference_of_samples(const struct difference_side *old, const struct difference_side *new,
			  struct difference *difference)
{
	return judge(old, new, true, difference);
}

/* Von Neumann's ratio (1941): the squares of the steps from block to block against those of the
 * blocks. It is near 2 where neighbours do not depend on each other, with a variance of
 * 4 (n - 2) / (n * n - 1). The result is how many standard deviations it lies below that. */
static double dependence(const struct series_cell *blocks, size_t count, double quotient)
{
	double steps = 0, squares = 0, before = 0, n = (double)count;

	for (size_t i = 0; i < count; i++) {
		double residual = blocks[i].over - quotient * blocks[i].under;

		squares += residual * residual;
		if (i)
			steps += (residual - before) * (residual - before);
		before = residual;
	}
	if (!(squares > 0) || count < DIFFERENCE_LEAST)
		return 0;
	return (2 - steps / squares) / sqrt(4 * (n - 2) / (n * n - 1));
}

/* Chance has blocks that seem to depend on each other in every other run, and longer ones lose
 * little. Blocks of an eighth that still do are a run with a trend: once in a hundred by chance. */
#define DEPENDS_TOO_MUCH 0
#define DRIFTS           2.33

int difference_of_series(const struct series *old, const struct series *new,
			 struct difference *difference)
{
	struct series_cell a[DIFFERENCE_BLOCKS], b[DIFFERENCE_BLOCKS];
	double off = 0;
	int err;

	for (size_t count = DIFFERENCE_BLOCKS; count >= DIFFERENCE_BLOCKS / 4; count /= 2) {
		struct difference_side a_side = {a, series_blocks(old, a, count)};
		struct difference_side b_side = {b, series_blocks(new, b, count)};

		off = fmax(dependence(a, a_side.count, series_quotient(old)),
			   dependence(b, b_side.count, series_quotient(new)));
		if (off > DEPENDS_TOO_MUCH && count > DIFFERENCE_BLOCKS / 4)
			continue;
		err = judge(&a_side, &b_side, false, difference);
		if (!err && off > DRIFTS) {
			difference->verdict = DIFFERENCE_DRIFTS;
			difference->chance = NAN;
		}
		return err;
	}
	return 0;
}
