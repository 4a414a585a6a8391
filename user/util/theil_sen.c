/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/theil_sen.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define LEAST_POINTS 5
#define NORMAL_97_5  1.959963984540054
#define ONE_SIDE     0.025
#define EXACT_PAIRS  (THEIL_SEN_EXACT * (THEIL_SEN_EXACT - 1) / 2)

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* How many of the smallest and of the largest slopes lie outside: the largest k for which at most
 * k - 1 of the pairs of a random order are inverted with a probability of 2.5 % or less. The share
 * of orders with each number of inversions comes from that of one point less. Below 0: none. */
static long outside_exactly(size_t count)
{
	double share[EXACT_PAIRS + 1] = {1}, sum;
	size_t pairs = 0;
	long k = 0;

	for (size_t n = 2; n <= count; n++) {
		double next[EXACT_PAIRS + 1];

		pairs += n - 1;
		sum = 0;
		for (size_t i = 0; i <= pairs; i++) {
			sum += share[i];
			if (i >= n)
				sum -= share[i - n];
			next[i] = sum / (double)n;
		}
		for (size_t i = 0; i <= pairs; i++)
			share[i] = next[i];
	}
	for (sum = share[0]; sum <= ONE_SIDE; sum += share[++k])
		;
	return k;
}

static long outside(size_t count, size_t pairs)
{
	double n = (double)count;

	if (count < LEAST_POINTS)
		return 0;
	if (count <= THEIL_SEN_EXACT && pairs == count * (count - 1) / 2)
		return outside_exactly(count);
	return (long)floor(((double)pairs - NORMAL_97_5 * sqrt(n * (n - 1) * (2 * n + 5) / 18)) /
			   2);
}

int theil_sen(const struct theil_sen_point *points, size_t count, struct theil_sen *result)
{
	double *slopes;
	size_t pairs = 0;
	long k;

	*result = (struct theil_sen){0};
	if (count < 2)
		return -ENODATA;
	slopes = malloc(count * (count - 1) / 2 * sizeof(*slopes));
	if (!slopes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		for (size_t j = i + 1; j < count; j++) {
			double dx = points[j].x - points[i].x;

			if (dx != 0)
				slopes[pairs++] = (points[j].y - points[i].y) / dx;
		}
	}
	if (!pairs) {
		free(slopes);
		return -ENODATA;
	}
	qsort(slopes, pairs, sizeof(*slopes), by_value);
	result->slope =
		pairs % 2 ? slopes[pairs / 2] : (slopes[pairs / 2 - 1] + slopes[pairs / 2]) / 2;
	k = outside(count, pairs);
	if (k > 0 && (size_t)k <= pairs / 2) {
		result->has_interval = true;
		result->low = slopes[k - 1];
		result->high = slopes[pairs - (size_t)k];
	}
	free(slopes);
	return 0;
}
