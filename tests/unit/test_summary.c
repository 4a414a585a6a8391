/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "record/histogram.h"
#include "record/losses.h"
#include "summary/clusters.h"
#include "summary/summary.h"

#define SEC 1000000000ull

static double value(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return footer->totals[i].value;
	return NAN;
}

static const struct record_distribution *distribution(const struct record_footer *footer,
						      const char *name)
{
	for (size_t i = 0; i < footer->distribution_count; i++)
		if (!strcmp(footer->distributions[i].name, name))
			return &footer->distributions[i];
	return NULL;
}

static void add_interval(struct summary *summary, const struct record_interval *interval)
{
	struct record record = {.type = RECORD_INTERVAL, .interval = interval};

	cr_assert_eq(summary_add(summary, &record), 0);
}

static void add_block(struct summary *summary, enum block_state state, uint64_t wall_ns)
{
	struct record_block block = {.state = state, .wall_ns = wall_ns};
	struct record record = {.type = RECORD_BLOCK, .block = &block};

	cr_assert_eq(summary_add(summary, &record), 0);
}

Test(summary, totals_and_distributions)
{
	struct record_task tasks[] = {{.cpu_ns = 1, .exited = true},
				      {.cpu_ns = 2},
				      {.cpu_ns = 1, .exited = true}}; /* cut by --top */
	struct record_uid_net uids[] = {{1, NULL, {1, 2, 3, 4}}, {2, NULL, {10, 20, 30, 40}}};
	struct record_interval interval = {
		.cpu = {.present = true,
			.tasks = tasks,
			.task_count = 2,
			.cut_count = 1,
			.other_ns = 5},
		.net = {.present = true,
			.uids = uids,
			.uid_count = 2,
			.loopback = {100, 1, 200, 2},
			.unattributed = {1000, 1, 2000, 2}},
	};
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;
	struct record_event event = {.event = "mark"};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	for (uint64_t i = 1; i <= 100; i++) {
		interval.dur_ns = SEC + i;
		interval.cpu.busy_ns = i;
		interval.cpu.idle_ns = (struct opt_u64){i != 50, 1000};
		interval.cpu.unaccounted_ns = (struct opt_i64){i != 50, -3};
		interval.self.cpu_ns = 7;
		interval.self.anon_bytes = SOME_U64(4096 * i);
		interval.self.stops = 1;
		interval.self.stop_max_ns = i == 40 ? 900 : 10;
		add_interval(summary, &interval);
	}
	cr_assert_eq(summary_add(summary, &record), 0);
	cr_assert_eq(summary_set_total(summary, "own.total", 1), 0);
	cr_assert_eq(summary_set_total(summary, "own.total", 2), 0);
	footer = summary_footer(summary);
	cr_expect_eq(value(footer, "intervals"), 100);
	cr_expect_eq(value(footer, "dur_ns"), 100e9 + 5050);
	cr_expect_eq(value(footer, "cpu.busy_ns"), 5050);
	cr_expect_eq(value(footer, "cpu.other_ns"), 500);
	cr_expect_eq(value(footer, "cpu.idle_ns"), 99000);
	cr_expect_eq(value(footer, "cpu.unaccounted_ns"), -297);
	cr_expect_eq(value(footer, "cpu.tasks_exited"), 200);
	cr_expect_eq(value(footer, "net.rx_bytes"), 1100);
	cr_expect_eq(value(footer, "net.rx_packets"), 2200);
	cr_expect_eq(value(footer, "net.tx_bytes"), 3300);
	cr_expect_eq(value(footer, "net.tx_packets"), 4400);
	cr_expect_eq(value(footer, "net.loopback.tx_bytes"), 20000);
	cr_expect_eq(value(footer, "net.unattributed.rx_bytes"), 100000);
	cr_expect_eq(value(footer, "self.cpu_ns"), 700);
	cr_expect_eq(value(footer, "self.stops"), 100);
	cr_expect_eq(value(footer, "self.stop_max_ns"), 900);
	cr_expect_eq(value(footer, "self.anon_bytes"), 409600, "as it is now, no sum");
	cr_expect_eq(value(footer, "own.total"), 2);
	cr_expect_eq(value(footer, "events"), 1);
	cr_expect_eq(value(footer, "lost_pct"), 0);
	cr_expect_eq(distribution(footer, "cpu.interval_busy_ns")->p95, 95);
	cr_expect_eq(distribution(footer, "cpu.interval_busy_ns")->n, 100);
	cr_expect_eq(distribution(footer, "cpu.interval_busy_ns")->mean, 50.5);
	cr_expect_eq(distribution(footer, "interval.dur_ns")->min, SEC + 1);
	cr_expect_null(distribution(footer, "blocks.wall_ns"), "of nothing there is none");
	/* Asked again, it says the same. */
	cr_expect_eq(value(summary_footer(summary), "intervals"), 100);
	summary_free(summary);
	summary_free(NULL);
}

