/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary's scenes, and what was in the foreground and in the background: no sum is guessed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_read.h"
#include "record/json_write.h"
#include "summary/scenes.h"
#include "summary/summary.h"

#define SEC 1000000000ull

static struct summary *summary;

static void begin(void)
{
	summary = summary_new(NULL);
	cr_assert(summary);
}

static void end(void)
{
	summary_free(summary);
}

TestSuite(scenes, .init = begin, .fini = end);
TestSuite(split, .init = begin, .fini = end);

static double find(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return footer->totals[i].value;
	return NAN;
}

static const struct footer_scene *scene(const struct record_footer *footer, const char *name)
{
	for (size_t i = 0; i < footer->scene_count; i++)
		if (!strcmp(footer->scenes[i].name, name))
			return &footer->scenes[i];
	return NULL;
}

static double busy(const struct record_footer *footer, const char *name)
{
	const struct footer_scene *found = scene(footer, name);

	return found ? find(&found->sums, "cpu.busy_ns") : NAN;
}

/* One second that ends there, with so much CPU time. */
static void second(unsigned at, uint64_t busy_ns)
{
	struct record_interval interval = {.dur_ns = SEC,
					   .cpu = {.present = true, .busy_ns = busy_ns}};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = at * SEC, .interval = &interval};

	cr_assert_eq(summary_add(summary, &record), 0);
}

static void mark(const char *name, const char *state, uint64_t at_ns, bool exact)
{
	struct record_event event = {
		.event = "mark",
		.keys = {{.name = "name", .text = name},
			 {.name = "state", .text = state},
			 {.name = "exact", .value = 1}},
		.key_count = exact ? 3 : 2,
	};
	struct record record = {.type = RECORD_EVENT, .t_boot_ns = at_ns, .event = &event};

	cr_assert_eq(summary_add(summary, &record), 0);
}

Test(scenes, none_without_marks)
{
	second(1, 5);
	cr_assert_eq(summary_footer(summary)->scene_count, 0);
}

Test(scenes, cut_exactly)
{
	const struct record_footer *footer;

	second(1, 1);
	mark("a", "begin", SEC + 500, true);
	second(2, 10);
	mark("b", "begin", 2 * SEC + 500, true); /* overlaps */
	second(3, 100);
	mark("a", "end", 3 * SEC + 500, true);
	second(4, 1000);
	mark("b", "end", 4 * SEC + 500, true);
	second(5, 10000);
	mark("a", "begin", 5 * SEC + 500, true); /* again, cut by the end of the run */
	second(6, 100000);
	footer = summary_footer(summary);
	cr_assert_eq(busy(footer, "unknown"), 10001);
	cr_assert_eq(busy(footer, "a"), 100110);
	cr_assert_eq(busy(footer, "b"), 1100);
	cr_assert_null(scene(footer, "mixed"));
	cr_assert_null(scene(footer, "other"));
	cr_assert_eq(scene(footer, "a")->times, 2);
	cr_assert(scene(footer, "a")->open_at_end);
	cr_assert(!scene(footer, "b")->open_at_end);
	cr_assert_eq(find(&scene(footer, "a")->sums, "dur_ns"), 3e9);
	cr_assert_eq(find(&scene(footer, "a")->sums, "intervals"), 3);
	cr_assert_eq(find(footer, "cpu.busy_ns"), 111111);
	/* a distribution for each */
	cr_assert_eq(scene(footer, "b")->sums.distribution_count, 3);
	cr_assert_eq(scene(footer, "b")->sums.distributions[0].n, 2);
}

Test(scenes, a_mark_inside_an_interval_is_mixed)
{
	const struct record_footer *footer;

	mark("whole", "begin", 0, false);
	second(1, 1);
	mark("a", "begin", SEC + 1, false);
	second(2, 10);
	mark("a", "end", 2 * SEC + SEC / 2, false);
	mark("a", "begin", 2 * SEC + SEC / 2 + 1, false);
	second(3, 100);
	second(4, 1000);
	footer = summary_footer(summary);
	cr_assert_eq(busy(footer, "whole"), 1111);
	cr_assert_eq(busy(footer, "mixed"), 110);
	cr_assert_eq(busy(footer, "a"), 1000);
	cr_assert_null(scene(footer, "unknown"));
}

Test(scenes, marks_that_make_no_sense)
{
	const struct record_footer *footer;

	second(1, 1);
	mark("a", "end", SEC, true);
	mark("unknown", "begin", SEC, true);
	mark("", "begin", SEC, true);
	second(2, 10);
	mark("b", "begin", 2 * SEC, true);
	mark("b", "begin", 2 * SEC, true);
	second(3, 100);
	mark("b", "end", 3 * SEC, true);
	second(4, 1000);
	footer = summary_footer(summary);
	cr_assert_eq(footer->scene_count, 2);
	cr_assert_eq(busy(footer, "b"), 100);
	cr_assert_eq(scene(footer, "b")->times, 1);
	cr_assert_eq(busy(footer, "unknown"), 1011);
}

