/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparisons of runs, against examples worked by hand and against simulated runs whose difference
 * is known: how often chance is taken for a difference, and how often a difference is found. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "compare/difference.h"
#include "compare/family.h"
#include "compare/grown.h"
#include "compare/metrics.h"
#include "record/fields.h"
#include "why/line.h"

#define PAIRS 400

static bool is_near(double a, double b)
{
	return fabs(a - b) < 1e-3 * (1 + fabs(b));
}

static struct difference of_values(const double *old, size_t old_count, const double *new,
				   size_t new_count)
{
	struct series_cell a[64], b[64];
	struct difference_side a_side = {a, old_count}, b_side = {b, new_count};
	struct difference difference;

	for (size_t i = 0; i < old_count; i++)
		a[i] = (struct series_cell){old[i], 1};
	for (size_t i = 0; i < new_count; i++)
		b[i] = (struct series_cell){new[i], 1};
	cr_assert_eq(difference_of_samples(&a_side, &b_side, &difference), 0);
	return difference;
}

/* Errors sqrt(1/3 + 1/3), 4 degrees of freedom: t is 2.776. */
Test(compare, welch_by_hand)
{
	const double old[] = {1, 2, 3}, new[] = {4, 5, 6};
	struct difference difference = of_values(old, 3, new, 3);

	cr_expect(is_near(difference.old, 2) && is_near(difference.new, 5));
	cr_expect(is_near(difference.low, 3 - 2.776 * sqrt(2.0 / 3)), "%f", difference.low);
	cr_expect(is_near(difference.high, 3 + 2.776 * sqrt(2.0 / 3)), "%f", difference.high);
	cr_expect_eq(difference.verdict, DIFFERENCE_MORE);
	cr_expect_eq(of_values(new, 3, old, 3).verdict, DIFFERENCE_LESS);
	cr_expect_eq(of_values(old, 3, old, 3).verdict, DIFFERENCE_NONE);
}

Test(compare, nothing_to_be_told_by)
{
	const double same[] = {2, 2, 2, 2}, others[] = {3, 3, 3};
	struct difference difference = of_values(same, 4, others, 3);

	cr_expect_eq(difference.verdict, DIFFERENCE_SAME);
	cr_expect_eq(difference.difference, 1);
	cr_expect(isnan(difference.low) && isnan(difference.detectable));
	cr_expect(isnan(difference.high));
	/* Of 2 times 4 runs two in 70 ways to deal them part them like this; of 3 + 4 two in 35. */
	const double eight[] = {3, 3, 3, 3};

	cr_expect_eq(of_values(same, 4, eight, 4).verdict, DIFFERENCE_MORE);
	cr_expect_eq(of_values(eight, 4, same, 4).verdict, DIFFERENCE_LESS);
	cr_expect_eq(of_values(same, 4, same, 4).verdict, DIFFERENCE_SAME);
	cr_expect_eq(of_values(same, 2, others, 3).verdict, DIFFERENCE_TOO_SHORT);
	cr_expect_eq(of_values(same, 0, others, 0).verdict, DIFFERENCE_TOO_SHORT);
}

/* A run of half the time counts half. */
Test(compare, samples_count_by_their_time)
{
	const struct series_cell old[] = {{10, 1}, {40, 2}, {30, 3}},
				 new[] = {{1, 1}, {1, 1}, {1, 1}};
	const struct difference_side a = {old, 3}, b = {new, 3};
	struct difference difference;

	cr_assert_eq(difference_of_samples(&a, &b, &difference), 0);
	cr_expect(is_near(difference.old, 80.0 / 6));
}

/* ---- how often ---- */

struct rates {
	unsigned more, less, drifts;
	double detectable; /* on average */
};

static void count(const struct difference *difference, struct rates *rates)
{
	rates->more += difference->verdict == DIFFERENCE_MORE;
	rates->less += difference->verdict == DIFFERENCE_LESS;
	rates->drifts += difference->verdict == DIFFERENCE_DRIFTS;
	rates->detectable += difference->detectable / PAIRS;
}

/* Pairs of so many runs. skewed: now and then one is far above the others. */
static struct rates compare_runs(size_t runs, bool skewed, double planted)
{
	struct rates rates = {0};
	uint64_t state = 1;

	for (unsigned pair = 0; pair < PAIRS; pair++) {
		double sides[2][64];
		struct difference difference;

		for (size_t i = 0; i < 2 * runs; i++) {
			double value = normal(&state);

			sides[i / runs][i % runs] =
				(skewed ? exp(value) : 10 + value) + (i < runs ? 0 : planted);
		}
		difference = of_values(sides[0], runs, sides[1], runs);
		count(&difference, &rates);
	}
	return rates;
}