/* Where the targets ran: by cluster and frequency, and as shares of the device. Totals stay few
 * whatever a record has. */
Test(summary, clusters)
{
	struct record_frequency_time little[] = {{0, SOME_U64(500000), 300}, {0, {0}, 1}};
	struct record_frequency_time big[] = {{4, SOME_U64(2000000), 100},
					      {4, SOME_U64(1000000), 200}};
	struct record_cluster clusters[] = {
		{0, "0-3", SOME_U64(512), SOME_U64(1000000), 301, little, 2},
		{4, "4-7", SOME_U64(1024), SOME_U64(2000000), 300, big, 2},
	};
	struct record_process_cpu process = {.pid = 1, .cpu_ns = 601, .process = "a"};
	struct record_interval interval = {
		.dur_ns = 1000,
		.cpu = {.present = true,
			.online_ns = 8000,
			.processes = &process,
			.process_count = 1,
			.clusters = clusters,
			.cluster_count = 2,
			.targets_fnorm_ns = SOME_U64(275),
			.capacity_ns = SOME_U64(6000)},
	};
	struct header_target target = {.pid = SOME_U64(1)};
	struct record_header header = {.targets = &target, .target_count = 1};
	struct record first = {.type = RECORD_HEADER, .header = &header};
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;

	cr_assert_eq(summary_add(summary, &first), 0);
	add_interval(summary, &interval);
	/* One without capacities: its time is in neither part of the quotient. */
	interval.cpu.capacity_ns.present = false;
	add_interval(summary, &interval);
	footer = summary_footer(summary);
	cr_expect_eq(value(footer, "targets.clusters.0.cpu_ns"), 602);
	cr_expect_eq(value(footer, "targets.clusters.0.500000_khz_ns"), 600);
	cr_expect_eq(value(footer, "targets.clusters.0.unknown_ns"), 2);
	cr_expect_eq(value(footer, "targets.clusters.4.1000000_khz_ns"), 400);
	cr_expect_eq(value(footer, "targets.fnorm_ns"), 275);
	cr_expect_eq(value(footer, "cpu.capacity_ns"), 6000);
	cr_expect_float_eq(value(footer, "targets.device_fnorm_pct"), 100 * 275.0 / 6000, 1e-9);
	/* (300 / 2 + 100 + 200 / 2) x 2 of 2000 ns x 8 CPUs */
	cr_expect_float_eq(value(footer, "compat.perfdog.cpu_normalised_pct"), 100 * 700.0 / 16000,
			   1e-9);
	for (uint64_t khz = 1; khz < 3000; khz++) {
		little[0].khz = SOME_U64(khz);
		add_interval(summary, &interval);
	}
	footer = summary_footer(summary);
	cr_expect_lt(footer->total_count, CLUSTER_TOTALS + 100);
	cr_expect_gt(value(footer, "targets.clusters.other_ns"), 0);
	summary_free(summary);
}

