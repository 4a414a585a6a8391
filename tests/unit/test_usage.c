/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summary/blocks.h"
#include "summary/summary.h"

#define SEC 1000000000ull

static uint64_t sum(const struct footer_top *top)
{
	uint64_t sum_ns = top->other_ns;

	for (size_t i = 0; i < top->count; i++)
		sum_ns += top->rows[i].cpu_ns;
	return sum_ns;
}

static double value(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return footer->totals[i].value;
	return -1;
}

static void add(struct summary *summary, const struct record_interval *interval, uint64_t boot_ns)
{
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = boot_ns, .interval = interval};

	cr_assert_eq(summary_add(summary, &record), 0);
}

static uint32_t next(uint32_t *state)
{
	return (*state = *state * 1664525 + 1013904223) >> 8;
}

/* Thousands of threads, processes and uids that come and go, more than there is room for: rows and
 * rest of every list are what the intervals held, to the nanosecond and to the byte. */
Test(usage, rows_and_rest_are_the_run)
{
	enum { TASKS = 900, INTERVALS = 60 };
	struct record_task *tasks = calloc(TASKS, sizeof(*tasks));
	struct record_process_cpu *processes = calloc(TASKS, sizeof(*processes));
	struct record_uid_cpu *uids = calloc(TASKS, sizeof(*uids));
	struct record_uid_net *net = calloc(TASKS, sizeof(*net));
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;
	uint64_t busy_ns = 0, rx_bytes = 0, tx_bytes = 0, rx, tx;
	uint32_t state = 1;

	for (unsigned i = 0; i < INTERVALS; i++) {
		uint64_t now_ns = 100 * SEC + i * SEC;
		struct record_interval interval = {
			.dur_ns = SEC,
			.cpu = {.present = true,
				.tasks = tasks,
				.task_count = TASKS - 100,
				.cut_count = 100,
				.processes = processes,
				.process_count = TASKS,
				.uids = uids,
				.uid_count = TASKS,
				.overflow_ns = 17},
			.net = {.present = true, .uids = net, .uid_count = TASKS},
		};

		for (unsigned t = 0; t < TASKS; t++) {
			pid_t pid = (pid_t)(next(&state) % 100000 + 1);
			bool brief = next(&state) % 2;

			tasks[t] = (struct record_task){
				.tid = pid,
				.pid = pid,
				.uid = next(&state) % 10000,
				.start_boot_ns = brief ? now_ns - SEC / 2 : 7,
				.thread = "worker",
				.process = next(&state) % 3 ? "app" : "other",
				.cpu_ns = next(&state) % 1000000,
				.exited = brief,
			};
			processes[t] = (struct record_process_cpu){
				.pid = pid,
				.uid = tasks[t].uid,
				.process = tasks[t].process,
				.cpu_ns = tasks[t].cpu_ns,
				.start_boot_ns = tasks[t].start_boot_ns,
				.exited = brief,
				.threads = 1,
			};
			uids[t] = (struct record_uid_cpu){tasks[t].uid, tasks[t].cpu_ns};
			net[t] = (struct record_uid_net){
				tasks[t].uid, NULL, {next(&state) % 5000, 1, next(&state) % 99, 1}};
			interval.cpu.busy_ns += tasks[t].cpu_ns;
			rx_bytes += net[t].bytes.rx_bytes;
			tx_bytes += net[t].bytes.tx_bytes;
		}
		interval.cpu.busy_ns += 17;
		busy_ns += interval.cpu.busy_ns;
		add(summary, &interval, now_ns);
	}
	footer = summary_footer(summary);
	cr_expect_eq(value(footer, "cpu.busy_ns"), (double)busy_ns);
	cr_expect_eq(sum(&footer->threads), busy_ns);
	cr_expect_eq(sum(&footer->processes), busy_ns);
	cr_expect_eq(sum(&footer->uids), busy_ns);
	cr_expect_leq(footer->threads.count, 20);
	rx = footer->uids.other_rx_bytes.value;
	tx = footer->uids.other_tx_bytes.value;
	for (size_t i = 0; i < footer->uids.count; i++) {
		rx += footer->uids.rows[i].rx_bytes.value;
		tx += footer->uids.rows[i].tx_bytes.value;
	}
	cr_expect_eq(rx, rx_bytes);
	cr_expect_eq(tx, tx_bytes);
	cr_expect_eq(value(footer, "net.rx_bytes"), (double)rx_bytes);
	/* Rows were dropped: those that came again must say so. */
	for (size_t i = 0; i < footer->threads.count; i++)
		cr_expect(footer->threads.rows[i].count > 1 || footer->threads.rows[i].partial,
			  "row %zu", i);
	summary_free(summary);
	free(tasks);
	free(processes);
	free(uids);
	free(net);
}

