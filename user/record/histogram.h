/* SPDX-License-Identifier: BSD-2-Clause */
/* Distribution of non-negative integers in bounded memory: log-linear buckets, 64 per power of two,
 * so that a percentile is at most 1/128 off its true value; n, min, max and mean are exact. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct histogram;

/* An empty one, of half a KiB; each octave in which something is counted takes as much. NULL with
 * ENOMEM. */
struct histogram *histogram_new(void);
void histogram_free(struct histogram *histogram);
/* Make it an empty one, which has memory for some octaves. */
void histogram_clear(struct histogram *histogram);
/* Count one value. 0, -ENOMEM. */
int histogram_add(struct histogram *histogram, uint64_t value);
/* Count what histogram_each() told of another one: `count` values of [low, high], as if each were
 * in the middle. 0, -ENOMEM. */
int histogram_add_bucket(struct histogram *histogram, uint64_t low, uint64_t high, uint64_t count);

uint64_t histogram_count(const struct histogram *histogram);
uint64_t histogram_min(const struct histogram *histogram);
uint64_t histogram_max(const struct histogram *histogram);
double histogram_mean(const struct histogram *histogram);
/* Nearest-rank percentile, 0 < percent <= 100: the middle of the bucket that holds it, kept within
 * [min, max]. 0 when empty. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

/* Visit every bucket that is not empty, in order: values in [low, high]. */
void histogram_each(const struct histogram *histogram,
		    void (*visit)(void *ctx, uint64_t low, uint64_t high, uint64_t count),
		    void *ctx);