Test(summary, what_no_source_measured_has_no_total)
{
	struct summary *summary = summary_new(NULL);
	struct record_interval interval = {.dur_ns = SEC};
	const struct record_footer *footer;

	cr_assert_eq(missing_list_set(&interval.missing, "net", "not permitted"), 0);
	add_interval(summary, &interval);
	footer = summary_footer(summary);
	cr_expect(isnan(value(footer, "cpu.busy_ns")));
	cr_expect(isnan(value(footer, "cpu.idle_ns")));
	cr_expect(isnan(value(footer, "net.rx_bytes")));
	cr_expect(isnan(value(footer, "self.anon_bytes")));
	cr_expect_eq(footer->missing.count, 1);
	cr_expect_str_eq(footer->missing.items[0].reason, "not permitted");
	missing_list_free(&interval.missing);
	summary_free(summary);
}

/* An open block is told again when it ends, and once more at 2 s and 5 s: it counts once. */
Test(summary, blocks_count_once)
{
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;

	add_block(summary, BLOCK_OPEN, SEC / 2);
	add_block(summary, BLOCK_OPEN, 5 * SEC);
	add_block(summary, BLOCK_CLOSED, 6 * SEC);
	add_block(summary, BLOCK_EXITED, SEC);
	footer = summary_footer(summary);
	cr_expect_eq(value(footer, "blocks.count"), 2);
	cr_expect_eq(value(footer, "blocks.total_ns"), 7e9);
	cr_expect_eq(distribution(footer, "blocks.wall_ns")->max, 6e9);
	cr_expect_eq(distribution(footer, "blocks.wall_ns")->n, 2);
	summary_free(summary);
}

static const struct loss_info more_items[] = {
	{"frames_torn", LOSS_LOST, LOSS_OF_FRAMES},
	{"blocks_event_ring_full", LOSS_LOST, LOSS_OF_BLOCKS},
};
static const struct loss_table more_losses = {more_items, 2, &summary_losses};
static const struct loss_info some_items[] = {
	{"cpu_overflow_map_full_ns", LOSS_LOST, LOSS_OF_CPU_TIME},
	{"cpu_dead_slot_reused", LOSS_LOST, LOSS_OF_TASKS},
	{"net_lost_bytes", LOSS_LOST, LOSS_OF_BYTES},
	{"net_header_unreadable", LOSS_LOST, LOSS_OF_PACKETS},
	{"cpu_missed_switches", LOSS_REPAIRED, LOSS_OF_NOTHING},
};
static const struct loss_table some_losses = {some_items, 5, &more_losses};

/* The share that was lost in an interval like this one. */
static double lost(const char *name, uint64_t amount, uint64_t overflow_ns)
{
	struct record_task tasks[4] = {
		{.exited = true}, {.exited = true}, {.exited = true}, {.exited = true}};
	struct record_uid_net uids[] = {{1, NULL, {300, 1, 100, 1}}};
	struct record_layer layers[] = {{.shown = 30}, {.shown = 10}};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true,
			.busy_ns = 1000,
			.overflow_ns = overflow_ns,
			.tasks = tasks,
			.task_count = 4},
		.net = {.present = true,
			.uids = uids,
			.uid_count = 1,
			.unattributed = {50, 1, 50, 1}},
		.frames = {.present = true, .layers = layers, .layer_count = 2},
	};
	struct loss_registry registry = {0};
	struct summary *summary = summary_new(&registry);
	double pct;

	cr_assert_eq(loss_registry_add(&registry, &some_losses), 0);

	cr_assert_eq(counter_list_add(&interval.lost, name, amount), 0);
	cr_assert_eq(
		loss_registry_sort(&registry, &interval.lost, &interval.late, &interval.repaired),
		0);
	add_interval(summary, &interval);
	pct = summary_lost_pct(summary);
	cr_expect_eq(value(summary_footer(summary), "lost_pct"), pct);
	cr_expect_eq(counter_list_get(&summary_footer(summary)->lost, name) +
			     counter_list_get(&summary_footer(summary)->late, name) +
			     counter_list_get(&summary_footer(summary)->repaired, name),
		     amount, "every loss is in the footer");
	counter_list_free(&interval.lost);
	counter_list_free(&interval.late);
	counter_list_free(&interval.repaired);
	summary_free(summary);
	return pct;
}