/* One heavy process that lives on, and ten thousand that do not: two rows. */
Test(usage, short_lived_ones_of_a_name_are_one_row)
{
	struct summary *summary = summary_new(NULL);
	struct record_process_cpu processes[101] = {{.pid = 1,
						     .process = "server",
						     .cpu_ns = 5 * SEC,
						     .start_boot_ns = 5,
						     .threads = 3}};
	struct record_interval interval = {.dur_ns = SEC,
					   .cpu = {.present = true,
						   .processes = processes,
						   .process_count = 101,
						   .busy_ns = 5 * SEC + 100}};
	const struct record_footer *footer;
	const struct footer_usage *rows;

	for (unsigned i = 0; i < 100; i++) {
		for (unsigned p = 1; p < 101; p++)
			processes[p] = (struct record_process_cpu){
				.pid = (pid_t)(i * 100 + p + 1),
				.process = "sleep",
				.cpu_ns = 1,
				.start_boot_ns = (100 + i) * SEC,
				.exited = true,
				.threads = 1,
			};
		add(summary, &interval, (101 + i) * SEC);
	}
	footer = summary_footer(summary);
	rows = footer->processes.rows;
	cr_assert_eq(footer->processes.count, 2);
	cr_expect_str_eq(rows[0].process, "server");
	cr_expect(rows[0].pid == 1 && rows[0].count == 1 && rows[0].cpu_ns == 500 * SEC &&
		  rows[0].threads == 3);
	cr_expect_str_eq(rows[1].process, "sleep");
	cr_expect(rows[1].count == 10000 && rows[1].cpu_ns == 10000 && !rows[1].partial &&
		  !rows[1].pid);
	cr_expect_eq(footer->processes.other_ns, 0);
	summary_free(summary);
}

/* What a thread used before its row was dropped is not in the row of its name: that one says so. */
Test(usage, a_dropped_row_that_ends_is_partial)
{
	enum { TASKS = 3000 };
	struct record_task *tasks = calloc(TASKS, sizeof(*tasks));
	struct summary *summary = summary_new(NULL);
	struct record_interval interval = {
		.dur_ns = SEC, .cpu = {.present = true, .tasks = tasks, .task_count = TASKS}};
	const struct record_footer *footer;
	const struct footer_usage *brief = NULL;

	for (unsigned i = 0; i < TASKS; i++) {
		tasks[i] = (struct record_task){.tid = (pid_t)i + 1,
						.pid = (pid_t)i + 1,
						.start_boot_ns = 100 * SEC - 1,
						.thread = "other",
						.cpu_ns = i ? 1000 : 500};
		interval.cpu.busy_ns += tasks[i].cpu_ns;
	}
	strcpy(tasks[0].thread, "brief");
	add(summary, &interval, 100 * SEC);
	tasks[0].cpu_ns = SEC;
	tasks[0].exited = true;
	interval.cpu.task_count = 1;
	interval.cpu.busy_ns = SEC;
	add(summary, &interval, 101 * SEC);
	footer = summary_footer(summary);
	for (size_t i = 0; i < footer->threads.count; i++)
		if (!strcmp(footer->threads.rows[i].thread, "brief"))
			brief = &footer->threads.rows[i];
	cr_assert(brief);
	cr_expect_eq(brief->cpu_ns, SEC, "not all: 500 ns were dropped");
	cr_expect(brief->partial);
	summary_free(summary);
	free(tasks);
}

/* More uids and layers come and go than there is room for (isolated processes and windows have ever
 * new ones); the heaviest come last. */