/* Pairs of one run each, whose intervals remember the one before: x = memory * x + chance. */
static struct rates compare_series(size_t intervals, double memory, double planted)
{
	struct rates rates = {0};
	uint64_t state = 7;

	for (unsigned pair = 0; pair < PAIRS; pair++) {
		struct series sides[2] = {0};
		struct difference difference;

		for (int side = 0; side < 2; side++) {
			double value = normal(&state) / sqrt(1 - memory * memory);

			for (size_t i = 0; i < intervals; i++) {
				value = memory * value + normal(&state);
				cr_assert_eq(series_add(&sides[side],
							20 + value + (side ? planted : 0), 1),
					     0);
			}
		}
		cr_assert_eq(difference_of_series(&sides[0], &sides[1], &difference), 0);
		count(&difference, &rates);
		series_free(&sides[0]);
		series_free(&sides[1]);
	}
	return rates;
}

/* ---- several figures ---- */

/* Student's t with 2 degrees of freedom is t / sqrt(t * t + 2) within t, and with 4
 * u + u * (1 - u * u) / 2 with u = t / sqrt(t * t + 4) (Abramowitz and Stegun, 26.7.4). */
Test(compare, how_often_chance_parts_two_sides)
{
	const double one[] = {1, 2, 3}, two[] = {4, 5, 9}, same[] = {7, 7, 7, 7},
		     other[] = {8, 8, 8, 8};

	/* t * t = 6 with 2.56 degrees of freedom, which are rounded down */
	cr_expect(fabs(of_values(one, 3, two, 3).chance - (1 - sqrt(6.0 / 8))) < 1e-7, "%.9f",
		  of_values(one, 3, two, 3).chance);
	for (double move = 0.01; move < 100; move *= 1.7) {
		const double moved[] = {1 + move, 2 + move, 3 + move};
		double t = move / sqrt(2.0 / 3), u = t / sqrt(t * t + 4);
		double chance = of_values(one, 3, moved, 3).chance;

		cr_expect(fabs(chance - (1 - u - u * (1 - u * u) / 2)) < 1e-7, "%g: %.9f", move,
			  chance);
	}
	cr_expect(fabs(of_values(same, 4, other, 4).chance - 2.0 / 70) < 1e-12);
	cr_expect_eq(of_values(same, 4, same, 4).chance, 1);
	cr_expect(isnan(of_values(same, 2, other, 3).chance));
}

/* The interval and the chance say the same. */
Test(compare, what_lies_outside_its_interval_is_rare_by_chance)
{
	uint64_t state = 11;
	unsigned apart = 0;

	for (unsigned pair = 0; pair < PAIRS; pair++) {
		size_t runs = 3 + pair % 8;
		double sides[2][16];
		struct difference difference;
		bool differs;

		for (size_t i = 0; i < 2 * runs; i++)
			sides[i / runs][i % runs] = normal(&state) + (i < runs ? 0 : 1);
		difference = of_values(sides[0], runs, sides[1], runs);
		differs = difference.verdict == DIFFERENCE_MORE ||
			  difference.verdict == DIFFERENCE_LESS;
		apart += differs;
		/* The table of Student's points is by whole degrees of freedom, rounded down. */
		if (runs >= DIFFERENCE_FEW)
			cr_expect_eq(differs, difference.chance <= 0.05, "%g", difference.chance);
		else
			cr_expect(!differs || difference.chance <= 0.051, "%g", difference.chance);
	}
	cr_expect(apart > PAIRS / 5 && apart < PAIRS, "%u", apart);
}

Test(compare, figures_taken_together)
{
	/* Holm's steps: 0.05 / 4, / 3, / 2, / 1. */
	const double chances[] = {0.02, NAN, 0.001, 0.04, 0.016};
	const double all[] = {0.04, 0.012, 0.016, 0.025};
	bool differ[5];

	family_judge(chances, 5, differ);
	cr_expect(!differ[1] && differ[2]);
	cr_expect(differ[4] && differ[0] && differ[3]);
	family_judge(all, 4, differ);
	cr_expect(differ[0] && differ[1] && differ[2] && differ[3]);
	family_judge((double[]){0.04, 0.013, 0.016, 0.025}, 4, differ);
	cr_expect(!differ[0] && !differ[1] && !differ[2] && !differ[3]);
	family_judge((double[]){NAN, NAN}, 2, differ);
	cr_expect(!differ[0] && !differ[1]);
	family_judge((double[]){0.05}, 1, differ);
	cr_expect(differ[0]);
}

