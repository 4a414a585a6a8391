/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/live_metrics.h"

#define SEC 1000000000ull

static void take(struct live_metrics *metrics, const struct record_interval *interval)
{
	struct record record = {.type = RECORD_INTERVAL, .interval = interval};

	live_metrics_take(metrics, &record);
}

/* The value of a sample, by the begin of its line up to the space; -1: it is not there. */
static double sample(const struct live_metrics *metrics, const char *name)
{
	char *text = NULL, *at;
	size_t bytes;
	double value = -1;

	cr_assert_eq(live_metrics_write(metrics, NULL, &text, &bytes), 0);
	cr_assert_eq(strlen(text), bytes);
	cr_assert_str_eq(text + bytes - 6, "# EOF\n");
	for (at = strstr(text, name); at; at = strstr(at + 1, name))
		if ((at == text || at[-1] == '\n') && at[strlen(name)] == ' ')
			value = atof(at + strlen(name) + 1);
	free(text);
	return value;
}

Test(live_metrics, counters_of_all_kinds)
{
	struct record_uid_net net[] = {{.uid = 10, .package = "p", .bytes = {100, 1, 200, 2}}};
	struct record_uid_cpu cpu[] = {{10, SEC}};
	struct record_layer layers[] = {{.package = "p", .layer = "l\"", .shown = 3, .janky = 1}};
	struct record_memory_process processes[] = {
		{.process = "a", .rss_bytes = SOME_U64(10), .pss_bytes = SOME_U64(5)},
		{.process = "a", .rss_bytes = SOME_U64(20), .pss_bytes = SOME_U64(6)},
		{.process = "b", .rss_bytes = SOME_U64(7)},
	};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true, .busy_ns = 3 * SEC, .uids = cpu, .uid_count = 1},
		.net = {.present = true, .uids = net, .uid_count = 1},
		.frames = {.present = true, .layers = layers, .layer_count = 1},
		.memory = {.present = true, .processes = processes, .process_count = 3},
	};
	struct record_header header = {.session = "s"};
	struct record record = {.type = RECORD_HEADER, .header = &header};
	struct live_metrics *metrics = live_metrics_new();

	cr_assert(metrics);
	cr_expect_eq(sample(metrics, "jankscope_losses_total{kind=\"lost\",reason=\"_other\"}"),
		     -1);
	live_metrics_take(metrics, &record);
	cr_assert_eq(counter_list_add(&interval.late, "x", 4), 0);
	for (int i = 0; i < 3; i++)
		take(metrics, &interval);
	/* A loss has its series at once, a name when its first interval is over. */
	cr_expect_eq(sample(metrics, "jankscope_losses_total{kind=\"late\",reason=\"x\"}"), 12);
	cr_expect_eq(sample(metrics, "jankscope_losses_total{kind=\"lost\",reason=\"_other\"}"), 0);
	cr_expect_eq(sample(metrics, "jankscope_uid_network_bytes_total{package=\"p\",uid=\"10\","
				     "direction=\"transmit\"}"),
		     400);
	cr_expect_eq(sample(metrics, "jankscope_uid_network_bytes_total{uid=\"_other\","
				     "direction=\"receive\"}"),
		     100);
	cr_expect_eq(sample(metrics, "jankscope_uid_cpu_seconds_total{package=\"p\",uid=\"10\"}"),
		     2);
	cr_expect_eq(sample(metrics, "jankscope_uid_cpu_seconds_total{uid=\"_other\"}"), 1 + 3 * 2);
	cr_expect_eq(sample(metrics, "jankscope_task_cpu_seconds_total{thread=\"_other\"}"), 9);
	cr_expect_eq(sample(metrics, "jankscope_layer_frames_total{package=\"p\",layer=\"l\\\"\","
				     "outcome=\"shown\"}"),
		     6);
	cr_expect_eq(sample(metrics, "jankscope_process_memory_bytes{process=\"a\",kind=\"rss\"}"),
		     30);
	cr_expect_eq(sample(metrics, "jankscope_process_memory_bytes{process=\"b\",kind=\"pss\"}"),
		     -1);
	/* PSS is measured now and then; what was measured last stands. */
	processes[0].pss_bytes = processes[1].pss_bytes = (struct opt_u64){0};
	processes[0].rss_bytes = SOME_U64(11);
	take(metrics, &interval);
	cr_expect_eq(sample(metrics, "jankscope_process_memory_bytes{process=\"a\",kind=\"pss\"}"),
		     11);
	cr_expect_eq(sample(metrics, "jankscope_process_memory_bytes{process=\"a\",kind=\"rss\"}"),
		     31);
	counter_list_free(&interval.late);
	live_metrics_free(metrics);
}

