/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of two intervals as one: numbers by their row of the table, counters and histograms.
 * 0; -ENOTSUP: the sum does not fit into a number, or buckets do not agree; -ENOMEM. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "jankscope/field.h"

/* What a part of an interval weighs where a mean is made: in how many intervals it is. */
struct merge_weights {
	int64_t sum, more;
};

/* Set a key of an object; the value is taken over. 0, -ENOMEM. */
int merge_values_put(json_t *object, const char *key, json_t *value);
/* Put into sum, under the row's key, what a (of sum) and b are together. */
int merge_values_number(const struct field *row, json_t *sum, const json_t *a, const json_t *b,
			const struct merge_weights *weights);
/* Add each counter of `more` to that of sum. */
int merge_values_counts(json_t *sum, const json_t *more);
/* The same of lists of buckets; all histograms have the same buckets, lowest first. */
int merge_values_histogram(const struct field *row, json_t *sum, const json_t *a, const json_t *b);