/* What a farm's rule sees: of eight figures any. By its own interval one of them seems to differ in
 * every fourth pair. */
Test(compare, of_many_figures_chance_rarely_makes_one_differ)
{
	unsigned together = 0, apart = 0;
	uint64_t state = 5;

	for (unsigned pair = 0; pair < PAIRS; pair++) {
		double chances[8], sides[2][5];
		bool differ[8], any = false, alone = false;

		for (size_t figure = 0; figure < 8; figure++) {
			struct difference difference;

			for (size_t i = 0; i < 10; i++)
				sides[i / 5][i % 5] = 10 + normal(&state);
			difference = of_values(sides[0], 5, sides[1], 5);
			chances[figure] = difference.chance;
			alone |= difference.verdict != DIFFERENCE_NONE;
		}
		family_judge(chances, 8, differ);
		for (size_t figure = 0; figure < 8; figure++)
			any |= differ[figure];
		together += any;
		apart += alone;
	}
	cr_log_info("together %u, apart %u of %u", together, apart, PAIRS);
	cr_expect(together <= PAIRS * 8 / 100, "%u of %u", together, PAIRS);
	cr_expect(apart >= PAIRS / 5, "%u of %u", apart, PAIRS);
}

/* 5 % +- 3 of 400. */
static void expect_chance(const char *what, struct rates rates)
{
	unsigned alarms = rates.more + rates.less;

	cr_expect(alarms <= PAIRS * 8 / 100, "%s: %u of %u", what, alarms, PAIRS);
	cr_log_info("%s: %u of %u, drifts %u", what, alarms, PAIRS, rates.drifts);
}

Test(compare, chance_is_rarely_taken_for_a_difference)
{
	struct rates rates = compare_runs(3, false, 0);

	expect_chance("3 runs", rates);
	rates = compare_runs(5, false, 0);
	expect_chance("5 runs", rates);
	/* The interval is not just wide. */
	cr_expect(rates.more + rates.less >= PAIRS * 2 / 100, "%u", rates.more + rates.less);
	expect_chance("20 runs", compare_runs(20, false, 0));
	expect_chance("12 skewed runs", compare_runs(12, true, 0));
	expect_chance("32 skewed runs", compare_runs(32, true, 0));
	expect_chance("600 intervals", compare_series(600, 0, 0));
	expect_chance("600 intervals that remember", compare_series(600, 0.9, 0));
	expect_chance("5000 intervals that remember long", compare_series(5000, 0.98, 0));
}

/* A difference of the size that the text names is found in 8 of 10 pairs. */
static void expect_power(const char *what, struct rates rates)
{
	cr_expect(rates.more >= PAIRS * 7 / 10 && rates.more <= PAIRS * 9 / 10 && !rates.less,
		  "%s: %u of %u", what, rates.more, PAIRS);
	cr_log_info("%s: %u of %u", what, rates.more, PAIRS);
}

Test(compare, planted_differences_are_found_as_often_as_is_said)
{
	expect_power("5 runs", compare_runs(5, false, compare_runs(5, false, 0).detectable));
	expect_power("20 runs", compare_runs(20, false, compare_runs(20, false, 0).detectable));
	expect_power("600 intervals",
		     compare_series(600, 0.5, compare_series(600, 0.5, 0).detectable));
}

/* Memory that grows all the time has no mean. */
Test(compare, a_trend_is_no_level)
{
	struct series old = {0}, new = {0};
	struct difference difference;
	uint64_t state = 3;

	for (int i = 0; i < 600; i++) {
		cr_assert_eq(series_add(&old, 100 + normal(&state), 1), 0);
		cr_assert_eq(series_add(&new, 100 + i + normal(&state), 1), 0);
	}
	cr_assert_eq(difference_of_series(&old, &new, &difference), 0);
	cr_expect_eq(difference.verdict, DIFFERENCE_DRIFTS);
	series_free(&old);
	series_free(&new);
}

/* ---- series ---- */