/* However many there are, a page has at most 200 series and 256 KiB. */
Test(live_metrics, bounds)
{
	static struct record_task tasks[2000];
	static struct record_process_cpu processes[2000];
	static struct record_uid_net uids[2000];
	static struct record_uid_cpu cpus[2000];
	static char names[2000][64];
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true,
			.busy_ns = 2000 * SEC,
			.tasks = tasks,
			.task_count = 2000,
			.processes = processes,
			.process_count = 2000,
			.uids = cpus,
			.uid_count = 2000},
		.net = {.present = true, .uids = uids, .uid_count = 2000},
	};
	struct live_metrics *metrics = live_metrics_new();
	size_t bytes, samples = 0;
	char *text;

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 2000; i++) {
			snprintf(names[i], sizeof(names[i]), "\x1b[2J\"%u.%u", round, i);
			snprintf(tasks[i].thread, sizeof(tasks[i].thread), "%u", round * i);
			tasks[i].process = processes[i].process = names[i];
			tasks[i].cpu_ns = processes[i].cpu_ns = cpus[i].cpu_ns = i + round;
			cpus[i].uid = uids[i].uid = round * 2000 + i;
			uids[i].bytes.rx_bytes = i;
		}
		take(metrics, &interval);
	}
	cr_assert_eq(live_metrics_write(metrics, NULL, &text, &bytes), 0);
	for (char *line = text; (line = strchr(line, '\n')); line++)
		samples += line[1] && line[1] != '#';
	cr_expect_leq(samples, 200);
	cr_expect_lt(bytes, 256u << 10);
	cr_expect_null(strchr(text, 0x1b));
	free(text);
	live_metrics_free(metrics);
}

/* One series a cause; FrameTimeline's own words stay what they were. */
Test(live_metrics, late_frames_by_cause)
{
	struct summary_total totals[] = {
		{"frames.late", 5},           {"frames.late_ns", 9e6},
		{"frames.causes.lock", 3},    {"frames.causes.lock_ns", 7e6},
		{"frames.causes.stuffed", 2}, {"frames.causes.stuffing", 4},
	};
	const struct record_footer footer = {.totals = totals,
					     .total_count = sizeof(totals) / sizeof(*totals)};
	struct live_metrics *metrics = live_metrics_new();
	char *text;
	size_t bytes;

	cr_assert(metrics);
	cr_assert_eq(live_metrics_write(metrics, &footer, &text, &bytes), 0);
	cr_expect(strstr(text, "\njankscope_late_frames_total{cause=\"lock\"} 3\n"), "%s", text);
	cr_expect(strstr(text, "\njankscope_late_frames_total{cause=\"stuffing\"} 2\n"));
	cr_expect(strstr(text,
			 "\njankscope_late_frames_delay_seconds_total{cause=\"lock\"} 0.007\n"));
	cr_expect(strstr(text, "\njankscope_frames_causes_stuffing_total 4\n"));
	cr_expect_not(strstr(text, "causes_lock") || strstr(text, "frames_late"));
	free(text);
	live_metrics_free(metrics);
}
