/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "control/run_status.h"
#include "core/watchdog.h"
#include "jankscope/source.h"

#define SEC 1000000000ull

static const struct watchdog_limits limits = {
	.cpu_pct = 50, .memory_bytes = 100 << 20, .late_ns = SEC, .window_ns = 10 * SEC};

/* So many seconds of this; the last verdict that is not fine. */
static enum watchdog_verdict go_on(struct watchdog *watchdog, const struct watchdog_look *look,
				   int seconds, unsigned *step)
{
	enum watchdog_verdict last = WATCHDOG_FINE;

	for (int i = 0; i < seconds; i++) {
		enum watchdog_verdict verdict = watchdog_look(watchdog, look, step);

		if (verdict != WATCHDOG_FINE)
			last = verdict;
	}
	return last;
}

static const struct watchdog_look calm = {
	.dur_ns = SEC, .cpu_ns = SEC / 100, .memory_bytes = {true, 10 << 20}};

Test(watchdog, thins_in_order_and_takes_back)
{
	static const unsigned order[] = {THIN_TASKS, THIN_STACKS, THIN_INTERVALS};
	struct watchdog_look heavy = calm;
	struct watchdog watchdog;
	unsigned step;

	heavy.cpu_ns = SEC * 6 / 10;
	watchdog_init(&watchdog, &limits);
	cr_expect_eq(go_on(&watchdog, &heavy, 9, &step), WATCHDOG_FINE, "not for a whole window");
	cr_expect_eq(go_on(&watchdog, &calm, 9, &step), WATCHDOG_FINE);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(go_on(&watchdog, &heavy, 9, &step), WATCHDOG_FINE);
		cr_expect_eq(go_on(&watchdog, &heavy, 1, &step), WATCHDOG_THIN);
		cr_expect_eq(step, order[i]);
	}
	cr_expect_eq(watchdog.steps, 7);
	cr_expect(strstr(watchdog.reason, "60.0 %"), "%s", watchdog.reason);
	cr_expect_eq(go_on(&watchdog, &calm, 59, &step), WATCHDOG_FINE);
	for (int i = 2; i >= 0; i--) {
		cr_expect_eq(go_on(&watchdog, &calm, i == 2 ? 1 : 60, &step), WATCHDOG_BACK);
		cr_expect_eq(step, order[i]);
	}
	cr_expect_eq(watchdog.steps, 0);
	cr_expect_eq(go_on(&watchdog, &calm, 1000, &step), WATCHDOG_FINE);
}

Test(watchdog, each_limit_counts_and_none_is_none)
{
	struct watchdog_look heavy[4] = {calm, calm, calm, calm};
	struct watchdog watchdog;
	unsigned step;

	heavy[0].cpu_ns = SEC;
	heavy[1].memory_bytes.value = 101 << 20;
	heavy[2].late_ns = SEC + 1;
	heavy[3].memory_bytes.present = false;
	for (int i = 0; i < 4; i++) {
		watchdog_init(&watchdog, &limits);
		cr_expect_eq(go_on(&watchdog, &heavy[i], 39, &step),
			     i == 3 ? WATCHDOG_FINE : WATCHDOG_THIN, "%d", i);
		cr_expect_eq(go_on(&watchdog, &heavy[i], 1, &step),
			     i == 3 ? WATCHDOG_FINE : WATCHDOG_GIVE_UP, "%d", i);
		watchdog_init(&watchdog, &(struct watchdog_limits){.window_ns = SEC});
		cr_expect_eq(go_on(&watchdog, &heavy[i], 100, &step), WATCHDOG_FINE, "%d", i);
	}
	/* Between four fifths of the limit and the limit nothing changes. */
	watchdog_init(&watchdog, &limits);
	heavy[0].cpu_ns = SEC * 9 / 10;
	go_on(&watchdog, &heavy[0], 10, &step);
	heavy[0].cpu_ns = SEC * 45 / 100;
	cr_expect_eq(go_on(&watchdog, &heavy[0], 1000, &step), WATCHDOG_FINE);
	cr_expect_eq(watchdog.steps, THIN_TASKS);
}

/* ---- the fold of `status` ---- */

static struct run_status status;