Test(compare, series_of_three_days)
{
	const size_t additions = 259200;
	struct series_cell blocks[DIFFERENCE_BLOCKS];
	struct series series = {0};
	double over = 0, under = 0;

	cr_expect(isnan(series_quotient(&series)));
	for (size_t i = 0; i < additions; i++)
		cr_assert_eq(series_add(&series, (double)i, 2), 0);
	cr_expect_leq(series.count, SERIES_CELLS);
	cr_expect(is_near(series_quotient(&series), (double)(additions - 1) / 4));
	cr_assert_eq(series_blocks(&series, blocks, DIFFERENCE_BLOCKS), DIFFERENCE_BLOCKS);
	for (size_t i = 0; i < DIFFERENCE_BLOCKS; i++) {
		cr_expect(fabs(blocks[i].under - 2.0 * additions / DIFFERENCE_BLOCKS) <
			  (double)series.width * 4);
		over += blocks[i].over;
		under += blocks[i].under;
	}
	cr_expect_eq(under, 2.0 * additions);
	cr_expect_eq(over, (double)additions * (double)(additions - 1) / 2);
	series_free(&series);
}

Test(compare, who_grew)
{
	const uint64_t dur_ns[2] = {3600000000000ull, 2 * 3600000000000ull};
	struct grown *grown = grown_new();
	struct grown_row rows[2];

	cr_assert(grown);
	grown_add(grown, 0, "less", 900);
	grown_add(grown, 1, "less", 1000); /* in twice the time */
	grown_add(grown, 0, "more", 10);
	grown_add(grown, 1, "more", 40);
	grown_add(grown, 1, "new", 600);
	grown_add(grown, 1, "new", 600);
	grown_add(grown, 0, "gone", 5000);
	grown_add(grown, 1, "little", 2);
	cr_assert_eq(grown_top(grown, dur_ns, rows, 2), 2);
	cr_expect_str_eq(rows[0].name, "new");
	cr_expect(isnan(rows[0].old) && is_near(rows[0].new, 600));
	cr_expect_str_eq(rows[1].name, "more");
	cr_expect(is_near(rows[1].old, 10) && is_near(rows[1].new, 20));
	for (int i = 0; i < GROWN_NAMES + 10; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%d", i);
		cr_assert_eq(grown_add(grown, 0, name, 1), 0);
	}
	grown_free(grown);
}

/* What no record has is no figure, and a target's figures need a target. */
Test(compare, figures_of_records)
{
	struct record_process_cpu processes[] = {
		{.pid = 1, .cpu_ns = 300, .runnable_ns = {.present = true, .value = 50}},
		{.pid = 2, .cpu_ns = 200, .runnable_ns = {.present = true, .value = 0}}};
	struct record_layer layers[] = {{.shown = 50, .dropped = 10, .janky = 5}, {.shown = 50}};
	/* The target's uid and another one. */
	struct record_uid_net uids[] = {{.uid = 1, .bytes = {.rx_bytes = 100, .tx_bytes = 7}},
					{.uid = 2, .bytes = {.rx_bytes = 20}}};
	struct record_interval interval = {
		.dur_ns = 1000,
		.net = {.present = true, .uids = uids, .uid_count = 2},
		.cpu = {.present = true,
			.busy_ns = 700,
			.online_ns = 2000,
			.processes = processes,
			.process_count = 2},
		.frames = {.present = true, .layers = layers, .layer_count = 2}};
	struct record_block open = {.state = BLOCK_OPEN, .wall_ns = 100},
			    closed = {.state = BLOCK_CLOSED, .wall_ns = 250};
	struct header_target target = {.package = "app"};
	struct header_source source = {.name = "blocks", .state = "ok"};
	struct record_header header = {.sources = &source, .source_count = 1};
	struct record record = {.type = RECORD_HEADER, .header = &header};

	for (int with_target = 0; with_target < 2; with_target++) {
		struct compare_run run = {0};

		header.targets = &target;
		header.target_count = (size_t)with_target;
		record = (struct record){.type = RECORD_HEADER, .header = &header};
		cr_assert_eq(compare_run_add(&run, &record), 0);
		record = (struct record){.type = RECORD_BLOCK, .block = &open};
		cr_assert_eq(compare_run_add(&run, &record), 0);
		record.block = &closed;
		cr_assert_eq(compare_run_add(&run, &record), 0);
		record = (struct record){.type = RECORD_INTERVAL, .interval = &interval};
		cr_assert_eq(compare_run_add(&run, &record), 0);
		cr_expect(is_near(series_quotient(&run.series[COMPARE_BUSY]), 0.35));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_JANK]), 0.05));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_DROPPED]), 10.0 / 110));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_BLOCKS]), 0.001));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_BLOCKED]), 0.25));
		cr_expect(isnan(series_quotient(&run.series[COMPARE_PSS])));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_RX]), 0.12));
		cr_expect(is_near(series_quotient(&run.series[COMPARE_TX]), 0.007));
		if (with_target) {
			cr_expect(is_near(series_quotient(&run.series[COMPARE_TARGETS_CPU]), 0.5));
			cr_expect(is_near(series_quotient(&run.series[COMPARE_TARGETS_RUNNABLE]),
					  0.05));
		} else {
			cr_expect(isnan(series_quotient(&run.series[COMPARE_TARGETS_CPU])));
		}
		compare_run_free(&run);
	}
}