Test(scenes, blocks)
{
	struct record_block block = {.state = BLOCK_CLOSED, .wall_ns = SEC / 2};
	struct record record = {.type = RECORD_BLOCK, .block = &block};
	const struct record_footer *footer;

	second(1, 1);
	mark("a", "begin", SEC, true);
	block.start_boot_ns = SEC - 1; /* it began before the scene */
	cr_assert_eq(summary_add(summary, &record), 0);
	block.start_boot_ns = SEC + 1;
	cr_assert_eq(summary_add(summary, &record), 0);
	second(2, 1);
	mark("a", "end", 2 * SEC, true);
	block.start_boot_ns = 2 * SEC - SEC / 2; /* told after the scene that it was in */
	cr_assert_eq(summary_add(summary, &record), 0);
	footer = summary_footer(summary);
	cr_assert_eq(find(&scene(footer, "a")->sums, "blocks.count"), 2);
	cr_assert_eq(find(&scene(footer, "a")->sums, "blocks.total_ns"), SEC);
	cr_assert_eq(find(&scene(footer, "mixed")->sums, "blocks.count"), 1);
}

static void with_source(const char *name, const char *state)
{
	struct header_source source = {.name = name, .state = state};
	struct record_header header = {.sources = &source, .source_count = 1};
	struct record record = {.type = RECORD_HEADER, .header = &header};

	cr_assert_eq(summary_add(summary, &record), 0);
}

/* Where blocks were watched, a scene without one has 0; where they were not, no number is told. */
Test(scenes, no_block)
{
	const struct record_footer *footer;

	with_source("blocks", "ok");
	second(1, 1);
	mark("a", "begin", SEC, true);
	second(2, 1);
	footer = summary_footer(summary);
	cr_expect_eq(find(&scene(footer, "a")->sums, "blocks.count"), 0);
	cr_expect_eq(find(footer, "blocks.count"), 0);
}

Test(scenes, blocks_that_nobody_watched)
{
	const struct record_footer *footer;

	with_source("cpu", "ok");
	with_source("blocks", "absent");
	second(1, 1);
	mark("a", "begin", SEC, true);
	second(2, 1);
	footer = summary_footer(summary);
	cr_expect(isnan(find(&scene(footer, "a")->sums, "blocks.count")));
	cr_expect(isnan(find(footer, "blocks.count")));
}

/* A read-out 0.1 s before the end of its interval, of the second before it. */
static void read_out(unsigned at, const char *status, int64_t charge_uah, uint64_t energy_uj,
		     bool capped)
{
	struct record_rail rail = {
		.device = "iio", .rail = "CPU.big", .energy_uj = {true, energy_uj}};
	struct record_policy policy = {.policy = 4, .cpus = "4", .capped = capped};
	struct record_interval interval = {
		.dur_ns = SEC,
		.power = {.present = true,
			  .battery = {.status = status, .charge_uah = {true, charge_uah}},
			  .external = strcmp(status, "Discharging") != 0,
			  .read_boot_ns = at * SEC - SEC / 10,
			  .span_ns = at > 1 ? SEC : 0,
			  .rails = &rail,
			  .rail_count = at > 1,
			  .policies = &policy,
			  .policy_count = 1}};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = at * SEC, .interval = &interval};

	/* A charger whose driver fails. */
	if (!strcmp(status, "Unsure")) {
		interval.power.battery.status = "Discharging";
		interval.power.external = false;
		missing_list_set(&interval.missing, "power.discharge_mean_ua", "not known");
	}
	cr_assert_eq(summary_add(summary, &record), 0);
	missing_list_free(&interval.missing);
}

Test(scenes, what_they_took_out_of_the_battery)
{
	const struct footer_scene *a, *mixed;
	const struct record_footer *footer;

	read_out(1, "Discharging", 5000, 0, false);
	mark("a", "begin", SEC, true);
	read_out(2, "Discharging", 4990, 1, true); /* of 0.9 s to 1.9 s: begins before the scene */
	read_out(3, "Discharging", 4890, 10, false);
	read_out(4, "Discharging", 4690, 100, true);
	read_out(5, "Charging", 4700, 1000, false); /* to it, and from it, nothing is known */
	read_out(6, "Discharging", 4600, 10000, false);
	read_out(7, "Discharging", 4595, 100000, false);
	read_out(8, "Unsure", 4500, 0, false);
	read_out(9, "Discharging", 4400, 0, false);
	mark("a", "end", 9 * SEC, true);
	footer = summary_footer(summary);
	a = scene(footer, "a");
	mixed = scene(footer, "mixed");
	cr_assert(a && mixed);
	cr_expect_eq(find(&a->sums, "power.discharge_uah"), 100 + 200 + 5);
	cr_expect_eq(find(&a->sums, "power.discharge_ns"), 3.0 * SEC);
	cr_expect_eq(find(&a->sums, "power.rails.CPU_big.energy_uj"), 111110);
	cr_expect_eq(find(&a->sums, "power.policies.policy4.capped_ns"), 1.0 * SEC);
	cr_expect_eq(find(&mixed->sums, "power.discharge_uah"), 10);
	cr_expect_eq(find(&mixed->sums, "power.policies.policy4.capped_ns"), 1.0 * SEC);
	/* Of the whole run the source tells it. */
	cr_expect(isnan(find(footer, "power.discharge_uah")));
}