Test(summary, share_of_what_was_lost)
{
	cr_expect_float_eq(lost("x", 0, 0), 0, 1e-9);
	cr_expect_float_eq(lost("x", 0, 250), 25, 1e-9);
	cr_expect_float_eq(lost("cpu_overflow_map_full_ns", 1000, 0), 50, 1e-9);
	cr_expect_float_eq(lost("cpu_overflow_map_full_ns", 1000, 500), 75, 1e-9);
	cr_expect_float_eq(lost("cpu_dead_slot_reused", 1, 0), 25, 1e-9);
	cr_expect_float_eq(lost("cpu_dead_slot_reused", 9, 0), 100, 1e-9);
	cr_expect_float_eq(lost("net_lost_bytes", 50, 0), 10, 1e-9);
	cr_expect_float_eq(lost("net_header_unreadable", 2, 0), 100 * 2 / 6., 1e-9);
	cr_expect_float_eq(lost("frames_torn", 10, 0), 20, 1e-9);
	cr_expect_float_eq(lost("blocks_event_ring_full", 1, 0), 100, 1e-9);
	cr_expect_float_eq(lost("records_dropped", 1, 0), 100, 1e-9);
	/* The sums of intervals that were not told are in the next one. */
	cr_expect_float_eq(lost("interval_overruns", 3, 0), 0, 1e-9);
	/* A missed switch loses nothing: the next reading has the kernel's own sum. */
	cr_expect_float_eq(lost("cpu_missed_switches", 1000, 0), 0, 1e-9);
	/* The largest counts, not the sum. */
	cr_expect_float_eq(lost("net_lost_bytes", 50, 300), 30, 1e-9);
}

Test(losses, sorted_by_their_kind)
{
	static const struct loss_info items[] = {
		{"a", LOSS_LATE, LOSS_OF_NOTHING},
		{"b", LOSS_REPAIRED, LOSS_OF_NOTHING},
		{"c", LOSS_LOST, LOSS_OF_BLOCKS},
	};
	static const struct loss_table table = {items, 3, NULL};
	struct loss_registry registry = {0};
	struct counter_list lost = {0}, late = {0}, repaired = {0};

	cr_assert_eq(loss_registry_add(&registry, &table), 0);
	cr_assert_eq(counter_list_add(&lost, "b", 1), 0);
	cr_assert_eq(counter_list_add(&lost, "nobody declared it", 2), 0);
	cr_assert_eq(counter_list_add(&lost, "a", 3), 0);
	cr_assert_eq(counter_list_add(&lost, "c", 4), 0);
	cr_assert_eq(counter_list_add(&late, "a", 10), 0);
	cr_assert_eq(loss_registry_sort(&registry, &lost, &late, &repaired), 0);
	cr_expect_eq(lost.count, 2);
	cr_expect_eq(counter_list_get(&lost, "nobody declared it"), 2);
	cr_expect_eq(counter_list_get(&lost, "c"), 4);
	cr_expect_eq(counter_list_get(&late, "a"), 13);
	cr_expect_eq(counter_list_get(&repaired, "b"), 1);
	cr_expect_eq(loss_registry_find(NULL, "c").kind, LOSS_LOST);
	counter_list_free(&lost);
	counter_list_free(&late);
	counter_list_free(&repaired);
}