/* One cause has one name everywhere. */
Test(compare, causes_are_called_as_elsewhere)
{
	for (int cause = 0; cause < JANK_CAUSES; cause++) {
		const struct compare_metric_info *info =
			&compare_metrics[COMPARE_LATE_CAUSE + cause];
		char name[64], key[64];

		snprintf(name, sizeof(name), "  %s, ms/h", why_cause_words((enum jank_cause)cause));
		snprintf(key, sizeof(key), "late_%s_ms_per_h",
			 record_jank_total((enum jank_cause)cause));
		cr_expect_str_eq(info->name, name);
		cr_expect_str_eq(info->key, key);
	}
}

static void add_jank(struct compare_run *run, enum jank_cause cause, uint64_t late_ns)
{
	const struct record_jank jank = {.cause = cause, .late_ns = late_ns};
	const struct record record = {.type = RECORD_JANK, .jank = &jank};

	cr_assert_eq(compare_run_add(run, &record), 0);
}

static void add_seconds(struct compare_run *run, uint64_t shown, unsigned count)
{
	struct record_layer layer = {.shown = shown};
	struct record_interval interval = {.dur_ns = 1000000000,
					   .frames = {true, false, &layer, 1}};
	const struct record record = {.type = RECORD_INTERVAL, .interval = &interval};

	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(compare_run_add(run, &record), 0);
}

static void begin_run(struct compare_run *run, const char *flight)
{
	struct header_source sources[] = {{.name = "frames", .state = "ok", .variant = "perfetto"},
					  {.name = "flight", .state = flight}};
	struct record_header header = {.sources = sources, .source_count = 2};
	const struct record record = {.type = RECORD_HEADER, .header = &header};

	*run = (struct compare_run){0};
	cr_assert_eq(compare_run_add(run, &record), 0);
}

/* Those told behind the last interval count, and a cause without a frame has 0. */
Test(compare, late_frames_by_cause)
{
	struct compare_run run;

	begin_run(&run, "ok");
	add_seconds(&run, 60, 2);
	add_jank(&run, JANK_CAUSE_LOCK, 5000000);
	add_seconds(&run, 60, 2);
	add_jank(&run, JANK_CAUSE_LOCK, 3000000);
	add_jank(&run, JANK_CAUSE_UNKNOWN, 1000000);
	cr_assert_eq(compare_run_end(&run), 0);
	cr_assert_eq(compare_run_end(&run), 0);
	cr_expect(is_near(series_quotient(&run.series[COMPARE_LATE]) * 4e9, 3));
	cr_expect(is_near(series_quotient(&run.series[COMPARE_LATE_TIME]) * 4e9, 9e6));
	cr_expect(is_near(series_quotient(&run.series[COMPARE_LATE_CAUSE + JANK_CAUSE_LOCK]) * 4e9,
			  8e6));
	cr_expect(is_near(series_quotient(&run.series[COMPARE_LATE_CAUSE]) * 4e9, 1e6));
	cr_expect_eq(series_quotient(&run.series[COMPARE_LATE_CAUSE + JANK_CAUSE_GPU]), 0);
	compare_run_free(&run);
}

/* Without frames, or without the flight recorder, it is not known whether a frame was late. */
Test(compare, late_frames_that_nobody_judged)
{
	struct compare_run run;

	begin_run(&run, "ok");
	add_seconds(&run, 0, 5);
	cr_assert_eq(compare_run_end(&run), 0);
	cr_expect(isnan(series_quotient(&run.series[COMPARE_LATE])));
	compare_run_free(&run);
	begin_run(&run, "absent");
	add_seconds(&run, 60, 5);
	cr_assert_eq(compare_run_end(&run), 0);
	cr_expect(isnan(series_quotient(&run.series[COMPARE_LATE])));
	compare_run_free(&run);
	begin_run(&run, "ok");
	add_seconds(&run, 60, 5);
	cr_assert_eq(compare_run_end(&run), 0);
	cr_expect_eq(series_quotient(&run.series[COMPARE_LATE]), 0);
	compare_run_free(&run);
}