static void one_block(pid_t pid, uint64_t start_ns, uint64_t wall_ns)
{
	struct record_block block = {
		.pid = pid, .state = BLOCK_CLOSED, .start_boot_ns = start_ns, .wall_ns = wall_ns};
	struct record record = {.type = RECORD_BLOCK, .block = &block};

	cr_assert_eq(summary_add(summary, &record), 0);
}

/* A block is told when its scene is over, and open again. */
Test(scenes, a_block_of_the_time_before)
{
	const struct record_footer *footer;

	second(1, 1);
	mark("a", "begin", SEC, true);
	second(2, 1);
	mark("a", "end", 2 * SEC, true);
	mark("a", "begin", 2 * SEC + 10, false);
	one_block(7, SEC + 5, 100);     /* all of it in the first time */
	one_block(7, 2 * SEC - 5, 100); /* from the first one to the second */
	one_block(7, SEC / 2, 100);
	/* more often than anybody remembers */
	for (unsigned i = 0; i < 20; i++) {
		mark("a", "end", 2 * SEC + 20 + 10 * i, false);
		mark("a", "begin", 2 * SEC + 25 + 10 * i, false);
	}
	one_block(7, SEC + 5, 100);
	footer = summary_footer(summary);
	cr_expect_eq(find(&scene(footer, "a")->sums, "blocks.count"), 1);
	cr_expect_eq(find(&scene(footer, "mixed")->sums, "blocks.count"), 2);
	cr_expect_eq(find(&scene(footer, "unknown")->sums, "blocks.count"), 1);
}

/* With one scene at a time, each total of the footer that is a sum is that of its scenes. */
Test(scenes, sums_are_those_of_the_run)
{
	static const char *const states[] = {"begin", "end"};
	const struct record_footer *footer;
	unsigned checked = 0;
	char name[8];

	for (unsigned i = 0; i < 60; i++) {
		struct record_process_context context = {.pid = 7,
							 .uid = 10001,
							 .state = i % 3 ? CONTEXT_FOREGROUND
									: CONTEXT_CACHED,
							 .changed = i % 3 < 2};
		struct record_process_cpu cpu = {.pid = 7, .cpu_ns = i, .runnable_ns = {true, i}};
		struct record_uid_net uid = {.uid = 10001, .bytes = {i, 1, 2 * i, 1}};
		struct record_uid_tcp tcp = {.uid = 10001, .retransmits = i, .connects = 1};
		struct record_memory_process memory = {.pid = 7, .rss_bytes = {true, 1 << 20}};
		struct record_interval interval = {
			.dur_ns = SEC,
			.cpu = {.present = true,
				.busy_ns = i,
				.processes = &cpu,
				.process_count = 1},
			.net = {.present = true, .uids = &uid, .uid_count = 1},
			.tcp = {.present = true, .uids = &tcp, .uid_count = 1},
			.memory = {.present = true, .processes = &memory, .process_count = 1},
			.context = {.present = true, .processes = &context, .process_count = 1},
			.self = {.cpu_ns = i},
		};
		struct record record = {
			.type = RECORD_INTERVAL, .t_boot_ns = (i + 1) * SEC, .interval = &interval};

		cr_assert_eq(summary_add(summary, &record), 0);
		one_block(7, (i + 1) * SEC - SEC / 3, SEC / 2);
		snprintf(name, sizeof(name), "s%u", i / 2 % 5);
		mark(name, states[i % 2], (i + 1) * SEC + (i % 4 < 2 ? 0 : SEC / 4), i % 4 < 2);
	}
	footer = summary_footer(summary);
	for (size_t i = 0; i < footer->total_count; i++) {
		const char *key = footer->totals[i].key;
		double sum = 0;
		bool any = false;

		for (size_t j = 0; j < footer->scene_count; j++) {
			double part = find(&footer->scenes[j].sums, key);

			any |= !isnan(part);
			sum += isnan(part) ? 0 : part;
		}
		/* What is no sum: shares, the last or the largest value. Marks are in no scene. */
		if (strstr(key, "pct") || strstr(key, "compat.") || !strcmp(key, "events"))
			continue;
		cr_expect(any && sum == footer->totals[i].value, "%s: %g, in scenes %g", key,
			  footer->totals[i].value, sum);
		checked++;
	}
	cr_expect_gt(checked, 30);
	for (size_t i = 0; i < footer->distribution_count; i++) {
		uint64_t sum = 0;

		for (size_t j = 0; j < footer->scene_count; j++)
			for (size_t k = 0; k < footer->scenes[j].sums.distribution_count; k++)
				if (!strcmp(footer->scenes[j].sums.distributions[k].name,
					    footer->distributions[i].name))
					sum += footer->scenes[j].sums.distributions[k].n;
		cr_expect_eq(sum, footer->distributions[i].n, "%s", footer->distributions[i].name);
	}
}