static void tell_block(struct summary *summary, uint64_t seq, const char *why, size_t stacks)
{
	struct record_frame frame = {.symbol = "work", .offset = 1};
	struct record_stack stack = {.weight_ns = SEC, .frames = &frame, .frame_count = 1};
	struct record_block block = {
		.state = BLOCK_CLOSED, .wall_ns = SEC, .stacks = &stack, .stack_count = stacks};
	struct record record = {.type = RECORD_BLOCK, .seq = seq, .block = &block};

	if (why)
		cr_assert_eq(missing_list_set(&block.missing, "stacks", why), 0);
	cr_assert_eq(summary_add(summary, &record), 0);
	missing_list_free(&block.missing);
}

/* A block without a stack counts as lost, unless none was to be taken or it follows. */
Test(summary, blocks_without_stack)
{
	struct record_frame frame = {.symbol = "work", .offset = 1};
	struct record_addition addition = {
		.of = 3, .stack = {.weight_ns = SEC, .frames = &frame, .frame_count = 1}};
	struct record record = {.type = RECORD_STACK, .addition = &addition};
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;

	tell_block(summary, 1, NULL, 1);
	tell_block(summary, 2, "--stack off", 0);
	tell_block(summary, 3, MISSING_FOLLOWS, 0);
	cr_expect_float_eq(summary_lost_pct_of(summary, LOSS_OF_STACKS), 100 / 3., 1e-9,
			   "what never follows is lost");
	cr_assert_eq(summary_add(summary, &record), 0);
	cr_assert_eq(summary_add(summary, &record), 0);
	cr_expect_eq(summary_lost_pct_of(summary, LOSS_OF_STACKS), 0);
	tell_block(summary, 6, "no capture succeeded", 0);
	addition.of = 5;
	cr_assert_eq(summary_add(summary, &record), 0);
	cr_expect_float_eq(summary_lost_pct(summary), 25, 1e-9);
	footer = summary_footer(summary);
	cr_expect_eq(counter_list_get(&footer->lost, "blocks_without_stack"), 1);
	cr_expect_float_eq(value(footer, "lost_pct_of.stacks"), 25, 1e-9);
	cr_assert_eq(footer->path_count, 1);
	cr_expect_eq(footer->paths[0].weight_ns, 3 * SEC, "what follows an older record is not");
	summary_free(summary);
}

static void add_run(struct summary *summary, bool look)
{
	struct record_task task = {.tid = 7, .pid = 7, .thread = "a", .process = "a"};
	struct record_process_cpu process = {.pid = 7, .process = "a"};
	struct missing_list missing = {0};
	struct record_interval interval = {.cpu = {.present = true,
						   .tasks = &task,
						   .task_count = 1,
						   .processes = &process,
						   .process_count = 1}};
	struct record_block block = {.state = BLOCK_CLOSED, .wall_ns = SEC};
	struct record record = {.type = RECORD_BLOCK, .block = &block};
	double before = 0;

	cr_assert_eq(missing_list_set(&missing, "stacks", MISSING_FOLLOWS), 0);
	block.missing = missing;
	for (uint64_t i = 1; i <= 30; i++) {
		const struct record_footer *so_far;
		const struct record_distribution *busy;

		interval.dur_ns = SEC;
		task.cpu_ns = process.cpu_ns = interval.cpu.busy_ns = i * 1000003;
		interval.cpu.online_ns = 2 * SEC;
		add_interval(summary, &interval);
		record.seq = i;
		cr_assert_eq(summary_add(summary, &record), 0);
		if (!look)
			continue;
		so_far = summary_so_far(summary);
		cr_assert(so_far);
		cr_expect_eq(value(so_far, "intervals"), i);
		cr_expect_eq(value(so_far, "blocks.count"), i);
		cr_expect_geq(value(so_far, "cpu.busy_ns"), before);
		before = value(so_far, "cpu.busy_ns");
		busy = distribution(so_far, "cpu.interval_busy_ns");
		cr_expect_eq(rint(busy->mean * (double)busy->n), before);
	}
	missing_list_free(&missing);
}

