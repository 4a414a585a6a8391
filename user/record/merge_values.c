/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/merge_values.h"

#include <errno.h>

int merge_values_put(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) ? -ENOMEM : 0;
}

/* ---- numbers ---- */

/* Rounded to the nearest; 128 bits, because a voltage in uV times a count does not fit into 64. */
static int64_t mean_of(int64_t a, int64_t b, const struct merge_weights *weights)
{
	__int128 total = (__int128)weights->sum + weights->more;
	__int128 product = (__int128)a * weights->sum + (__int128)b * weights->more;

	return (int64_t)((product + (product < 0 ? -total : total) / 2) / total);
}

static int merge_whole(const struct field *row, json_t *sum, int64_t a, int64_t b,
		       const struct merge_weights *weights)
{
	int64_t value = b;

	switch ((enum field_merge)row->merge) {
	case MERGE_SUM:
		if (__builtin_add_overflow(a, b, &value))
			return -ENOTSUP;
		break;
	case MERGE_MIN:
		value = a < b ? a : b;
		break;
	case MERGE_MAX:
		value = a > b ? a : b;
		break;
	case MERGE_MEAN:
		value = mean_of(a, b, weights);
		break;
	case MERGE_DEFAULT:
	case MERGE_KEY:
	case MERGE_LAST:
	case MERGE_ABSENT:
		break;
	}
	return merge_values_put(sum, row->key, json_integer(value));
}

static int merge_real(const struct field *row, json_t *sum, double a, double b,
		      const struct merge_weights *weights)
{
	double value = b;

	if (row->merge == MERGE_SUM)
		value = a + b;
	else if (row->merge == MERGE_MIN)
		value = a < b ? a : b;
	else if (row->merge == MERGE_MAX)
		value = a > b ? a : b;
	else if (row->merge == MERGE_MEAN)
		value = (a * (double)weights->sum + b * (double)weights->more) /
			(double)(weights->sum + weights->more);
	return merge_values_put(sum, row->key, json_real(value));
}

int merge_values_number(const struct field *row, json_t *sum, const json_t *a, const json_t *b,
			const struct merge_weights *weights)
{
	if (json_is_integer(a) && json_is_integer(b))
		return merge_whole(row, sum, json_integer_value(a), json_integer_value(b), weights);
	return merge_real(row, sum, json_number_value(a), json_number_value(b), weights);
}

/* ---- counters, reasons, histograms ---- */

int merge_values_counts(json_t *sum, const json_t *more)
{
	const char *key;
	json_t *count;

	json_object_foreach ((json_t *)more, key, count) {
		json_int_t value;

		if (__builtin_add_overflow(json_integer_value(json_object_get(sum, key)),
					   json_integer_value(count), &value))
			return -ENOTSUP;
		if (merge_values_put(sum, key, json_integer(value)))
			return -ENOMEM;
	}
	return 0;
}

static json_int_t bucket_part(const json_t *list, size_t i, size_t part)
{
	return json_integer_value(json_array_get(json_array_get(list, i), part));
}

static int add_bucket(json_t *list, json_int_t low, json_int_t high, json_int_t count)
{
	json_t *bucket = json_pack("[I,I,I]", low, high, count);

	return !bucket || json_array_append_new(list, bucket) ? -ENOMEM : 0;
}

int merge_values_histogram(const struct field *row, json_t *sum, const json_t *a, const json_t *b)
{
	size_t i = 0, k = 0, a_count = json_array_size(a), b_count = json_array_size(b);
	json_t *list = json_array();
	int err = list ? 0 : -ENOMEM;

	while (!err && (i < a_count || k < b_count)) {
		json_int_t a_low = bucket_part(a, i, 0), b_low = bucket_part(b, k, 0), count = 0;
		bool first = i < a_count && (k == b_count || a_low <= b_low);
		bool second = k < b_count && (i == a_count || b_low <= a_low);
		const json_t *of = first ? a : b;
		size_t at = first ? i : k;

		if (first && second &&
		    (bucket_part(a, i, 1) != bucket_part(b, k, 1) ||
		     __builtin_add_overflow(bucket_part(a, i, 2), bucket_part(b, k, 2), &count)))
			err = -ENOTSUP;
		else if (!first || !second)
			count = bucket_part(of, at, 2);
		if (!err)
			err = add_bucket(list, bucket_part(of, at, 0), bucket_part(of, at, 1),
					 count);
		i += first;
		k += second;
	}
	if (err)
		json_decref(list);
	return err ? err : merge_values_put(sum, row->key, list);
}