/* Each scene has its own percentages, from what was measured while it was open. */
Test(scenes, percentages)
{
	struct record_process_cpu cpu = {.pid = 7};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true,
			.online_ns = 4 * SEC,
			.processes = &cpu,
			.process_count = 1},
	};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	struct header_target target = {.pid = {true, 7}};
	struct record_header header = {.targets = &target, .target_count = 1};
	struct record first = {.type = RECORD_HEADER, .header = &header};
	const struct record_footer *low, *high;
	const struct record_footer *footer;

	cr_assert_eq(summary_add(summary, &first), 0);
	for (unsigned i = 1; i <= 6; i++) {
		if (i == 2 || i == 4)
			mark(i == 2 ? "low" : "high", "begin", (i - 1) * SEC, true);
		cpu.cpu_ns = i < 4 ? SEC / 10 : SEC / 2;
		interval.cpu.busy_ns = 2 * cpu.cpu_ns;
		interval.cpu.targets_fnorm_ns.present = interval.cpu.capacity_ns.present = i >= 4;
		interval.cpu.targets_fnorm_ns.value = SEC / 4;
		interval.cpu.capacity_ns.value = 2 * SEC;
		record.t_boot_ns = i * SEC;
		cr_assert_eq(summary_add(summary, &record), 0);
		if (i == 3 || i == 5)
			mark(i == 3 ? "low" : "high", "end", i * SEC, true);
	}
	for (unsigned i = 0; i < 2; i++) { /* asked again it says the same */
		footer = summary_footer(summary);
		low = &scene(footer, "low")->sums;
		high = &scene(footer, "high")->sums;
		cr_expect_eq(find(low, "targets.core_pct"), 10);
		cr_expect_eq(find(high, "targets.core_pct"), 50);
		cr_expect_eq(find(high, "targets.device_pct"), 12.5);
		cr_expect_eq(find(high, "cpu.device_pct"), 25);
		cr_expect_eq(find(high, "targets.device_fnorm_pct"), 12.5);
		cr_expect(isnan(find(low, "targets.device_fnorm_pct")));
		cr_expect_eq(find(high, "compat.dokit.cpu_pct"), 12.5);
		cr_expect_eq(find(low, "compat.matrix.jiffies_per_min"), 600);
		cr_expect(isnan(find(low, "compat.matrix.overheat")));
		cr_expect_eq(find(footer, "targets.core_pct"), 30);
		cr_expect_eq(find(&scene(footer, "unknown")->sums, "targets.core_pct"), 30);
	}
}

static void start_told(const char *event_name, const char *kind, uint64_t start_ns, const char *key,
		       int64_t ns)
{
	struct record_event event = {
		.event = event_name,
		.keys = {{.name = "kind", .text = kind},
			 {.name = "start_boot_ns", .value = (int64_t)start_ns},
			 {.name = key, .value = ns}},
		.key_count = 3,
	};
	struct record record = {.type = RECORD_EVENT, .t_boot_ns = 100 * SEC, .event = &event};

	cr_assert_eq(summary_add(summary, &record), 0);
}

static const struct record_distribution *spread(const struct record_footer *footer,
						const char *name)
{
	for (size_t i = 0; i < footer->distribution_count; i++)
		if (!strcmp(footer->distributions[i].name, name))
			return &footer->distributions[i];
	return NULL;
}

/* How long the starts of a run took, in the middle; each in the scene in which it was. */
Test(scenes, starts)
{
	const struct record_distribution *frames;
	const struct record_footer *footer;

	second(1, 1);
	mark("home", "begin", SEC, true);
	second(2, 1);
	mark("home", "end", 2 * SEC, true);
	start_told("startup", "cold", SEC + 1000, "first_frame_ns", 500000000);
	start_told("startup", "cold", SEC + 2000, "first_frame_ns", 300000000);
	start_told("startup", "cold", 5 * SEC, "first_frame_ns", 900000000);
	start_told("startup", "cold", 5 * SEC, "first_idle_ns", 2000000000);
	start_told("launch", "warm", 5 * SEC, "first_frame_ns", 70000000);
	start_told("launch", "hot", 5 * SEC, "first_frame_ns", 20000000);
	start_told("launch", "unknown", 5 * SEC, "first_frame_ns", 1);
	start_told("launch", "hot", 5 * SEC, "drawn_ns", 1);
	/* No event of ours, and none of these is a time. */
	start_told("launch", "hot", 5 * SEC, "first_frame_ns", -1);
	start_told("other", "hot", 5 * SEC, "first_frame_ns", 1);
	footer = summary_footer(summary);
	frames = spread(footer, "startup.first_frame_ns");
	cr_assert(frames && frames->n == 3);
	cr_expect_float_eq(frames->p50, 500000000, 10000000);
	cr_expect_eq(frames->max, 900000000);
	cr_assert(spread(footer, "startup.first_idle_ns"));
	cr_expect_eq(spread(footer, "startup.first_idle_ns")->n, 1);
	cr_expect_null(spread(footer, "launches.cold.first_frame_ns"));
	cr_expect_eq(spread(footer, "launches.warm.first_frame_ns")->max, 70000000);
	cr_expect_eq(spread(footer, "launches.hot.first_frame_ns")->n, 1);
	frames = spread(&scene(footer, "home")->sums, "startup.first_frame_ns");
	cr_assert(frames && frames->n == 2);
	cr_expect_eq(frames->max, 500000000);
	cr_expect_eq(find(footer, "events"), 12);
}

