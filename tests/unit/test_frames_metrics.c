/* SPDX-License-Identifier: BSD-2-Clause */
/* The vectors of README.md of user/frames. */
#include "frames/metrics.h"
#include "frames/period.h"
#include "frames/sort.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define V 16666667LL

static int64_t period_of_steps(const unsigned *steps, size_t count, int64_t unit)
{
	int64_t times[200];

	times[0] = 1000000000;
	for (size_t i = 0; i < count; i++)
		times[i + 1] = times[i] + steps[i] * unit;
	return period_global(times, count + 1);
}

Test(period, global_vectors)
{
	static const unsigned mixed[] = {1, 1, 2, 1, 3, 1, 1, 8, 1, 1}, halved[] = {2, 2, 4, 2, 2};
	int64_t times[66];

	cr_assert_eq(period_of_steps(mixed, 10, 8333333), 8333333);
	cr_assert_eq(period_of_steps(halved, 5, 8333333), 16666666);
	times[0] = 0;
	for (size_t i = 1; i < 66; i++)
		times[i] = times[i - 1] + (i <= 5 ? 16666667 : 8333333);
	cr_assert_eq(period_global(times, 66), 8333333);
	cr_assert_eq(period_global(times, 1), 0);
	cr_assert_eq(period_global(times, 0), 0);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The period of these differences, computed the slow way. */
static int64_t slow_period_of(double *d, size_t n)
{
	double *c = malloc(n * sizeof(*c)), shortest, middle;
	int64_t period;
	size_t m = 0;

	qsort(d, n, sizeof(d[0]), compare_double);
	shortest = d[(size_t)(0.05 * (double)n)];
	for (size_t i = 0; i < n; i++) {
		double multiple = (double)(int64_t)(d[i] / shortest + 0.5);

		if (multiple >= 1 && multiple <= 8)
			c[m++] = d[i] / multiple;
	}
	qsort(c, m, sizeof(c[0]), compare_double);
	middle = 0.5 * (double)(m - 1);
	period = (int64_t)(m % 2 ? c[(size_t)middle]
				 : (c[(size_t)middle] + c[(size_t)middle + 1]) / 2);
	free(c);
	return period;
}

Test(period, global_equals_the_slow_way)
{
	int64_t times[1001];
	double d[1000];
	unsigned seed = 3;

	for (unsigned round = 0; round < 300; round++) {
		size_t count = 2 + round * 3;
		int64_t unit = 1 + round % 7 * (round % 3 ? 1 : 777777), range = 1 + round % 40;

		for (size_t i = 0; i < count; i++) {
			seed = seed * 1103515245 + 12345;
			d[i] = 3500000 + (double)((int64_t)(seed >> 8) % (range * range) * unit);
			times[i] = i ? times[i - 1] + (int64_t)d[i] : 0;
		}
		cr_assert_eq(period_global(times, count), slow_period_of(d + 1, count - 1),
			     "round %u", round);
	}
}

/* What period_at must give. */
static int64_t slow_period(const int64_t *times, size_t count, int64_t at, int64_t fallback)
{
	double d[300];
	size_t n = 0;

	for (size_t i = 1; i < count; i++) {
		if (times[i - 1] >= at - 500000000 && times[i] <= at + 500000000 &&
		    times[i] - times[i - 1] >= 3500000)
			d[n++] = (double)(times[i] - times[i - 1]);
	}
	return n < 4 ? fallback : slow_period_of(d, n);
}

Test(period, window_equals_the_slow_way)
{
	enum { COUNT = 5000 };
	int64_t *times = calloc(COUNT, sizeof(*times));
	struct period_window window;
	unsigned seed = 7;

	for (size_t i = 1; i < COUNT; i++) {
		int64_t step = i < 1500 ? 16666667 : i < 3000 ? 8333333 : 11111111;

		seed = seed * 1103515245 + 12345;
		step *= 1 + (seed >> 16 & 7) / 6;
		step += (seed >> 20) % 2001 - 1000;
		if (i % 700 == 0)
			step += 3000000000;
		times[i] = times[i - 1] + step;
	}
	period_window_init(&window, times, COUNT, 123);
	for (size_t i = 0; i < COUNT; i += 3) {
		int64_t at = times[i] + (int64_t)(i % 5) * 1000000;

		cr_assert_eq(period_at(&window, at), slow_period(times, COUNT, at, 123), "at %zu",
			     i);
	}
	/* steps of any size, over displays of any rate */
	for (size_t i = 1; i < COUNT; i++) {
		seed = seed * 1103515245 + 12345;
		times[i] = times[i - 1] + 1 + (seed >> 8) % (i % 900 < 300 ? 9000000 : 90000000);
	}
	for (size_t i = 0; i < COUNT; i += 1 + i % 7 * (i % 40 == 0)) {
		cr_assert_eq(period_at(&window, times[i]), slow_period(times, COUNT, times[i], 123),
			     "at %zu", i);
	}
	/* going back starts over */
	cr_assert_eq(period_at(&window, times[40]), slow_period(times, COUNT, times[40], 123));
	free(times);
}

/* A steady period is the one that the slow way finds, whatever lies between. */
Test(period, steady_is_never_wrong)
{
	enum { COUNT = 20000 };
	int64_t *times = calloc(COUNT, sizeof(*times)), period_ns = 8333333;
	struct period_steady steady;
	unsigned seed = 3, yes = 0, no = 0;

	for (size_t i = 1; i < COUNT; i++) {
		int64_t step = i % 4000 < 2500 ? 8333333 : 16666667;

		seed = seed * 1103515245 + 12345;
		/* stretches of plain steps, of multiples, of wild ones, and gaps */
		if (i % 1500 > 700)
			step *= 1 + (seed >> 16) % (i % 1500 > 1400 ? 10 : 3);
		step += (int64_t)((seed >> 8) % 2001 - 1000) * (i % 3000 > 2900 ? 400 : 30);
		times[i] = times[i - 1] + (i % 911 ? step : 700000000);
	}
	period_steady_init(&steady, times, COUNT);
	for (size_t i = 0; i < COUNT; i += 1 + (i % 97 == 0) * (i % 300)) {
		int64_t slow = slow_period(times, COUNT, times[i], 0);

		if (period_is_steady(&steady, times[i], period_ns)) {
			yes++;
			cr_assert_leq(llabs(slow - period_ns), period_ns / 25, "%lld at %zu",
				      (long long)slow, i);
		} else if (slow) {
			no++;
			period_ns = slow;
		}
	}
	cr_assert_gt(yes, 2 * no, "%u, %u", yes, no);
	free(times);
}

Test(sort, any_order)
{
	enum { COUNT = 20000 };
	int64_t *values = malloc(COUNT * sizeof(*values));

	for (unsigned kind = 0; kind < 5; kind++) {
		unsigned seed = kind;

		for (size_t i = 0; i < COUNT; i++) {
			seed = seed * 1103515245 + 12345;
			values[i] = kind == 0   ? (int64_t)i
				    : kind == 1 ? (int64_t)(COUNT - i)
				    : kind == 2 ? 5
				    : kind == 3 ? (int64_t)(i % 2)
						: (int64_t)seed;
		}
		sort_i64(values, COUNT);
		for (size_t i = 1; i < COUNT; i++)
			cr_assert(values[i - 1] <= values[i], "kind %u at %zu", kind, i);
	}
	free(values);
}

Test(sort, any_rank)
{
	enum { COUNT = 2000 };
	int64_t values[COUNT], sorted[COUNT];
	double doubles[COUNT];

	for (unsigned kind = 0; kind < 5 * COUNT; kind += 37) {
		size_t rank = kind / 5;
		unsigned seed = kind;

		for (size_t i = 0; i < COUNT; i++) {
			seed = seed * 1103515245 + 12345;
			values[i] = kind % 5 == 0   ? (int64_t)i
				    : kind % 5 == 1 ? (int64_t)(COUNT - i)
				    : kind % 5 == 2 ? 5
				    : kind % 5 == 3 ? (int64_t)(seed >> 30)
						    : (int64_t)seed;
			sorted[i] = values[i];
			doubles[i] = (double)values[i];
		}
		sort_i64(sorted, COUNT);
		cr_assert_eq(select_i64(values, COUNT, rank), sorted[rank]);
		cr_assert_eq((int64_t)select_double(doubles, COUNT, rank), sorted[rank]);
		for (size_t i = 0; i < COUNT; i++)
			cr_assert(i < rank ? values[i] <= values[rank] : values[i] >= values[rank]);
	}
}

Test(metrics, percentiles)
{
	static const int64_t values[] = {16, 16, 17, 33, 100};

	cr_assert_float_eq(percentile_i64(values, 5, 0.50), 17, 1e-9);
	cr_assert_float_eq(percentile_i64(values, 5, 0.90), 73.2, 1e-9);
	cr_assert_float_eq(percentile_i64(values, 5, 0.95), 86.6, 1e-9);
	cr_assert_float_eq(percentile_i64(values, 5, 0.99), 97.32, 1e-9);
}

Test(matrix, levels)
{
	cr_assert_eq(matrix_level(V, V), MATRIX_BEST);
	cr_assert_eq(matrix_level(58333333, V), MATRIX_BEST);
	cr_assert_eq(matrix_level(58333335, V), MATRIX_NORMAL);
	cr_assert_eq(matrix_level(158333337, V), MATRIX_MIDDLE);
	cr_assert_eq(matrix_level(416666675, V), MATRIX_HIGH);
	cr_assert_eq(matrix_level(716666681, V), MATRIX_FROZEN);
	cr_assert_eq(matrix_level(29166666, 8333333), MATRIX_NORMAL);
	cr_assert_eq(matrix_level(79166664, 8333333), MATRIX_MIDDLE);
	cr_assert_eq(matrix_level(208333325, 8333333), MATRIX_HIGH);
	cr_assert_eq(matrix_level(358333319, 8333333), MATRIX_FROZEN);
}

static struct sm sm_of(const unsigned (*ranges)[3], size_t count)
{
	struct sm sm = {.started = false};

	/* from, to, step */
	for (size_t i = 0; i < count; i++) {
		for (unsigned k = ranges[i][0]; k <= ranges[i][1]; k += ranges[i][2])
			cr_assert_eq(sm_add(&sm, k * V), 0);
	}
	sm_finish(&sm);
	return sm;
}

Test(sm, steady)
{
	static const unsigned ranges[][3] = {{0, 300, 1}};
	struct sm sm = sm_of(ranges, 1);

	cr_assert_eq(sm.min, 60);
	cr_assert_eq(sm.big_janks, 0);
	cr_assert_eq(sm.low_count, 0);
	cr_assert_float_eq(sm.sum / (double)sm.evaluations, 60, 1e-9);
	sm_free(&sm);
}

Test(sm, one_long_block)
{
	static const unsigned ranges[][3] = {{0, 119, 1}, {149, 269, 1}};
	struct sm sm = sm_of(ranges, 2);

	cr_assert_eq(sm.min, 31);
	cr_assert_eq(sm.big_janks, 1);
	cr_assert_eq(sm.low_count, 1);
	cr_assert_eq(sm.lows[0].start_ns, 2483333383);
	cr_assert_eq(sm.lows[0].end_ns, 3133333396);
	cr_assert_eq(sm.lows[0].min, 31);
	sm_free(&sm);
}

Test(sm, blocks_around_the_limit)
{
	static const unsigned below[][3] = {{0, 119, 1}, {141, 269, 1}};
	static const unsigned above[][3] = {{0, 119, 1}, {139, 269, 1}};
	static const unsigned small[][3] = {{0, 119, 1}, {123, 269, 1}};
	static const unsigned big[][3] = {{0, 119, 1}, {124, 269, 1}};
	struct sm sm = sm_of(below, 2);

	cr_assert_eq(sm.min, 39);
	cr_assert_eq(sm.low_count, 1);
	cr_assert_eq(sm.lows[0].start_ns, 2350000047);
	cr_assert_eq(sm.lows[0].end_ns, 3000000060);
	sm_free(&sm);
	sm = sm_of(above, 2);
	cr_assert_eq(sm.min, 41);
	cr_assert_eq(sm.low_count, 0);
	cr_assert_eq(sm.big_janks, 1);
	sm_free(&sm);
	sm = sm_of(small, 2);
	cr_assert_eq(sm.big_janks, 0);
	sm_free(&sm);
	sm = sm_of(big, 2);
	cr_assert_eq(sm.big_janks, 1);
	sm_free(&sm);
}

Test(sm, half_the_rate_for_a_while)
{
	static const unsigned ranges[][3] = {{0, 59, 1}, {60, 238, 2}, {240, 400, 1}};
	struct sm sm = sm_of(ranges, 3);

	cr_assert_eq(sm.min, 30);
	cr_assert_eq(sm.low_count, 1);
	cr_assert_eq(sm.lows[0].start_ns, 1700000034);
	cr_assert_eq(sm.lows[0].end_ns, 4316666753);
	sm_free(&sm);
}

static struct perfdog perfdog_of(const int64_t *intervals, size_t count)
{
	struct perfdog perfdog = {.jank = 0};

	for (size_t i = 0; i < count; i++)
		perfdog_add(&perfdog, intervals[i]);
	return perfdog;
}

#define PERFDOG(...)                               \
	perfdog_of((const int64_t[]){__VA_ARGS__}, \
		   sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

Test(perfdog, vectors)
{
	struct perfdog p = PERFDOG(V, V, V, 83333333);

	cr_assert_eq(p.jank, 0);
	p = PERFDOG(V, V, V, 83333334);
	cr_assert_eq(p.jank, 1);
	p = PERFDOG(V, V, V, 125000000);
	cr_assert_eq(p.jank, 1);
	cr_assert_eq(p.big_jank, 0);
	p = PERFDOG(V, V, V, 125000001);
	cr_assert_eq(p.big_jank, 1);
	p = PERFDOG(50000000, 50000000, 50000000, 100000000);
	cr_assert_eq(p.jank, 0);
	p = PERFDOG(50000000, 50000000, 50000000, 100000001);
	cr_assert_eq(p.jank, 1);
	p = PERFDOG(100000000, 100000000, 100000000, 100000000, 100000000, 100000000);
	cr_assert_eq(p.jank, 0);
	p = PERFDOG(V, V, 200000000);
	cr_assert_eq(p.jank, 0);
	p = PERFDOG(V, V, V, 200000000, 200000000, 200000000);
	cr_assert_eq(p.jank, 2);
	cr_assert_eq(p.big_jank, 2);
	cr_assert_float_eq(perfdog_stutter_pct(&p), 61.538, 0.001);
}

/* A layer presented at these refreshes, due at these ones; due -1: not predicted. */
struct shown {
	int at, due;
};

static struct layer_metrics metrics_of(const struct shown *shown, size_t count)
{
	struct frame frames[128];
	struct layer_metrics m;
	struct metrics_input input = {
		.frames = frames, .count = count, .period_ns = V, .covered_ns = INT64_MAX};

	for (size_t i = 0; i < count; i++)
		frames[i] = (struct frame){
			.present_ns = 1000000000 + shown[i].at * V,
			.predicted_ns =
				shown[i].due < 0 ? TIMELINE_NONE : 1000000000 + shown[i].due * V,
			.work_ns = TIMELINE_NONE,
			.cookie = (int64_t)i,
		};
	cr_assert_eq(layer_metrics_compute(&m, &input), 0);
	return m;
}

static void expect(struct layer_metrics *m, double raw, double active, double p99, uint64_t dropped,
		   uint64_t dropped_interval, uint64_t jank, uint64_t big, double stutter)
{
	cr_assert_float_eq(m->fps_raw, raw, 0.0005, "raw %f", m->fps_raw);
	cr_assert_float_eq(m->fps_active, active, 0.0005, "active %f", m->fps_active);
	cr_assert_float_eq(m->intervals.p99, p99, 0.6, "p99 %f", m->intervals.p99);
	cr_assert_eq(m->dropped, dropped);
	cr_assert_eq(m->dropped_interval, dropped_interval);
	cr_assert_eq(m->perfdog.jank, jank);
	cr_assert_eq(m->perfdog.big_jank, big);
	cr_assert_float_eq(perfdog_stutter_pct(&m->perfdog), stutter, 0.0005);
	layer_metrics_free(m);
}

Test(metrics, synthetic_vectors)
{
	struct shown s[128];
	struct layer_metrics m;
	size_t n;

	/* A: every refresh */
	for (n = 0; n < 61; n++)
		s[n] = (struct shown){(int)n, (int)n};
	m = metrics_of(s, n);
	expect(&m, 60, 60, 16666667, 0, 0, 0, 0, 0);
	/* B: the frame due at 30 is shown at 35 */
	for (n = 0; n < 30; n++)
		s[n] = (struct shown){(int)n, (int)n};
	s[n++] = (struct shown){35, 30};
	for (int k = 36; k <= 60; k++)
		s[n++] = (struct shown){k, k};
	cr_assert_eq(n, 56);
	m = metrics_of(s, n);
	expect(&m, 55, 55, 55000001, 5, 5, 1, 0, 10.0);
	/* F: as B, but nothing is predicted */
	for (size_t i = 0; i < n; i++)
		s[i].due = -1;
	m = metrics_of(s, n);
	expect(&m, 55, 55, 55000001, 5, 5, 1, 0, 10.0);
	/* C: nothing to show for 31 refreshes */
	for (n = 0; n < 30; n++)
		s[n] = (struct shown){(int)n, (int)n};
	for (int k = 60; k <= 90; k++)
		s[n++] = (struct shown){k, k};
	cr_assert_eq(n, 61);
	m = metrics_of(s, n);
	cr_assert_eq(m.segments, 2);
	expect(&m, 40, 60, 16666667, 0, 30, 1, 1, 34.444);
	/* D: the first one after it is due at 60 and shown at 63 */
	for (n = 0; n < 30; n++)
		s[n] = (struct shown){(int)n, (int)n};
	s[n++] = (struct shown){63, 60};
	for (int k = 64; k <= 90; k++)
		s[n++] = (struct shown){k, k};
	cr_assert_eq(n, 58);
	m = metrics_of(s, n);
	expect(&m, 38, 57, 38666667, 3, 33, 1, 1, 37.778);
	/* E: every second refresh, as predicted */
	for (n = 0; n < 61; n++)
		s[n] = (struct shown){(int)(2 * n), (int)(2 * n)};
	m = metrics_of(s, n);
	expect(&m, 30, 30, 33333334, 0, 60, 0, 0, 0);
}

struct seen {
	int64_t cookies[16];
	uint64_t dropped[16];
	bool idle[16];
	size_t count;
};

static int see(void *ctx, const struct flow_step *step)
{
	struct seen *seen = ctx;

	seen->cookies[seen->count] = step->frame->cookie;
	seen->idle[seen->count] = step->idle;
	seen->dropped[seen->count++] = step->dropped;
	return 0;
}

/* Frames of one layer, in calls that end at each of these times. */
static struct seen flow_of(struct frame *frames, size_t count, const int64_t *ends, size_t calls,
			   struct flow_counts *counts)
{
	struct flow_grid *grid = malloc(sizeof(*grid));
	struct flow flow = {.has_last = false};
	struct seen seen = {.count = 0};
	size_t consumed;

	flow_grid_init(grid, NULL, 0, V);
	for (size_t i = 0; i < calls; i++) {
		struct flow_input input = {frames, count, grid, ends[i], INT64_MAX, false};

		cr_assert_eq(flow_feed(&flow, &input, &consumed, counts, see, &seen), 0);
		frames += consumed;
		count -= consumed;
	}
	free(grid);
	cr_assert_eq(count, 0);
	return seen;
}

Test(flow, frames_that_come_together_are_one)
{
	struct frame frames[] = {
		{.present_ns = 100, .cookie = 1, .flags = FRAME_NO_BUFFER},
		{.present_ns = 100, .cookie = 2},
		{.present_ns = 100, .cookie = 3},
		{.present_ns = 200, .cookie = 4, .flags = FRAME_NO_BUFFER},
	};
	const int64_t end = INT64_MAX;
	struct flow_counts counts = {0};
	struct seen seen = flow_of(frames, 4, &end, 1, &counts);

	cr_assert_eq(seen.count, 2);
	cr_assert_eq(counts.duplicates, 2);
	cr_assert_eq(seen.cookies[0], 2);
	cr_assert_eq(seen.cookies[1], 4);
}

static struct frame frame_at(int at, int due)
{
	return (struct frame){.present_ns = 1000000000 + at * V,
			      .predicted_ns = 1000000000 + due * V,
			      .work_ns = TIMELINE_NONE,
			      .cookie = at};
}

/* Nine of ten frames are dropped: that is nine refreshes without the picture that was due, not an
 * app that rests. The same where a frame is dropped after a rest. */
Test(flow, a_dropped_frame_is_not_idle)
{
	struct frame frames[40];
	const int64_t ends[] = {1000000000 + 5 * V, 1000000000 + 14 * V, INT64_MAX};
	struct flow_counts counts = {0};
	struct layer_metrics m;
	struct metrics_input input = {.frames = frames, .period_ns = V, .covered_ns = INT64_MAX};
	struct seen seen;
	size_t n = 0;

	for (int k = 0; k <= 30; k++) {
		frames[n] = frame_at(k, k);
		frames[n++].flags = k % 10 ? FRAME_DROPPED | JANK_DROPPED : JANK_NONE;
	}
	/* a rest of 30 refreshes, then the first one of the next stretch is dropped */
	frames[n] = frame_at(60, 60);
	frames[n++].flags = FRAME_DROPPED;
	frames[n++] = frame_at(62, 61);
	for (size_t calls = 1; calls <= 3; calls += 2) {
		memset(&counts, 0, sizeof(counts));
		seen = flow_of(frames, n, calls == 1 ? &ends[2] : ends, calls, &counts);
		cr_assert_eq(seen.count, 5);
		for (size_t i = 1; i < 4; i++) {
			cr_assert_eq(seen.dropped[i], 9);
			cr_assert(!seen.idle[i]);
		}
		/* shown at 62 and not at 60 */
		cr_assert(seen.idle[4]);
		cr_assert_eq(seen.dropped[4], 2);
	}
	input.count = 31;
	cr_assert_eq(layer_metrics_compute(&m, &input), 0);
	cr_assert_eq(m.dropped, 27);
	cr_assert_eq(m.visible_dropped, 3);
	cr_assert_float_eq(m.fps_active, 6, 0.001);
	cr_assert_eq(m.segments, 1);
	layer_metrics_free(&m);
}

static int sum_drops(void *ctx, const struct flow_step *step)
{
	*(uint64_t *)ctx += step->dropped;
	return 0;
}

/* A game that draws each second refresh, and misses one now and then: what was due is the median of
 * its last intervals, in whatever order they came. */
Test(flow, the_cadence_of_who_predicts_nothing)
{
	static const int refreshes[] = {2, 4, 2, 2, 4, 2, 2, 4, 4};
	struct frame frames[10] = {{.present_ns = V, .predicted_ns = TIMELINE_NONE}};
	struct flow_grid *grid = malloc(sizeof(*grid));
	struct flow_input input = {frames, 10, grid, INT64_MAX, INT64_MAX, true};
	struct flow_counts counts = {0};
	struct flow flow = {.intervals = 0};
	uint64_t dropped = 0;
	size_t consumed;

	flow_grid_init(grid, NULL, 0, V);
	for (int i = 1; i < 10; i++)
		frames[i] = (struct frame){.present_ns = frames[i - 1].present_ns +
							 refreshes[i - 1] * (int64_t)V,
					   .predicted_ns = TIMELINE_NONE,
					   .work_ns = TIMELINE_NONE,
					   .cookie = i};
	cr_assert_eq(flow_feed(&flow, &input, &consumed, &counts, sum_drops, &dropped), 0);
	cr_assert_eq(consumed, 10);
	cr_assert_eq(dropped, 8);
	free(grid);
}

/* What comes after a later frame was counted is counted by name. */
Test(flow, late_frames_are_counted)
{
	struct frame frames[] = {frame_at(1, 1), frame_at(9, 9), frame_at(5, 5), frame_at(10, 10)};
	const int64_t ends[] = {1000000000 + 9 * V + 1, INT64_MAX};
	struct flow_counts counts = {0};
	struct seen seen = flow_of(frames, 4, ends, 2, &counts);

	cr_assert_eq(seen.count, 3);
	cr_assert_eq(counts.late, 1);
}

Test(metrics, nothing_shown_is_not_zero_fps)
{
	struct layer_metrics m;
	struct frame frame = {.present_ns = 5, .predicted_ns = TIMELINE_NONE, .work_ns = 800000000};
	struct metrics_input input = {
		.frames = &frame, .count = 0, .period_ns = V, .covered_ns = INT64_MAX};

	cr_assert_eq(layer_metrics_compute(&m, &input), 0);
	cr_assert(!m.has_fps && !m.has_sm);
	input.count = 1;
	cr_assert_eq(layer_metrics_compute(&m, &input), 0);
	cr_assert(!m.has_fps);
	cr_assert_eq(m.frozen, 1);
	layer_metrics_free(&m);
}