Test(usage, who_comes_late_has_a_row)
{
	struct summary *summary = summary_new(NULL);
	struct record_uid_cpu uid;
	struct record_uid_net net;
	struct record_layer layer;
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true, .uids = &uid, .uid_count = 1},
		.net = {.present = true, .uids = &net, .uid_count = 1},
		.frames = {.present = true, .layers = &layer, .layer_count = 1}};
	const struct record_footer *footer;
	uint64_t cpu_ns, rx_bytes, shown, sum_ns = 0, sum_bytes = 0, sum_shown = 0;
	char name[16];

	for (unsigned i = 0; i < 10000; i++) {
		bool first = i < 10, late = i >= 9990;

		snprintf(name, sizeof(name), "L%u", i);
		uid = (struct record_uid_cpu){90000 + i, first || late ? SEC : 10 + i % 7};
		net = (struct record_uid_net){
			200000 + i, NULL, {first || late ? 1000000 : 5 + i % 7, 1, 0, 0}};
		layer = (struct record_layer){
			.pid = 1, .layer = name, .shown = first || late ? 1000 : 1 + i % 7};
		interval.cpu.busy_ns = uid.cpu_ns;
		sum_ns += uid.cpu_ns;
		sum_bytes += net.bytes.rx_bytes;
		sum_shown += layer.shown;
		add(summary, &interval, (100 + i) * SEC);
	}
	footer = summary_footer(summary);
	cpu_ns = footer->uids.other_ns;
	rx_bytes = footer->uids.other_rx_bytes.value;
	cr_assert_eq(footer->uids.count, 40);
	for (unsigned i = 0; i < 40; i++) {
		const struct footer_usage *row = &footer->uids.rows[i];
		unsigned n = row->uid - (i < 20 ? 90000 : 200000);

		cpu_ns += row->cpu_ns;
		rx_bytes += row->rx_bytes.value;
		cr_expect(n < 10 || n >= 9990, "uid %u", row->uid);
		cr_expect_eq(row->partial, n >= 9990);
	}
	cr_expect_eq(cpu_ns, sum_ns);
	cr_expect_eq(rx_bytes, sum_bytes);
	shown = footer->other_layers.shown;
	cr_assert_eq(footer->layer_count, 20);
	for (unsigned i = 0; i < 20; i++) {
		const struct footer_layer *row = &footer->layers[i];
		unsigned n = (unsigned)atoi(row->layer + 1);

		shown += row->shown;
		cr_expect(n < 10 || n >= 9990, "%s", row->layer);
		cr_expect_eq(row->partial, n >= 9990);
	}
	cr_expect_eq(shown, sum_shown);
	summary_free(summary);
}

/* What is not measured has no rows and no 0. */
Test(usage, absent)
{
	struct summary *summary = summary_new(NULL);
	struct record_interval interval = {.dur_ns = SEC};
	const struct record_footer *footer;

	add(summary, &interval, SEC);
	footer = summary_footer(summary);
	cr_expect_not(footer->top_present);
	cr_expect_eq(value(footer, "targets.cpu_ns"), -1);
	cr_expect_eq(value(footer, "frames.causes.app"), -1);
	cr_expect_eq(footer->block_path_count, 0);
	summary_free(summary);
}

Test(usage, targets)
{
	struct summary *summary = summary_new(NULL);
	struct header_target targets[] = {{.package = "com.example"}, {.pid = SOME_U64(5)}};
	struct record_header header = {.targets = targets, .target_count = 2};
	struct record first = {.type = RECORD_HEADER, .header = &header};
	struct record_process_cpu processes[] = {
		{.pid = 5, .cpu_ns = 30, .runnable_ns = {true, 4}, .start_boot_ns = 1}};
	struct record_uid_net net[] = {{10001, "com.example", {7, 1, 8, 1}},
				       {0, NULL, {100, 1, 100, 1}}};
	struct record_interval interval = {
		.cpu = {.present = true, .processes = processes, .process_count = 1, .busy_ns = 90},
		.net = {.present = true, .uids = net, .uid_count = 2}};
	const struct record_footer *footer;

	cr_assert_eq(summary_add(summary, &first), 0);
	add(summary, &interval, SEC);
	add(summary, &interval, 2 * SEC);
	footer = summary_footer(summary);
	cr_expect_eq(value(footer, "targets.cpu_ns"), 60);
	cr_expect_eq(value(footer, "targets.runnable_ns"), 8);
	cr_expect_eq(value(footer, "targets.rx_bytes"), 14);
	cr_expect_eq(value(footer, "targets.tx_bytes"), 16);
	cr_expect_eq(sum(&footer->processes), 180);
	summary_free(summary);
}

/* Frames by layer, and blocks by what they did. */
static struct record_frame work[] = {{.module = "/bin/a", .symbol = "work"}};
static struct record_frame wait[] = {{.module = "/lib/libc.so.6", .symbol = "poll"},
				     {.module = "/bin/a", .symbol = "ask(int)"},
				     {.module = "/bin/a", .symbol = "main"}};