Test(scenes, a_thousand)
{
	const struct record_footer *footer;
	double sum = 0;
	char name[32];

	second(1, 1);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "scene %u", i);
		mark(name, "begin", (i + 1) * SEC + 1, true);
		second(i + 2, 1);
		mark(name, "end", (i + 2) * SEC + 1, true);
	}
	footer = summary_footer(summary);
	cr_assert_eq(footer->scene_count, SCENES + 2); /* unknown and other */
	cr_assert_eq(busy(footer, "other"), 1000 - SCENES);
	cr_assert_eq(scene(footer, "other")->times, 1000 - SCENES);
	for (size_t i = 0; i < footer->scene_count; i++)
		sum += find(&footer->scenes[i].sums, "cpu.busy_ns");
	cr_assert_eq(sum, 1001);
}

Test(scenes, names)
{
	char text[100];

	cr_assert(scene_name_is_good("scroll list"));
	cr_assert(scene_name_is_good("Anmeldung \xc3\xbc\"\\{}.$"));
	cr_assert(!scene_name_is_good(""));
	cr_assert(!scene_name_is_good(" a")); /* `mark` would make "a" of it */
	cr_assert(!scene_name_is_good("a\nb"));
	cr_assert(!scene_name_is_good("a\x1b[2J"));
	cr_assert(!scene_name_is_good("a\x7f"));
	cr_assert(!scene_name_is_good("a\xc2\x9b")); /* CSI of C1 */
	cr_assert(!scene_name_is_good("a\xff"));
	cr_assert(!scene_name_is_good("mixed"));
	memset(text, 'a', sizeof(text));
	text[SCENE_NAME] = 0;
	cr_assert(scene_name_is_good(text));
	text[SCENE_NAME] = 'a';
	text[SCENE_NAME + 1] = 0;
	cr_assert(!scene_name_is_good(text));
}

Test(scenes, written_and_read)
{
	static const char name[] = "a.b \"c\\ {cpu}";
	struct record record = {.type = RECORD_FOOTER};
	struct parsed_record *parsed = NULL;
	char why[256] = "", *line;
	size_t length;

	second(1, 1);
	mark(name, "begin", SEC, true);
	second(2, 10);
	record.footer = summary_footer(summary);
	line = record_to_line(&record, &length);
	cr_assert(line);
	cr_assert_eq(record_parse(line, length - 1, &parsed, why, sizeof(why)), 0, "%s", why);
	cr_assert_eq(parsed->record.footer->scene_count, 2);
	cr_assert_eq(busy(parsed->record.footer, name), 10);
	cr_assert_eq(busy(parsed->record.footer, "unknown"), 1);
	cr_assert(scene(parsed->record.footer, name)->open_at_end);
	cr_assert_eq(scene(parsed->record.footer, name)->sums.distribution_count, 3);
	parsed_record_free(parsed);
	free(line);
}

/* ---- foreground and background ---- */

static void in_context(unsigned at, struct record_process_context *processes, size_t count,
		       uint64_t cpu_ns)
{
	struct record_process_cpu cpus[] = {{.pid = 7, .cpu_ns = cpu_ns, .runnable_ns = {true, 1}},
					    {.pid = 8, .cpu_ns = 5 * cpu_ns}};
	struct record_uid_net uids[] = {{.uid = 10001, .bytes = {cpu_ns, 1, 2 * cpu_ns, 1}},
					{.uid = 1000, .bytes = {77, 1, 77, 1}}};
	struct record_layer layers[] = {{.pid = 7, .shown = cpu_ns, .janky = 1}};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true, .processes = cpus, .process_count = 2},
		.net = {.present = true, .uids = uids, .uid_count = 2},
		.frames = {.present = true, .layers = layers, .layer_count = 1},
		.context = {.present = true, .processes = processes, .process_count = count},
	};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = at * SEC, .interval = &interval};

	cr_assert_eq(summary_add(summary, &record), 0);
}

static void is(const char *key, double value)
{
	double found = find(summary_footer(summary), key);

	cr_assert(isnan(value) ? isnan(found) : found == value, "%s is %g, not %g", key, found,
		  value);
}

Test(split, states)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	in_context(1, &row, 1, 1);
	row.state = CONTEXT_CACHED;
	row.changed = true;
	in_context(2, &row, 1, 10);
	row.changed = false;
	in_context(3, &row, 1, 100);
	in_context(4, NULL, 0, 1000); /* it ended */
	is("foreground.cpu_ns", 1);
	is("mixed.cpu_ns", 10);
	is("background.cpu_ns", 100);
	is("unknown.cpu_ns", 1000 + 5 * 1111); /* pid 8 has no context */
	is("foreground.runnable_ns", 1);
	is("foreground.rx_bytes", 1);
	is("foreground.tx_bytes", 2);
	is("mixed.rx_bytes", 10);
	is("background.tx_bytes", 200);
	is("unknown.rx_bytes", 1000);
	is("foreground.frames.shown", 1);
	is("background.frames.janky", 1);
	is("foreground.process_dur_ns", 1e9);
	is("unknown.process_dur_ns", 1e9);
	/* nothing is lost on the way */
	is("net.rx_bytes", 1111 + 4 * 77);
}

Test(split, no_block)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_BACKGROUND};

	with_source("blocks", "ok");
	in_context(1, &row, 1, 1);
	is("background.blocks.count", 0);
	is("foreground.blocks.count", NAN);
}

