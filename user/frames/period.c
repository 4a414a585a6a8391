/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/period.h"
#include "frames/sort.h"
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
	double n = (double)difference / (double)shortest + 0.5;

	return n >= 1 && n < MAX_MULTIPLE + 1 ? (unsigned)n : 0;
}

/* The differences of one multiple; they lie together and are sorted. */
struct group {
	const int64_t *next, *end;
	double multiple, value; /* value: of the next one, as one period */
};

static size_t find_groups(const int64_t *differences, size_t count, int64_t shortest,
			  struct group *groups, size_t *total)
{
	size_t n = 0;

	for (size_t i = 0; i < count;) {
		unsigned of = multiple(differences[i], shortest);
		size_t j = i, step = count - i;

		if (multiple(differences[count - 1], shortest) == of) {
			j = count;
			step = 0;
		}
		/* find where this multiple ends by halving */
		while (step) {
			size_t half = step / 2;

			if (multiple(differences[j + half], shortest) == of) {
				j += half + 1;
				step -= half + 1;
			} else {
				step = half;
			}
		}
		if (of) {
			groups[n++] = (struct group){differences + i, differences + j, of,
						     (double)differences[i] / of};
			*total += j - i;
		}
		i = j;
	}
	return n;
}

/* The median of all differences, each divided by how many periods it is: merge the groups up to
 * the middle. */
static int64_t period_of_sorted(const int64_t *differences, size_t count)
{
	struct group groups[MAX_MULTIPLE + 1];
	size_t n, total = 0;
	double low = 0, high = 0;

	if (!count)
		return 0;
	n = find_groups(differences, count, differences[(size_t)(0.05 * (double)count)], groups,
			&total);
	if (n == 1 && groups[0].multiple == 1)
		return total % 2 ? groups[0].next[total / 2]
				 : (groups[0].next[total / 2 - 1] + groups[0].next[total / 2]) / 2;
	for (size_t rank = 0; n && rank <= total / 2; rank++) {
		struct group *best = &groups[0];

		for (size_t i = 1; i < n; i++) {
			if (groups[i].value < best->value)
				best = &groups[i];
		}
		low = high;
		high = best->value;
		if (++best->next < best->end)
			best->value = (double)*best->next / best->multiple;
		else
			*best = groups[--n];
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
static size_t lower_bound(const int64_t *values, size_t count, int64_t value)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t lower_bound_double(const double *values, size_t count, double value)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Narrow the limits within which a difference stays this multiple. */
static void limit_shortest(struct period_window *w, int64_t difference, unsigned of)
{
	double d = (double)difference, above, below;

	if (of) {
		above = d / (of + 0.5);
		below = d / (of - 0.5);
	} else if (difference > w->shortest) {
		above = 0;
		below = d / (MAX_MULTIPLE + 0.5);
	} else {
		above = d / 0.5;
		below = w->shortest_below;
	}
	if (above > w->shortest_above)
		w->shortest_above = above;
	if (below < w->shortest_below)
		w->shortest_below = below;
}

static void add_period(struct period_window *w, int64_t difference)
{
	unsigned of = multiple(difference, w->shortest);
	double period = (double)difference / of;
	size_t at;

	limit_shortest(w, difference, of);
	if (!of)
		return;
	at = lower_bound_double(w->periods, w->period_count, period);
	memmove(w->periods + at + 1, w->periods + at, (w->period_count - at) * sizeof(period));
	w->periods[at] = period;
	w->period_count++;
}

static void drop_period(struct period_window *w, int64_t difference)
{
	unsigned of = multiple(difference, w->shortest);
	double period = (double)difference / of;
	size_t at;

	if (!of)
		return;
	at = lower_bound_double(w->periods, w->period_count, period);
	if (at == w->period_count)
		return;
	w->period_count--;
	memmove(w->periods + at, w->periods + at + 1, (w->period_count - at) * sizeof(period));
}

static void insert(struct period_window *w, int64_t value)
{
	size_t at;

	if (value < PERIOD_SHORTEST_NS || w->difference_count == PERIOD_WINDOW_MAX)
		return;
	at = lower_bound(w->differences, w->difference_count, value);
	memmove(w->differences + at + 1, w->differences + at,
		(w->difference_count - at) * sizeof(value));
	w->differences[at] = value;
	w->difference_count++;
	if (w->shortest)
		add_period(w, value);
}

static void erase(struct period_window *w, int64_t value)
{
	size_t at = lower_bound(w->differences, w->difference_count, value);

	if (at == w->difference_count || w->differences[at] != value)
		return;
	w->difference_count--;
	memmove(w->differences + at, w->differences + at + 1,
		(w->difference_count - at) * sizeof(value));
	if (w->shortest)
		drop_period(w, value);
}

/* The same as period_of_sorted, with what the window keeps. */
static int64_t period_of_window(struct period_window *w)
{
	int64_t shortest = w->differences[(size_t)(0.05 * (double)w->difference_count)];
	size_t middle;

	if (!w->shortest || (double)shortest <= w->shortest_above ||
	    (double)shortest >= w->shortest_below) {
		w->shortest = shortest;
		w->shortest_above = 0;
		w->shortest_below = 1e300;
		w->period_count = 0;
		for (size_t i = 0; i < w->difference_count; i++)
			add_period(w, w->differences[i]);
	}
	if (!w->period_count)
		return 0;
	middle = w->period_count / 2;
	return (int64_t)(w->period_count % 2 ? w->periods[middle]
					     : (w->periods[middle - 1] + w->periods[middle]) / 2);
}

int64_t period_at(struct period_window *w, int64_t time_ns)
{
	bool changed = false;

	if (w->low < w->count && w->low && w->times_ns[w->low - 1] >= time_ns - HALF_WINDOW_NS) {
		w->low = w->high = w->difference_count = 0;
		w->shortest = 0;
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
			w->cached_ns = period_of_window(w);
		if (!w->cached_ns)
			w->cached_ns = w->global_ns;
	}
	return w->cached_ns;
}
