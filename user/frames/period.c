/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/period.h"
#include "frames/sort.h"
#include <string.h>

#define HALF_WINDOW_NS 500000000
#define MIN_LOCAL      4
#define MAX_MULTIPLE   8
#define BINS           256

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
static unsigned multiple(double difference, double shortest)
{
	double n = difference / shortest + 0.5;

	return n >= 1 && n < MAX_MULTIPLE + 1 ? (unsigned)n : 0;
}

/* Differences of times, or, where the shortest is given, each as one period. They are computed anew
 * in each pass: an array of them would be a fifth of what the frames themselves take. */
struct series {
	const int64_t *times_ns;
	size_t count;
	double shortest; /* 0: the differences themselves */
};

/* The value before times[i]; 0: none that counts. */
static inline double series_at(const struct series *s, size_t i)
{
	int64_t difference_ns = s->times_ns[i] - s->times_ns[i - 1];
	double difference = (double)difference_ns;
	unsigned of;

	if (difference_ns < PERIOD_SHORTEST_NS || difference_ns > PERIOD_LONGEST_NS)
		return 0;
	if (s->shortest <= 0)
		return difference;
	of = multiple(difference, s->shortest);
	return of ? difference / of : 0;
}

static size_t series_count(const struct series *s)
{
	size_t n = 0;

	for (size_t i = 1; i < s->count; i++)
		n += series_at(s, i) > 0;
	return n;
}

struct bin {
	size_t count;
	double low, high; /* of what fell into it */
};

/* The value of this rank: sort into bins, then what fell into its bin into finer ones, until that
 * is one value. All values lie in [low, high]. */
static double series_select(const struct series *s, size_t rank, double low, double high)
{
	while (low < high) {
		struct bin bins[BINS] = {{0}};
		double scale = (BINS - 1) / (high - low);
		size_t at = 0;

		for (size_t i = 1; i < s->count; i++) {
			double value = series_at(s, i);
			struct bin *bin;

			if (!(value >= low && value <= high))
				continue;
			bin = &bins[(size_t)((value - low) * scale)];
			bin->low = bin->count && bin->low < value ? bin->low : value;
			bin->high = bin->count && bin->high > value ? bin->high : value;
			bin->count++;
		}
		while (rank >= bins[at].count)
			rank -= bins[at++].count;
		low = bins[at].low;
		high = bins[at].high;
	}
	return low;
}

/* The value of the rank before the one of this value. */
static double series_before(const struct series *s, size_t rank, double value)
{
	double below = 0;
	size_t less = 0;

	for (size_t i = 1; i < s->count; i++) {
		double other = series_at(s, i);

		if (other <= 0 || other >= value)
			continue;
		less++;
		below = other > below ? other : below;
	}
	return less == rank ? below : value;
}

int64_t period_global(const int64_t *times_ns, size_t count)
{
	struct series series = {times_ns, count, 0};
	size_t n = series_count(&series), rank = (size_t)(0.05 * (double)n);
	double high;

	if (!n)
		return 0;
	series.shortest = series_select(&series, rank, PERIOD_SHORTEST_NS, PERIOD_LONGEST_NS);
	/* the shortest is one period of itself, so at least that one is there */
	n = series_count(&series);
	high = series_select(&series, n / 2, series.shortest / 4, series.shortest * 2);
	if (n % 2)
		return (int64_t)high;
	return (int64_t)((series_before(&series, n / 2, high) + high) / 2);
}

void period_window_init(struct period_window *window, const int64_t *times_ns, size_t count,
			int64_t global_ns)
{
	window->times_ns = times_ns;
	window->count = count;
	window->low = window->high = 0;
	window->global_ns = global_ns;
	window->cached_ns = global_ns;
	window->difference_count = 0;
	window->shortest = 0;
}

/* The first place whose value is not below. */
static size_t sorted_find(const struct period_sorted *s, double value)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void sorted_remove(struct period_sorted *s, double value)
{
	size_t at = sorted_find(s, value);

	if (at == s->count)
		return;
	s->count--;
	memmove(s->values + at, s->values + at + 1, (s->count - at) * sizeof(s->values[0]));
}

static void sorted_add(struct period_sorted *s, double value)
{
	size_t at;

	if (s->count == PERIOD_WINDOW_MAX)
		return;
	at = sorted_find(s, value);
	memmove(s->values + at + 1, s->values + at, (s->count - at) * sizeof(s->values[0]));
	s->values[at] = value;
	s->count++;
}

/* Narrow the limits within which a difference stays this multiple. */
static void limit_shortest(struct period_window *w, double difference, unsigned of)
{
	double above = 0, below = w->below;

	if (of) {
		above = difference / (of + 0.5);
		below = difference / (of - 0.5);
	} else if (difference > w->shortest) {
		below = difference / (MAX_MULTIPLE + 0.5);
	} else {
		above = difference / 0.5;
	}
	if (above > w->above) {
		w->above = above;
		w->moved = true;
	}
	if (below < w->below) {
		w->below = below;
		w->moved = true;
	}
}

static void add_period(struct period_window *w, double difference)
{
	unsigned of = multiple(difference, w->shortest);

	limit_shortest(w, difference, of);
	if (of)
		sorted_add(&w->periods, difference / of);
}

static void insert(struct period_window *w, int64_t difference_ns)
{
	double difference = (double)difference_ns;

	if (difference_ns < PERIOD_SHORTEST_NS)
		return;
	w->difference_count++;
	if (w->shortest <= 0)
		return;
	add_period(w, difference);
	w->not_above += difference <= w->above;
	w->under += difference < w->below;
}