Test(split, a_uid_is_in_the_foreground_with_one_process)
{
	struct record_process_context rows[] = {
		{.pid = 7, .uid = 10001, .state = CONTEXT_BACKGROUND},
		{.pid = 9, .uid = 10001, .state = CONTEXT_FOREGROUND},
	};

	in_context(1, rows, 2, 1);
	rows[1].state = CONTEXT_BACKGROUND;
	rows[1].changed = true;
	in_context(2, rows, 2, 10);
	is("foreground.rx_bytes", 1);
	is("background.cpu_ns", 11);
	is("mixed.rx_bytes", 10);
}

/* Bytes of a target's uid are in a part also where none of its processes is there. */
Test(split, bytes_of_a_target_that_ended)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};
	struct header_target target = {.uid = {true, 10001}};
	struct record_header header = {.targets = &target, .target_count = 1};
	struct record record = {.type = RECORD_HEADER, .header = &header};

	cr_assert_eq(summary_add(summary, &record), 0);
	in_context(1, &row, 1, 1);
	in_context(2, NULL, 0, 10);
	in_context(3, NULL, 0, 100); /* its process is gone, and packets come still */
	is("foreground.rx_bytes", 1);
	is("unknown.rx_bytes", 110);
	is("unknown.tx_bytes", 220);
	is("targets.rx_bytes", 111);
}

Test(split, a_reading_that_is_missing)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	in_context(1, &row, 1, 1);
	/* the same at both ends, but not known between them */
	row.changed = true;
	in_context(2, &row, 1, 10);
	is("foreground.cpu_ns", 1);
	is("mixed.cpu_ns", 10);
}

/* A row of the context is of pid 7; 9 has ended, and 5 bytes are of rows that were cut off. */
static void reads_and_writes(unsigned at, const struct record_process_context *row, uint64_t bytes,
			     bool knows_syncs)
{
	struct record_process_context context = *row;
	struct record_disk_process processes[] = {
		{.pid = 7,
		 .start_boot_ns = 5,
		 .sums = {.read_bytes = bytes, .write_bytes = 2 * bytes},
		 .fsync = {bytes, 1, 10 * bytes},
		 .msync = {0, 0, 7}},
		{.pid = 9, .sums = {.read_bytes = 1000 * bytes}},
	};
	struct record_interval interval = {
		.dur_ns = SEC,
		.disk = {.present = true,
			 .processes = processes,
			 .process_count = 2,
			 .targets = {.read_bytes = 1001 * bytes + 5, .write_bytes = 2 * bytes},
			 .targets_sync = {bytes, 1, 10 * bytes + 7},
			 .has_targets = true,
			 .has_targets_sync = knows_syncs},
		.context = {.present = true, .processes = &context, .process_count = 1},
	};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = at * SEC, .interval = &interval};

	cr_assert_eq(summary_add(summary, &record), 0);
}

Test(split, bytes_read_and_written)
{
	struct record_process_context row = {
		.pid = 7, .uid = 10001, .start_boot_ns = 5, .state = CONTEXT_FOREGROUND};

	reads_and_writes(1, &row, 1, true);
	row.state = CONTEXT_BACKGROUND;
	row.changed = true;
	reads_and_writes(2, &row, 10, true);
	row.changed = false;
	reads_and_writes(3, &row, 100, true);
	is("foreground.disk_read_bytes", 1);
	is("mixed.disk_write_bytes", 20);
	is("background.disk_read_bytes", 100);
	is("background.syncs", 101);
	is("background.sync_ns", 1007);
	is("unknown.disk_read_bytes", 111000 + 3 * 5);
	is("unknown.syncs", NAN);
	is("targets.disk_read_bytes", 111 + 111000 + 3 * 5);
	is("targets.syncs", 111 + 3);
}

/* Where no call can be seen, none is no number. */
Test(split, calls_that_nobody_sees)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .start_boot_ns = 5};

	reads_and_writes(1, &row, 1, false);
	is("targets.disk_write_bytes", 2);
	is("targets.syncs", NAN);
	is("targets.sync_ns", NAN);
}

static void block(uint64_t start_ns, uint64_t wall_ns)
{
	struct record_block one = {
		.pid = 7, .state = BLOCK_CLOSED, .start_boot_ns = start_ns, .wall_ns = wall_ns};
	struct record record = {.type = RECORD_BLOCK, .block = &one};

	cr_assert_eq(summary_add(summary, &record), 0);
}

Test(split, blocks)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	in_context(1, &row, 1, 1);
	block(SEC / 2, SEC); /* ends in the next interval, and was in the foreground all the time */
	in_context(2, &row, 1, 1);
	block(2 * SEC - 10, 20);
	row.state = CONTEXT_BACKGROUND;
	row.changed = true;
	in_context(3, &row, 1, 1);
	row.changed = false;
	block(3 * SEC + 10, 30);
	in_context(4, &row, 1, 1);
	block(4 * SEC + 10, 40); /* nobody looked afterwards */
	is("foreground.blocks.count", 1);
	is("foreground.blocks.total_ns", SEC);
	is("mixed.blocks.total_ns", 20);
	is("background.blocks.total_ns", 30);
	is("unknown.blocks.total_ns", 40);
	is("blocks.count", 4);
}

