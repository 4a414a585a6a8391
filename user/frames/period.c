/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/period.h"
#include "frames/sort.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define HALF_WINDOW_NS 500000000
#define MIN_LOCAL      4
#define MAX_MULTIPLE   8

size_t period_sort(int64_t *times_ns, size_t count)
{
	size_t kept = 0;

	sort_i64(times_ns, count);
	for (size_t i = 0; i < count; i++) {
		if (!kept || times_ns[i] != times_ns[kept - 1])
			times_ns[kept++] = times_ns[i];
	}
	return kept;
}

/* How many periods a difference is, 0 where it says nothing about the period. */
static unsigned multiple(int64_t difference, int64_t shortest)
{
	double n = round((double)difference / (double)shortest);

	return n >= 1 && n <= MAX_MULTIPLE ? (unsigned)n : 0;
}

/* The median of all differences, each divided by how many periods it is. differences are sorted,
 * so those of one multiple lie together and are sorted themselves: merge up to the middle. */
static int64_t period_of_sorted(const int64_t *differences, size_t count)
{
	size_t next[MAX_MULTIPLE + 1], end[MAX_MULTIPLE + 1], total = 0;
	int64_t shortest;
	double low = 0, high = 0;

	if (!count)
		return 0;
	shortest = differences[(size_t)(0.05 * (double)count)];
	memset(next, 0, sizeof(next));
	memset(end, 0, sizeof(end));
	for (size_t i = 0; i < count;) {
		unsigned n = multiple(differences[i], shortest);
		size_t j = i, step = count - i;

		/* find where this multiple ends by halving */
		while (step) {
			size_t half = step / 2;

			if (multiple(differences[j + half], shortest) == n) {
				j += half + 1;
				step -= half + 1;
			} else {
				step = half;
			}
		}
		if (n) {
			next[n] = i;
			end[n] = j;
			total += j - i;
		}
		i = j;
	}
	if (!total)
		return 0;
	for (size_t rank = 0; rank <= total / 2; rank++) {
		unsigned best = 0;
		double best_value = 0;

		for (unsigned n = 1; n <= MAX_MULTIPLE; n++) {
			double value;

			if (next[n] == end[n])
				continue;
			value = (double)differences[next[n]] / n;
			if (!best || value < best_value) {
				best = n;
				best_value = value;
			}
		}
		next[best]++;
		low = high;
		high = best_value;
	}
	return (int64_t)(total % 2 ? high : (low + high) / 2);
}

int64_t period_global(const int64_t *times_ns, size_t count, int64_t *scratch)
{
	size_t n = 0;

	for (size_t i = 1; i < count; i++) {
		int64_t difference = times_ns[i] - times_ns[i - 1];

		if (difference >= PERIOD_SHORTEST_NS && difference <= PERIOD_LONGEST_NS)
			scratch[n++] = difference;
	}
	sort_i64(scratch, n);
	return period_of_sorted(scratch, n);
}

void period_window_init(struct period_window *window, const int64_t *times_ns, size_t count,
			int64_t global_ns)
{
	memset(window, 0, sizeof(*window));
	window->times_ns = times_ns;
	window->count = count;
	window->global_ns = global_ns;
	window->cached_ns = global_ns;
}

/* Index of the first difference that is not below value. */
static size_t lower_bound(const struct period_window *w, int64_t value)
{
	size_t low = 0, high = w->difference_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (w->differences[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void insert(struct period_window *w, int64_t value)
{
	size_t at;

	if (value < PERIOD_SHORTEST_NS || w->difference_count == PERIOD_WINDOW_MAX)
		return;
	at = lower_bound(w, value);
	memmove(w->differences + at + 1, w->differences + at,
		(w->difference_count - at) * sizeof(value));
	w->differences[at] = value;
	w->difference_count++;
}

static void erase(struct period_window *w, int64_t value)
{
	size_t at = lower_bound(w, value);

	if (at == w->difference_count || w->differences[at] != value)
		return;
	w->difference_count--;
	memmove(w->differences + at, w->differences + at + 1,
		(w->difference_count - at) * sizeof(value));
}

int64_t period_at(struct period_window *w, int64_t time_ns)
{
	bool changed = false;

	if (w->low < w->count && w->low && w->times_ns[w->low - 1] >= time_ns - HALF_WINDOW_NS) {
		w->low = w->high = w->difference_count = 0;
		changed = true;
	}
	while (w->high < w->count && w->times_ns[w->high] <= time_ns + HALF_WINDOW_NS) {
		if (w->high > w->low)
			insert(w, w->times_ns[w->high] - w->times_ns[w->high - 1]);
		w->high++;
		changed = true;
		/* a jump ahead: what falls out at once must not fill the window */
		while (w->low < w->high && w->times_ns[w->low] < time_ns - HALF_WINDOW_NS) {
			if (w->low + 1 < w->high)
				erase(w, w->times_ns[w->low + 1] - w->times_ns[w->low]);
			w->low++;
		}
	}
	while (w->low < w->high && w->times_ns[w->low] < time_ns - HALF_WINDOW_NS) {
		if (w->low + 1 < w->high)
			erase(w, w->times_ns[w->low + 1] - w->times_ns[w->low]);
		w->low++;
		changed = true;
	}
	if (changed) {
		w->cached_ns = 0;
		if (w->difference_count >= MIN_LOCAL)
			w->cached_ns = period_of_sorted(w->differences, w->difference_count);
		if (!w->cached_ns)
			w->cached_ns = w->global_ns;
	}
	return w->cached_ns;
}