static void erase(struct period_window *w, int64_t difference_ns)
{
	double difference = (double)difference_ns;
	unsigned of;

	if (difference_ns < PERIOD_SHORTEST_NS)
		return;
	w->difference_count--;
	if (w->shortest <= 0)
		return;
	of = multiple(difference, w->shortest);
	if (of)
		sorted_remove(&w->periods, difference / of);
	w->not_above -= difference <= w->above;
	w->under -= difference < w->below;
}

static size_t window_differences(const struct period_window *w, double *differences)
{
	size_t n = 0;

	for (size_t i = w->low + 1; i < w->high && n < PERIOD_WINDOW_MAX; i++) {
		int64_t difference_ns = w->times_ns[i] - w->times_ns[i - 1];

		if (difference_ns >= PERIOD_SHORTEST_NS)
			differences[n++] = (double)difference_ns;
	}
	return n;
}

static void count_limits(struct period_window *w)
{
	double differences[PERIOD_WINDOW_MAX];
	size_t n = window_differences(w, differences);

	w->not_above = 0;
	w->under = 0;
	for (size_t i = 0; i < n; i++) {
		w->not_above += differences[i] <= w->above;
		w->under += differences[i] < w->below;
	}
	w->moved = false;
}

/* The shortest is another one, or the first. */
static void start_over(struct period_window *w, size_t rank)
{
	double differences[PERIOD_WINDOW_MAX];
	size_t n = window_differences(w, differences);

	w->shortest = select_double(differences, n, rank);
	w->above = 0;
	w->below = 1e300;
	w->periods.count = 0;
	for (size_t i = 0; i < n; i++)
		add_period(w, differences[i]);
	count_limits(w);
}

/* The same as period_global, with what the window keeps. */
static int64_t period_of_window(struct period_window *w)
{
	const double *periods = w->periods.values;
	size_t rank = (size_t)(0.05 * (double)w->difference_count), middle;

	if (w->shortest > 0 && w->moved)
		count_limits(w);
	/* whether the difference of that rank lies between the limits */
	if (w->shortest <= 0 || rank < w->not_above || rank >= w->under)
		start_over(w, rank);
	if (!w->periods.count)
		return 0;
	middle = w->periods.count / 2;
	return (int64_t)(w->periods.count % 2 ? periods[middle]
					      : (periods[middle - 1] + periods[middle]) / 2);
}

int64_t period_at(struct period_window *w, int64_t time_ns)
{
	int64_t from_ns = time_ns - HALF_WINDOW_NS, to_ns = time_ns + HALF_WINDOW_NS;
	bool back = w->low && w->low < w->count && w->times_ns[w->low - 1] >= from_ns;
	size_t low, high;

	if (back)
		period_window_init(w, w->times_ns, w->count, w->global_ns);
	low = w->low;
	high = w->high;
	for (; w->low < w->high && w->times_ns[w->low] < from_ns; w->low++) {
		if (w->low + 1 < w->high)
			erase(w, w->times_ns[w->low + 1] - w->times_ns[w->low]);
	}
	/* a jump ahead */
	while (w->low == w->high && w->high < w->count && w->times_ns[w->high] < from_ns)
		w->low = ++w->high;
	for (; w->high < w->count && w->times_ns[w->high] <= to_ns; w->high++) {
		if (w->high > w->low)
			insert(w, w->times_ns[w->high] - w->times_ns[w->high - 1]);
	}
	if (back || w->low != low || w->high != high) {
		w->cached_ns = 0;
		if (w->difference_count >= MIN_LOCAL)
			w->cached_ns = period_of_window(w);
		if (!w->cached_ns)
			w->cached_ns = w->global_ns;
	}
	return w->cached_ns;
}

void period_steady_init(struct period_steady *s, const int64_t *times_ns, size_t count)
{
	*s = (struct period_steady){.times_ns = times_ns, .count = count};
}

/* Count the difference before times[i] in or out. Near a multiple is within 3 %: then every
 * shortest difference that is itself within 3 % of one period gives the same multiple, up to the
 * eighth. */
static void steady_count(struct period_steady *s, size_t i, size_t by)
{
	int64_t difference_ns = s->times_ns[i] - s->times_ns[i - 1];
	double periods = (double)difference_ns / s->period_ns, nearest = (unsigned)(periods + 0.5);

	if (difference_ns < PERIOD_SHORTEST_NS || periods > (MAX_MULTIPLE + 1) * 1.03)
		return; /* counts as no period */
	if (nearest < 1 || nearest > MAX_MULTIPLE || periods < nearest * 0.97 ||
	    periods > nearest * 1.03)
		s->others += by;
	else if (nearest > 1)
		s->multiples += by;
	else
		s->ones += by;
}

bool period_is_steady(struct period_steady *s, int64_t time_ns, int64_t period_ns)
{
	int64_t from_ns = time_ns - HALF_WINDOW_NS, to_ns = time_ns + HALF_WINDOW_NS;
	size_t low = s->low, high = s->high;

	while (high < s->count && s->times_ns[high] <= to_ns)
		high++;
	while (low < high && s->times_ns[low] < from_ns)
		low++;
	if (s->period_ns != (double)period_ns || low >= s->high) {
		s->period_ns = (double)period_ns;
		s->ones = s->multiples = s->others = 0;
		for (size_t i = low + 1; i < high; i++)
			steady_count(s, i, 1);
	} else {
		for (size_t i = s->low + 1; i <= low; i++)
			steady_count(s, i, -(size_t)1);
		for (size_t i = s->high; i < high; i++)
			steady_count(s, i, 1);
	}
	s->low = low;
	s->high = high;
	/* the shortest difference is the one of this rank; longer ones only lower the rank's share
	 */
	return !s->others && s->ones + s->multiples >= MIN_LOCAL && s->ones > (high - low) / 20;
}