static void late_frame(uint64_t start_ns, uint64_t late_ns)
{
	struct record_jank jank = {.pid = 7,
				   .window_start_ns = start_ns,
				   .window_end_ns = start_ns + SEC / 10,
				   .late_ns = late_ns,
				   .cause = JANK_CAUSE_MAIN_CPU};
	struct record record = {.type = RECORD_JANK, .jank = &jank};

	cr_assert_eq(summary_add(summary, &record), 0);
}

/* A frame source tells late frames seconds after they were. */
Test(split, late_frames)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	in_context(1, &row, 1, 1);
	in_context(2, &row, 1, 1);
	late_frame(SEC, 5);
	in_context(3, &row, 1, 1);
	late_frame(2 * SEC, 70);
	row.state = CONTEXT_BACKGROUND;
	row.changed = true;
	in_context(4, &row, 1, 1); /* it has changed since that frame */
	row.changed = false;
	late_frame(4 * SEC + 1, 900);
	in_context(5, &row, 1, 1);
	late_frame(5 * SEC, 11000); /* nobody looked afterwards */
	is("foreground.frames.late", 1);
	is("foreground.frames.late_ns", 5);
	is("mixed.frames.late_ns", 70);
	is("background.frames.late_ns", 900);
	is("unknown.frames.late_ns", 11000);
	is("frames.late_ns", 11975);
	is("foreground.blocks.count", NAN);
	/* and by their causes */
	is("foreground.frames.causes.main_cpu", 1);
	is("background.frames.causes.main_cpu_ns", 900);
	is("unknown.frames.causes.main_cpu_ns", 11000);
	is("frames.causes.main_cpu_ns", 11975);
}

/* The rows of tasks say what their processes have; the rest of the targets' sums is of
 * nobody who is known. */
Test(split, clusters)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};
	struct record_frequency_time ours[] = {{0, {true, 600000}, 10}, {4, {true, 1800000}, 200}},
				     theirs[] = {{0, {false, 0}, 3000}, {9, {true, 1}, 7}};
	struct record_task tasks[] = {{.tid = 71,
				       .pid = 7,
				       .frequencies = ours,
				       .frequency_count = 2,
				       .fnorm_ns = {true, 150}},
				      {.tid = 72,
				       .pid = 7,
				       .frequencies = ours,
				       .frequency_count = 1,
				       .fnorm_ns = {true, 5}},
				      {.tid = 81,
				       .pid = 8,
				       .frequencies = theirs,
				       .frequency_count = 2,
				       .fnorm_ns = {true, 1000}}};
	struct record_frequency_time little[] = {{0, {true, 600000}, 25}, {0, {false, 0}, 3000}},
				     big[] = {{4, {true, 1800000}, 150}, {4, {true, 2e6}, 50}};
	struct record_cluster clusters[] = {
		{.cluster = 0, .targets_ns = 3025, .frequencies = little, .frequency_count = 2},
		{.cluster = 4, .targets_ns = 200, .frequencies = big, .frequency_count = 2}};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true,
			.tasks = tasks,
			.task_count = 3,
			.clusters = clusters,
			.cluster_count = 2,
			.targets_fnorm_ns = {true, 1160},
			.capacity_ns = {true, SEC}},
		.context = {.present = true, .processes = &row, .process_count = 1},
	};
	struct record record = {.type = RECORD_INTERVAL, .t_boot_ns = SEC, .interval = &interval};

	cr_assert_eq(summary_add(summary, &record), 0);
	is("foreground.clusters.0.cpu_ns", 20);
	is("unknown.clusters.0.cpu_ns", 3005);
	is("foreground.clusters.4.cpu_ns", 200);
	is("unknown.clusters.4.cpu_ns", NAN);
	is("foreground.fnorm_ns", 155);
	is("unknown.fnorm_ns", 1005);
	is("targets.clusters.0.cpu_ns", 3025);
	is("targets.fnorm_ns", 1160);
	/* and by frequency; no part is more than its total */
	is("foreground.clusters.0.600000_khz_ns", 20);
	is("unknown.clusters.0.600000_khz_ns", 5);
	is("foreground.clusters.0.unknown_ns", NAN);
	is("unknown.clusters.0.unknown_ns", 3000);
	is("foreground.clusters.4.1800000_khz_ns", 150);
	is("unknown.clusters.4.1800000_khz_ns", NAN);
	is("unknown.clusters.4.2000000_khz_ns", 50);
	/* The process changes, and a row of the next one's: each frequency adds up to its total. */
	row.state = CONTEXT_BACKGROUND;
	row.changed = true;
	record.t_boot_ns += SEC;
	cr_assert_eq(summary_add(summary, &record), 0);
	row.changed = false;
	record.t_boot_ns += SEC;
	cr_assert_eq(summary_add(summary, &record), 0);
	is("foreground.clusters.0.600000_khz_ns", 20);
	is("mixed.clusters.0.600000_khz_ns", 20);
	is("background.clusters.0.600000_khz_ns", 20);
	is("unknown.clusters.0.600000_khz_ns", 15);
	is("targets.clusters.0.600000_khz_ns", 75);
}