Test(usage, layers_and_blocks)
{
	struct summary *summary = summary_new(NULL);
	struct record_layer layers[30];
	struct record_interval interval = {
		.frames = {.present = true, .layers = layers, .layer_count = 30}};
	struct record_stack stacks[] = {{.weight_ns = 9, .frames = wait, .frame_count = 3},
					{.weight_ns = 1, .frames = work, .frame_count = 1}};
	struct record_block block = {.wall_ns = 10,
				     .state = BLOCK_CLOSED,
				     .stacks = stacks,
				     .stack_count = 2,
				     .top = SOME_U64(0)};
	struct record record = {.type = RECORD_BLOCK, .seq = 5, .block = &block};
	struct record_addition addition = {.of = 7, .stack = stacks[1]};
	const struct record_footer *footer;
	uint64_t shown = 0, count = 0, total_ns = 0;
	char names[30][8];

	for (unsigned i = 0; i < 30; i++) {
		snprintf(names[i], sizeof(names[i]), "L%u", i);
		layers[i] =
			(struct record_layer){.pid = 1, .layer = names[i], .shown = i, .janky = 1};
		layers[i].jank.app = 1;
	}
	add(summary, &interval, SEC);
	add(summary, &interval, 2 * SEC);
	cr_assert_eq(summary_add(summary, &record), 0);
	block.wall_ns = 30;
	cr_assert_eq(summary_add(summary, &record), 0);
	/* its stack follows */
	block = (struct record_block){.wall_ns = 100, .state = BLOCK_CLOSED};
	cr_assert_eq(missing_list_set(&block.missing, "stacks", MISSING_FOLLOWS), 0);
	record.seq = 7;
	cr_assert_eq(summary_add(summary, &record), 0);
	record.seq = 8; /* and this one's never comes */
	block.wall_ns = 50;
	cr_assert_eq(summary_add(summary, &record), 0);
	record = (struct record){.type = RECORD_STACK, .addition = &addition};
	cr_assert_eq(summary_add(summary, &record), 0);
	summary_footer(summary);
	footer = summary_footer(summary);
	cr_assert_eq(footer->layer_count, 20);
	cr_expect_str_eq(footer->layers[0].layer, "L29");
	cr_expect_eq(footer->layers[0].shown, 58);
	for (size_t i = 0; i < footer->layer_count; i++)
		shown += footer->layers[i].shown;
	cr_expect_eq(shown + footer->other_layers.shown, 29 * 30);
	cr_expect_eq(value(footer, "frames.causes.app"), 60);
	cr_assert_eq(footer->block_path_count, 3);
	cr_expect_str_eq(footer->block_paths[0].path, "work");
	cr_expect(footer->block_paths[0].count == 1 && footer->block_paths[0].total_ns == 100);
	cr_expect_null(footer->block_paths[1].path);
	cr_expect_eq(footer->block_paths[1].total_ns, 50);
	cr_expect_str_eq(footer->block_paths[2].path, "main;ask(int)");
	cr_expect(footer->block_paths[2].count == 2 && footer->block_paths[2].total_ns == 40 &&
		  footer->block_paths[2].longest_ns == 30);
	for (size_t i = 0; i < footer->block_path_count; i++) {
		count += footer->block_paths[i].count;
		total_ns += footer->block_paths[i].total_ns;
	}
	cr_expect_eq((double)(count + footer->other_block_paths.count),
		     value(footer, "blocks.count"));
	cr_expect_eq((double)(total_ns + footer->other_block_paths.total_ns),
		     value(footer, "blocks.total_ns"));
	missing_list_free(&block.missing);
	summary_free(summary);
}
/* A program that maps new code all the time has a new path with each block. Paths that weigh stay,
 * also those that come late, the slight ones are one sum, and what is kept of them stays small. */
Test(usage, ever_new_block_paths)
{
	struct block_groups *groups = block_groups_new(false);
	struct record_footer footer = {0};
	char name[32];
	struct record_frame frame = {.symbol = name};
	struct record_stack stack = {.frames = &frame, .frame_count = 1};
	uint64_t count = 0, total_ns = 0;
	bool early = false, late = false;

	for (unsigned i = 0; i < 50000; i++) {
		bool is_late = i >= 40000 && i % 10 == 0;

		snprintf(name, sizeof(name), is_late ? "late" : i % 10 == 5 ? "early" : "n%u", i);
		block_groups_add(groups, 1000, &stack);
	}
	cr_assert_eq(block_groups_take(groups, 100000, &footer), 0);
	for (size_t i = 0; i < footer.block_path_count; i++) {
		const struct footer_block_path *row = &footer.block_paths[i];

		count += row->count;
		total_ns += row->total_ns;
		early |= !strcmp(row->path, "early") && row->count == 5000 && !row->partial;
		late |= !strcmp(row->path, "late") && row->count == 1000 && row->partial;
	}
	cr_expect(early, "what was there from the start is whole");
	cr_expect(late, "what came late is there, and says that it may not be all");
	cr_expect_leq(footer.block_path_count, 256);
	cr_expect_eq(count + footer.other_block_paths.count, 50000);
	cr_expect_eq(total_ns + footer.other_block_paths.total_ns, 50000 * 1000);
	block_groups_free(groups);
}