static void take_interval(uint64_t second, uint64_t anon_bytes)
{
	struct record_interval interval = {
		.dur_ns = SEC, .self = {.cpu_ns = SEC / 50, .anon_bytes = {true, anon_bytes}}};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = second * SEC, .interval = &interval};

	counter_list_add(&interval.lost, "some", 2);
	run_status_take(&status, &record);
	counter_list_free(&interval.lost);
}

static void take_event(const struct record_event *event)
{
	struct record record = {.type = RECORD_EVENT, .event = event};

	run_status_take(&status, &record);
}

Test(run_status, counts_gaps_losses_and_growth)
{
	struct record_header header = {.interval_ns = SEC};
	struct record record = {.type = RECORD_HEADER, .t_boot_ns = SEC, .header = &header};
	const struct record_event gap = {.event = "gap",
					 .keys = {{"from_boot_ns", NULL, 5},
						  {"dur_ns", NULL, 3 * (int64_t)SEC},
						  {"recorder_restarts", NULL, 1},
						  {"reason", "killed", 0}},
					 .key_count = 4};
	const struct record_event overrun = {
		.event = "gap", .keys = {{"dur_ns", NULL, 9}}, .key_count = 1};
	struct record_event degraded = {
		.event = "degraded",
		.keys = {{"source", "self", 0}, {"state", "begin", 0}, {"reason", "too much", 0}},
		.key_count = 3};
	struct opt_i64 slope;

	run_status_take(&status, &record);
	cr_expect(!run_status_slope(&status).present);
	/* A tenth of a megabyte an hour, after ten minutes that grow much faster. */
	for (uint64_t second = 1; second <= 30000; second++)
		take_interval(second, (1 << 20) + second * 100000 / 3600 +
					      (second < 600 ? second * 10000 : 6000000));
	take_event(&gap);
	take_event(&overrun);
	take_event(&degraded);
	cr_expect_eq(status.intervals, 30000);
	cr_expect_eq(status.gaps, 1);
	cr_expect_eq(status.overlong, 1);
	cr_expect_eq(status.recorder_restarts, 1);
	cr_expect_str_eq(status.error, "killed");
	cr_expect_str_eq(status.warning, "self: too much");
	cr_expect_eq(run_status_expected(&status), 30003);
	cr_expect_eq(status.lost_count, 1);
	cr_expect_eq(status.lost[0].value, 60000);
	cr_expect_leq(status.point_count, RUN_POINTS);
	slope = run_status_slope(&status);
	cr_assert(slope.present);
	cr_expect(slope.value > 90000 && slope.value < 110000, "%ld", (long)slope.value);
	degraded.keys[1].text = "end";
	take_event(&degraded);
	cr_expect_str_eq(status.warning, "");
}

/* A folder with the recordings of two boots: the second one's clock begins at 0 again. */
Test(run_status, another_boot_begins_a_new_slope)
{
	struct opt_i64 slope;

	for (uint64_t second = 100000; second < 103000; second++)
		take_interval(second, 50 << 20);
	for (uint64_t second = 1; second <= 30; second++)
		take_interval(second, 1 << 20);
	cr_expect_eq(status.point_count, 30);
	slope = run_status_slope(&status);
	cr_expect(slope.present && slope.value == 0, "%ld", (long)slope.value);
	/* As a page that a dying recorder left half written. */
	for (size_t i = 0; i < RUN_POINTS; i++)
		status.points[i].t_boot_ns = RUN_POINTS - i;
	status.points[RUN_POINTS - 1].t_boot_ns = UINT64_MAX;
	status.point_count = RUN_POINTS + 7;
	slope = run_status_slope(&status);
}

Test(run_status, many_kinds_of_losses)
{
	struct record_interval interval = {.dur_ns = SEC};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	uint64_t sum = 0;
	char name[64];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "loss_%d", i);
		counter_list_add(&interval.lost, name, 1);
	}
	run_status_take(&status, &record);
	counter_list_free(&interval.lost);
	cr_expect_eq(status.lost_count, RUN_LOSSES);
	cr_expect_str_eq(status.lost[RUN_LOSSES - 1].name, "other");
	for (int i = 0; i < RUN_LOSSES; i++)
		sum += status.lost[i].value;
	cr_expect_eq(sum, 100);
}