/* Whatever frequencies a record has, the parts have no more totals than the sums have. */
Test(split, many_frequencies)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};
	struct record_frequency_time at = {0, {true, 1}, 5};
	struct record_task task = {.pid = 7, .frequencies = &at, .frequency_count = 1};
	struct record_cluster cluster = {.targets_ns = 5, .frequencies = &at, .frequency_count = 1};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true,
			.tasks = &task,
			.task_count = 1,
			.clusters = &cluster,
			.cluster_count = 1},
		.context = {.present = true, .processes = &row, .process_count = 1},
	};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};

	for (; at.khz.value <= 3000; at.khz.value++) {
		record.t_boot_ns += SEC;
		cr_assert_eq(summary_add(summary, &record), 0);
	}
	is("foreground.clusters.0.cpu_ns", 15000);
	is("foreground.clusters.0.511_khz_ns", 5);
	is("foreground.clusters.0.512_khz_ns", NAN);
	is("foreground.clusters.other_ns", 15000 - 511 * 5);
	is("targets.clusters.other_ns", 15000 - 511 * 5);
}

/* Of the uids the targets' alone have a state. */
Test(split, tcp)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};
	struct record_uid_tcp uids[] = {
		{.uid = 10001, .retransmits = 3, .failed.refused = 2, .connects = 1},
		{.uid = 10002, .retransmits = 100, .connects = 50}};
	struct record_interval interval = {
		.dur_ns = SEC,
		.tcp = {.present = true, .uids = uids, .uid_count = 2},
		.context = {.present = true, .processes = &row, .process_count = 1},
	};
	struct record record = {.type = RECORD_INTERVAL, .t_boot_ns = SEC, .interval = &interval};

	cr_assert_eq(summary_add(summary, &record), 0);
	row.state = CONTEXT_BACKGROUND;
	row.changed = true;
	record.t_boot_ns += SEC;
	uids[0].retransmits = 20;
	cr_assert_eq(summary_add(summary, &record), 0);
	is("foreground.tcp.retransmits", 3);
	is("foreground.tcp.failed.refused", 2);
	is("foreground.tcp.connects", 1);
	is("mixed.tcp.retransmits", 20);
	is("background.tcp.retransmits", NAN);
	is("unknown.tcp.retransmits", NAN);
	is("tcp.retransmits", 223);
}

/* A block is told before the interval that it ended in, the first one of a run too. */
Test(split, blocks_of_the_first_interval)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	block(SEC / 4, 10);
	for (unsigned i = 0; i < 300; i++)
		block(SEC / 2, 2);
	in_context(1, &row, 1, 1);
	block(SEC + 5, 20);
	in_context(2, &row, 1, 1);
	is("foreground.blocks.count", 1 + 255 + 1);
	is("foreground.blocks.total_ns", 10 + 255 * 2 + 20);
	is("unknown.blocks.count", 45); /* more than are kept */
	is("unknown.blocks.total_ns", 45 * 2);
	is("blocks.count", 302);
}

/* Where the first interval has no context, its CPU time is in no part, and so are its blocks. */
Test(split, blocks_before_a_context)
{
	struct record_process_context row = {.pid = 7, .uid = 10001, .state = CONTEXT_FOREGROUND};

	block(SEC / 4, 10);
	in_context(1, NULL, 0, 1);
	block(SEC + 5, 20);
	in_context(2, &row, 1, 1);
	is("foreground.blocks.total_ns", 20);
	is("unknown.blocks.count", NAN);
}

/* A pid that is given to another process within an interval: what the first one did is not what
 * the second one is. */
Test(split, a_pid_that_is_used_again)
{
	struct record_process_context row = {
		.pid = 7, .uid = 10001, .start_boot_ns = SEC, .state = CONTEXT_FOREGROUND};
	struct record_process_cpu cpus[] = {{.pid = 7, .start_boot_ns = SEC + 5, .cpu_ns = 1},
					    {.pid = 7, .start_boot_ns = 3 * SEC, .cpu_ns = 10}};
	struct record_memory_process memory[] = {
		{.pid = 7, .start_boot_ns = SEC, .rss_bytes = {true, 100}},
		{.pid = 7, .start_boot_ns = 3 * SEC, .rss_bytes = {true, 7}}};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true, .processes = cpus, .process_count = 2},
		.memory = {.present = true, .processes = memory, .process_count = 2},
		.context = {.present = true, .processes = &row, .process_count = 1},
	};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = 5 * SEC, .interval = &interval};
	const struct record_footer *footer;
	unsigned found = 0;

	cr_assert_eq(summary_add(summary, &record), 0);
	is("foreground.cpu_ns", 1);
	is("unknown.cpu_ns", 10);
	footer = summary_footer(summary);
	for (size_t i = 0; i < footer->distribution_count; i++) {
		const struct record_distribution *one = &footer->distributions[i];

		if (!strcmp(one->name, "foreground.process_rss_bytes"))
			found += one->n == 1 && one->max == 100;
		if (!strcmp(one->name, "unknown.process_rss_bytes"))
			found += one->n == 1 && one->max == 7;
		if (!strcmp(one->name, "targets.rss_bytes"))
			found += one->n == 1 && one->max == 107;
	}
	cr_expect_eq(found, 3);
}

Test(split, nothing_without_a_context)
{
	second(1, 5);
	block(SEC / 2, 5);
	is("unknown.cpu_ns", NAN);
	is("unknown.blocks.count", NAN);
}