/* Looking at the sums while a run goes on changes nothing of what its footer says. */
Test(summary, so_far_settles_nothing)
{
	struct summary *plain = summary_new(NULL), *looked = summary_new(NULL);
	const struct record_footer *a, *b;

	add_run(plain, false);
	add_run(looked, true);
	a = summary_footer(plain);
	b = summary_footer(looked);
	cr_assert(a && b);
	cr_expect_eq(a->total_count, b->total_count);
	for (size_t i = 0; i < a->total_count; i++)
		cr_expect_eq(a->totals[i].value, value(b, a->totals[i].key), "%s",
			     a->totals[i].key);
	cr_expect_eq(a->distribution_count, b->distribution_count);
	for (size_t i = 0; i < a->distribution_count && i < b->distribution_count; i++)
		cr_expect_eq(a->distributions[i].mean, b->distributions[i].mean);
	cr_expect_eq(a->lost.count, b->lost.count);
	for (size_t i = 0; i < a->lost.count; i++)
		cr_expect_eq(a->lost.items[i].value,
			     counter_list_get(&b->lost, a->lost.items[i].name));
	cr_expect_eq(a->threads.count, b->threads.count);
	summary_free(plain);
	summary_free(looked);
}

/* An interval in which these frames of a layer are told, period_ns apart. */
static void tell_frames(struct summary *summary, uint64_t *at_ns, uint64_t *shown_ns,
			uint64_t count, uint64_t period_ns)
{
	struct histogram *times = histogram_new();
	struct record_layer layer = {.pid = 7,
				     .layer = "app",
				     .shown = count,
				     .interval_hist = times,
				     .first_shown_boot_ns = SOME_U64(*shown_ns)};
	struct record_interval interval = {
		.dur_ns = SEC,
		.frames = {.present = true, .layers = &layer, .layer_count = count > 0}};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};

	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(histogram_add(times, period_ns), 0);
	*at_ns += SEC;
	*shown_ns += count * period_ns;
	record.t_boot_ns = *at_ns;
	cr_assert_eq(summary_add(summary, &record), 0);
	histogram_free(times);
}

/* PerfDog's Drop(FPS) is of when frames were shown: what is told each second is not of a second. */
Test(summary, frames_that_are_told_unevenly)
{
	static const uint64_t told[] = {38, 114, 120, 114, 112, 119, 133, 130, 127, 115, 0, 240};
	struct summary *summary = summary_new(NULL);
	uint64_t at_ns = 10 * SEC, shown_ns = 7 * SEC;

	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		tell_frames(summary, &at_ns, &shown_ns, told[i], SEC / 120);
	cr_expect_eq(value(summary_footer(summary), "compat.perfdog.drop_fps_per_h"), 0);
	/* It falls to 60 and to 20, rests for 5 s, and goes on with 120. */
	for (int i = 0; i < 3; i++)
		tell_frames(summary, &at_ns, &shown_ns, 60, SEC / 60);
	for (int i = 0; i < 2; i++)
		tell_frames(summary, &at_ns, &shown_ns, 20, SEC / 20);
	shown_ns += 5 * SEC;
	for (int i = 0; i < 5; i++)
		tell_frames(summary, &at_ns, &shown_ns, 0, 1);
	for (int i = 0; i < 2; i++)
		tell_frames(summary, &at_ns, &shown_ns, 120, SEC / 120);
	at_ns = shown_ns;
	tell_frames(summary, &at_ns, &shown_ns, 0, 1);
	cr_expect_float_eq(value(summary_footer(summary), "compat.perfdog.drop_fps_per_h"),
			   3 * 3600.0 / 24, 3 * 3600.0 / 24 / 10, "%g",
			   value(summary_footer(summary), "compat.perfdog.drop_fps_per_h"));
	summary_free(summary);
}
