/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/histogram.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS    6
#define SUB_BUCKETS (1u << SUB_BITS)
/* Values below 2 x SUB_BUCKETS have a bucket each; above, every octave has SUB_BUCKETS. */
#define BUCKETS      ((64 - SUB_BITS) * SUB_BUCKETS + SUB_BUCKETS)
#define OCTAVES      (BUCKETS / SUB_BUCKETS)
#define KEPT_OCTAVES 2 /* of one that is cleared */

struct histogram {
	uint64_t n, min, max;
	double sum;
	/* Of SUB_BUCKETS each, NULL: nothing was counted there. What a run measures lies within a
	 * few octaves, and a summary keeps hundreds of histograms: two a process. */
	uint64_t *octaves[OCTAVES];
};

struct histogram *histogram_new(void)
{
	return calloc(1, sizeof(struct histogram));
}

void histogram_free(struct histogram *histogram)
{
	for (size_t i = 0; histogram && i < OCTAVES; i++)
		free(histogram->octaves[i]);
	free(histogram);
}

void histogram_clear(struct histogram *histogram)
{
	unsigned kept = 0;

	for (size_t i = 0; i < OCTAVES; i++) {
		uint64_t **octave = &histogram->octaves[i];

		if (*octave && kept++ < KEPT_OCTAVES) {
			memset(*octave, 0, SUB_BUCKETS * sizeof(**octave));
			continue;
		}
		free(*octave);
		*octave = NULL;
	}
	histogram->n = histogram->min = histogram->max = 0;
	histogram->sum = 0;
}

static size_t bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 2 * SUB_BUCKETS)
		return value;
	shift = 63 - (unsigned)__builtin_clzll(value) - SUB_BITS;
	return shift * SUB_BUCKETS + (size_t)(value >> shift);
}

static uint64_t bucket_low(size_t bucket)
{
	unsigned shift;

	if (bucket < 2 * SUB_BUCKETS)
		return bucket;
	shift = (unsigned)(bucket / SUB_BUCKETS) - 1;
	return (uint64_t)(bucket - shift * SUB_BUCKETS) << shift;
}

static uint64_t bucket_high(size_t bucket)
{
	return bucket + 1 < BUCKETS ? bucket_low(bucket + 1) - 1 : UINT64_MAX;
}

static int count_in(struct histogram *histogram, size_t bucket, uint64_t count)
{
	uint64_t **octave = &histogram->octaves[bucket / SUB_BUCKETS];

	if (!*octave)
		*octave = calloc(SUB_BUCKETS, sizeof(**octave));
	if (!*octave)
		return -ENOMEM;
	(*octave)[bucket % SUB_BUCKETS] += count;
	return 0;
}

static uint64_t counted_in(const struct histogram *histogram, size_t bucket)
{
	const uint64_t *octave = histogram->octaves[bucket / SUB_BUCKETS];

	return octave ? octave[bucket % SUB_BUCKETS] : 0;
}

int histogram_add(struct histogram *histogram, uint64_t value)
{
	int err = count_in(histogram, bucket_of(value), 1);

	if (err)
		return err;
	if (!histogram->n || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->n++;
	histogram->sum += (double)value;
	return 0;
}

int histogram_add_bucket(struct histogram *histogram, uint64_t low, uint64_t high, uint64_t count)
{
	int err = count ? count_in(histogram, bucket_of(low), count) : 0;

	if (err || !count)
		return err;
	if (!histogram->n || low < histogram->min)
		histogram->min = low;
	if (high > histogram->max)
		histogram->max = high;
	histogram->n += count;
	histogram->sum += (double)count * ((double)low + (double)high) / 2;
	return 0;
}

uint64_t histogram_count(const struct histogram *histogram)
{
	return histogram->n;
}

uint64_t histogram_min(const struct histogram *histogram)
{
	return histogram->min;
}

uint64_t histogram_max(const struct histogram *histogram)
{
	return histogram->max;
}

double histogram_mean(const struct histogram *histogram)
{
	return histogram->n ? histogram->sum / (double)histogram->n : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	uint64_t rank, seen = 0, middle;

	if (!histogram->n)
		return 0;
	/* In this order: 7 / 100 * 100 is more than 7. */
	rank = (uint64_t)ceil(percent * (double)histogram->n / 100);
	if (rank < 1)
		rank = 1;
	for (size_t i = 0; i < BUCKETS; i++) {
		seen += counted_in(histogram, i);
		if (seen < rank)
			continue;
		middle = bucket_low(i) + (bucket_high(i) - bucket_low(i)) / 2;
		if (middle < histogram->min)
			return histogram->min;
		return middle > histogram->max ? histogram->max : middle;
	}
	return histogram->max;
}

void histogram_each(const struct histogram *histogram,
		    void (*visit)(void *ctx, uint64_t low, uint64_t high, uint64_t count),
		    void *ctx)
{
	for (size_t i = 0; histogram->n && i < BUCKETS; i++)
		if (counted_in(histogram, i))
			visit(ctx, bucket_low(i), bucket_high(i), counted_in(histogram, i));
}
