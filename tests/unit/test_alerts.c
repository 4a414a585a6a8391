/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules, metrics and the command of --alert, without a device. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alert/alerts.h"
#include "alert/command.h"

#define SEC 1000000000ull

/* ---- rules ---- */

static void refused(const char *text, const char *part)
{
	struct alert_rule rule;
	char why[512] = "";

	cr_assert_eq(alert_rule_parse(text, &rule, why, sizeof(why)), -EINVAL, "%s", text);
	cr_assert(strstr(why, part), "%s: %s", text, why);
}

static struct alert_rule parsed(const char *text)
{
	struct alert_rule rule;
	char why[512] = "";

	cr_assert_eq(alert_rule_parse(text, &rule, why, sizeof(why)), 0, "%s: %s", text, why);
	return rule;
}

Test(alert_rule, parts)
{
	struct alert_rule rule = parsed("self.anon_bytes>=500M for 30s clear 400M cooldown 5m");

	cr_assert_str_eq(rule.metric.path, "self.anon_bytes");
	cr_assert_eq(rule.op, COMPARE_AT_LEAST);
	cr_assert_eq(rule.limit, 500.0 * 1048576);
	cr_assert_eq(rule.clear, 400.0 * 1048576);
	cr_assert_eq(rule.for_ns, 30 * SEC);
	cr_assert_eq(rule.cool_ns, 300 * SEC);
	cr_assert(!rule.metric.sums);
	rule = parsed("  cpu.processes.cpu_ns > 80%  ");
	cr_assert_eq(rule.scale, ALERT_PERCENT);
	cr_assert_eq(rule.limit, 80);
	cr_assert_eq(rule.cool_ns, ALERT_COOL_NS);
	cr_assert(rule.metric.sums);
	cr_assert_str_eq(rule.text, "cpu.processes.cpu_ns > 80%");
	rule = parsed("net.uids.rx_bytes > 1M/s");
	cr_assert_eq(rule.scale, ALERT_PER_SECOND);
	cr_assert(!rule.foreground);
	rule = parsed("frames.layers.shown < 30/s for 2s foreground");
	cr_assert_eq(rule.scale, ALERT_PER_SECOND);
	cr_assert(rule.foreground);
	rule = parsed("disk.tasks.write_bytes > 1M/s");
	cr_assert_eq(rule.scale, ALERT_PER_SECOND);
	rule = parsed("memory.system.pressure_some_ns > 10%");
	cr_assert_eq(rule.scale, ALERT_PERCENT);
	rule = parsed("self.stops > 1/s");
	cr_assert_eq(rule.scale, ALERT_PER_SECOND);
	rule = parsed("block.wall_ns > 2s");
	cr_assert_eq(rule.metric.type, RECORD_BLOCK);
	rule = parsed("net.loopback.tx_packets < 5");
	cr_assert_eq(rule.op, COMPARE_BELOW);
	/* The list's name may be left out where one metric only ends in that name. */
	rule = parsed("cpu.switches_voluntary > 10/s");
	cr_assert_str_eq(rule.metric.path, "cpu.tasks.switches_voluntary");
	/* Of a process and of its kinds of memory the process is meant: the example of README. */
	rule = parsed("memory.pss_bytes > 500M for 30s");
	cr_assert_str_eq(rule.metric.path, "memory.processes.pss_bytes");
	rule = parsed("memory.private_dirty_bytes > 500M");
	cr_assert_str_eq(rule.metric.path, "memory.processes.private_dirty_bytes");
	rule = parsed("memory.processes.kinds.pss_bytes > 500M");
	cr_assert_str_eq(rule.metric.path, "memory.processes.kinds.pss_bytes");
	rule = parsed("net.uids.rx_bytes > 1M");
	cr_assert_str_eq(rule.metric.path, "net.uids.rx_bytes");
}

Test(alert_rule, refusals)
{
	refused("", "METRIC OP VALUE");
	refused("> 5", "METRIC OP VALUE");
	refused("cpu.busy_ns", "comparison is missing");
	refused("cpu.busy_ns >", "value is missing");
	refused("cpu.busy_ns => 1s", "no comparison");
	refused("cpu.busy_ns == 1s", "no comparison");
	refused("cpu.busy_ns > 5", "needs a time");
	refused("self.anon_bytes > 5", "needs a size");
	refused("self.anon_bytes > -5M", "needs a size");
	refused("cpu.busy_ns > 1s/s", "needs a time");
	refused("self.stops > inf", "needs a number");
	refused("self.stops > 0x10", "needs a number");
	refused("block.wall_ns > 50%", "needs a time");
	refused("block.wall_ns > 2s for 3s", "lasts for no time");
	refused("block.wall_ns > 2s clear 1s", "never clear");
	refused("cpu.busy_ns > 1s for", "\"for\" needs");
	refused("cpu.busy_ns > 1s for 3", "\"for\" needs");
	refused("cpu.busy_ns > 1s for 3s for 4s", "each once");
	refused("cpu.busy_ns > 1s clear 2s", "beyond the limit");
	refused("cpu.busy_ns > 1s clear 50%", "another unit");
	refused("cpu.busy_ns > 1s foreground foreground", "each once");
	refused("cpu.busy_ns > 1s please", "after the value");
	refused("cpu.busy_ns > 1s\x1b[2J", "only ASCII");
	/* A reading divided by the length of an interval says nothing. */
	refused("memory.pss_bytes > 1M/s", "needs a size");
	refused("memory.threads > 1/s", "needs a number");
	refused("memory.fds > 1/s", "needs a number");
	refused("self.anon_bytes > 1M/s", "needs a size");
	refused("memory.system.available_bytes < 1M/s", "needs a size");
	refused("cpu.online_cpus > 1/s", "needs a number");
	refused("power.read_ns > 5%", "needs a time");
	refused("frames.layers.period_ns > 5%", "needs a time");
	refused("disk.uids.foreground.read_bytes > 1M/s", "needs a size");
	/* Ids, times of the clock and texts are no metrics. */
	refused("cpu.tasks.pid > 1", "there is no metric");
	refused("cpu.tasks.start_boot_ns > 1s", "there is no metric");
	refused("cpu.tasks.thread > 1", "there is no metric");
	/* The refusal tells the nearest names, or all those that the name may stand for. */
	refused("cpu.bussy_ns > 1s", "cpu.busy_ns");
	refused("cpu.cpu_ns > 1s", "say which");
}

/* ---- what is told ---- */

static struct {
	unsigned second; /* at which the interval before ended */
	size_t count;
	struct {
		bool fired;
		double value;
		uint64_t held_ns;
		pid_t pid;
		char subject[96];
	} items[32];
} told;

static void on_alert(void *ctx, const struct alert *alert)
{
	cr_assert_lt(told.count, 32);
	told.items[told.count].fired = alert->fired;
	told.items[told.count].value = alert->value;
	told.items[told.count].held_ns = alert->held_ns;
	told.items[told.count].pid = alert->subject->pid;
	strcpy(told.items[told.count++].subject, alert->subject->text);
}

static struct alerts *made(const char *text)
{
	struct alert_rule rule = parsed(text);
	struct alerts *alerts = alerts_new(&rule, 1, on_alert, NULL);

	cr_assert(alerts);
	told.count = 0;
	told.second = 0;
	return alerts;
}

/* The interval behind the one before, which ends at this second, with this memory of ours; bytes 0:
 * it could not be read. suspended: seconds of it in which the machine was suspended. */
static void memory_behind(struct alerts *alerts, unsigned second, unsigned suspended,
			  uint64_t bytes)
{
	struct record_interval interval = {.dur_ns = (second - told.second - suspended) * SEC,
					   .self.anon_bytes = {bytes > 0, bytes}};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = second * SEC, .interval = &interval};

	told.second = second;
	cr_assert_eq(alerts_take(alerts, &record), 0);
}

static void memory_at(struct alerts *alerts, unsigned second, uint64_t bytes)
{
	memory_behind(alerts, second, 0, bytes);
}

static void cpu_at(struct alerts *alerts, unsigned second, struct record_process_cpu *processes,
		   size_t count, size_t cut)
{
	struct record_interval interval = {.dur_ns = SEC,
					   .cpu = {.present = true,
						   .processes = processes,
						   .process_count = count,
						   .cut_count = cut}};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = second * SEC, .interval = &interval};

	cr_assert_eq(alerts_take(alerts, &record), 0);
}

Test(alerts, holds_for_a_time)
{
	struct alerts *alerts = made("self.anon_bytes > 100B for 3s");

	memory_at(alerts, 1, 101);
	memory_at(alerts, 2, 100); /* 100 is not above 100: the 3 s begin anew */
	memory_at(alerts, 3, 101);
	memory_at(alerts, 5, 101);
	cr_assert_eq(told.count, 0);
	memory_at(alerts, 6, 102);
	cr_assert_eq(told.count, 1);
	cr_assert(told.items[0].fired);
	cr_assert_eq(told.items[0].value, 102);
	cr_assert_eq(told.items[0].held_ns, 3 * SEC);
	memory_at(alerts, 7, 103);
	cr_assert_eq(told.count, 1, "told once while it holds");
	memory_at(alerts, 8, 1);
	cr_assert_eq(told.count, 2);
	cr_assert(!told.items[1].fired);
	cr_assert_eq(alerts_counts(alerts).fired, 1);
	cr_assert_eq(alerts_counts(alerts).cleared, 1);
	alerts_free(alerts);
}

static void seen_at(struct alerts *alerts, unsigned second, uint64_t cpu_ns,
		    enum context_state state, bool changed, size_t contexts)
{
	struct record_process_cpu process = {.pid = 7, .start_boot_ns = 1, .cpu_ns = cpu_ns};
	struct record_process_context context = {.pid = 7, .state = state, .changed = changed};
	struct record_interval interval = {
		.dur_ns = SEC,
		.cpu = {.present = true, .processes = &process, .process_count = cpu_ns > 0},
		.context = {.present = true, .processes = &context, .process_count = contexts},
	};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = second * SEC, .interval = &interval};

	cr_assert_eq(alerts_take(alerts, &record), 0);
}

/* Of an app that nobody sees a rule with that word says nothing; what it told before is over. */
Test(alerts, in_the_foreground)
{
	struct alerts *alerts = made("cpu.processes.cpu_ns > 80% for 1s cooldown 0s foreground");

	seen_at(alerts, 1, SEC, CONTEXT_BACKGROUND, false, 1);
	seen_at(alerts, 2, SEC, CONTEXT_CACHED, false, 1);
	seen_at(alerts, 3, SEC, CONTEXT_FOREGROUND, true, 1); /* not all of that second */
	seen_at(alerts, 4, SEC, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 0);
	seen_at(alerts, 5, SEC, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 1);
	cr_assert(told.items[0].fired && told.items[0].pid == 7);
	seen_at(alerts, 6, SEC, CONTEXT_BACKGROUND, true, 1);
	cr_assert_eq(told.count, 2);
	cr_assert(!told.items[1].fired, "over, since nobody sees it");
	/* The seconds before it left do not count. */
	seen_at(alerts, 7, SEC, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 2);
	seen_at(alerts, 8, SEC, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 3);
	/* It leaves, and sleeps: it has no row any more. */
	seen_at(alerts, 9, 0, CONTEXT_CACHED, true, 1);
	cr_assert_eq(told.count, 4);
	cr_assert(!told.items[3].fired);
	alerts_free(alerts);
	/* What did nothing in the background is below no limit. */
	alerts = made("cpu.processes.cpu_ns < 10% cooldown 0s foreground");
	seen_at(alerts, 1, 1000, CONTEXT_BACKGROUND, false, 1);
	seen_at(alerts, 2, 0, CONTEXT_BACKGROUND, false, 1);
	cr_assert_eq(told.count, 0);
	seen_at(alerts, 3, 1000, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 1);
	alerts_free(alerts);
}

/* Where no Android tells which process is in the foreground, the rule fires for none, and the end
 * of the run says so. */
Test(alerts, a_foreground_that_nobody_tells)
{
	struct alerts *alerts = made("cpu.processes.cpu_ns > 80% foreground");

	seen_at(alerts, 1, SEC, CONTEXT_FOREGROUND, false, 0);
	seen_at(alerts, 2, 0, CONTEXT_FOREGROUND, false, 0);
	cr_assert_eq(told.count, 0);
	cr_assert(alerts_unseen(alerts, 0));
	seen_at(alerts, 3, SEC, CONTEXT_FOREGROUND, false, 1);
	cr_assert_eq(told.count, 1);
	cr_assert_null(alerts_unseen(alerts, 0));
	alerts_free(alerts);
}

static void memory_seen(struct alerts *alerts, unsigned second, uint64_t bytes,
			enum context_state state)
{
	struct record_process_context context = {.pid = 7, .state = state};
	struct record_interval interval = {
		.dur_ns = SEC,
		.self.anon_bytes = {true, bytes},
		.context = {.present = true, .processes = &context, .process_count = 1},
	};
	struct record record = {
		.type = RECORD_INTERVAL, .t_boot_ns = second * SEC, .interval = &interval};

	cr_assert_eq(alerts_take(alerts, &record), 0);
}

/* What is of no process counts while a target is seen; a block by its process. */
Test(alerts, what_is_of_no_process_and_blocks_in_the_foreground)
{
	struct alerts *alerts = made("self.anon_bytes > 100B cooldown 0s foreground");
	struct record_block block = {.pid = 7, .tid = 7, .wall_ns = 3 * SEC, .start_boot_ns = 5};
	struct record record = {.type = RECORD_BLOCK, .t_boot_ns = SEC, .block = &block};

	memory_seen(alerts, 1, 200, CONTEXT_FROZEN);
	cr_assert_eq(told.count, 0);
	memory_seen(alerts, 2, 200, CONTEXT_FOREGROUND);
	cr_assert_eq(told.count, 1);
	memory_seen(alerts, 3, 200, CONTEXT_BACKGROUND);
	cr_assert_eq(told.count, 2);
	alerts_free(alerts);
	alerts = made("block.wall_ns > 2s cooldown 0s foreground");
	memory_seen(alerts, 1, 1, CONTEXT_BACKGROUND);
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 0);
	memory_seen(alerts, 2, 1, CONTEXT_FOREGROUND);
	block.start_boot_ns = 6;
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 1);
	block.pid = block.tid = 8; /* another process */
	block.start_boot_ns = 7;
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 1);
	alerts_free(alerts);
}

Test(alerts, absent_values_neither_fire_nor_clear)
{
	struct alerts *alerts = made("self.anon_bytes > 100B for 3s");

	for (unsigned second = 1; second < 10; second++)
		memory_at(alerts, second, 0);
	cr_assert_eq(told.count, 0);
	memory_at(alerts, 10, 101);
	memory_at(alerts, 12, 0);
	memory_at(alerts, 14, 0);
	cr_assert_eq(told.count, 0, "it is not told in a record without the value");
	memory_at(alerts, 15, 101);
	cr_assert_eq(told.count, 1);
	memory_at(alerts, 16, 0);
	memory_at(alerts, 17, 0);
	cr_assert_eq(told.count, 1, "and not over in one");
	alerts_free(alerts);
	/* A rule for small values: an absent value must not be taken for 0, which is below. */
	alerts = made("self.anon_bytes < 100B");
	memory_at(alerts, 1, 0);
	cr_assert_eq(told.count, 0);
	memory_at(alerts, 2, 99);
	cr_assert_eq(told.count, 1);
	alerts_free(alerts);
}

/* A value that is beyond its limit before the machine is suspended and after it was not so for the
 * hours between. */
Test(alerts, suspended_time_is_no_time)
{
	struct alerts *alerts = made("self.anon_bytes > 100B for 30s");

	memory_at(alerts, 1, 101);
	memory_behind(alerts, 3603, 3601, 101);
	cr_assert_eq(told.count, 0);
	memory_behind(alerts, 3632, 0, 101);
	cr_assert_eq(told.count, 1);
	cr_assert_eq(told.items[0].held_ns, 30 * SEC);
	/* The alert is not forgotten, and so not told twice, however long the suspend. */
	memory_behind(alerts, 9000, 5300, 0);
	memory_behind(alerts, 9001, 0, 101);
	cr_assert_eq(told.count, 1);
	alerts_free(alerts);
}

/* A rate of an interval of next to no length is a number that no size can hold. */
Test(alerts, hostile_lengths)
{
	struct alerts *alerts = made("net.loopback.rx_bytes > 1M/s cooldown 0s");
	struct record_interval interval = {
		.net = {.present = true, .loopback = {.rx_bytes = UINT64_MAX}}};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	char text[64];

	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 0, "an interval of no length has no rate");
	interval.dur_ns = 1;
	record.t_boot_ns = 1;
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 1);
	cr_assert_gt(told.items[0].value, 1e19);
	const struct alert_rule rule = parsed("net.loopback.rx_bytes > 1M/s");
	cr_expect(strstr(alert_value_text(&rule, told.items[0].value, text, sizeof(text)), "e+"));
	cr_expect(strstr(alert_value_text(&rule, 1048576, text, sizeof(text)), "1.0 MiB/s"), "%s",
		  text);
	alerts_free(alerts);
}

Test(alerts, hysteresis_and_cooldown)
{
	struct alerts *alerts = made("self.anon_bytes > 100B clear 50B cooldown 10s");

	memory_at(alerts, 1, 101);
	memory_at(alerts, 2, 60); /* between the limit and the clear value */
	memory_at(alerts, 3, 101);
	cr_assert_eq(told.count, 1);
	memory_at(alerts, 4, 50);
	cr_assert_eq(told.count, 2);
	memory_at(alerts, 5, 101);
	memory_at(alerts, 10, 101);
	cr_assert_eq(told.count, 2, "it cools down");
	memory_at(alerts, 11, 101);
	cr_assert_eq(told.count, 3, "and is told when it still holds then");
	cr_assert_eq(told.items[2].held_ns, 6 * SEC);
	alerts_free(alerts);
}

Test(alerts, each_process_for_itself)
{
	struct alerts *alerts = made("cpu.processes.cpu_ns > 80% for 1s cooldown 0s");
	struct record_process_cpu rows[] = {
		{.pid = 7, .process = "one", .cpu_ns = 900000000, .start_boot_ns = 5},
		{.pid = 8, .process = "two\x1b[2J", .cpu_ns = 800000000, .start_boot_ns = 6},
	};

	cpu_at(alerts, 1, rows, 2, 0);
	rows[1].cpu_ns = 810000000;
	cpu_at(alerts, 2, rows, 2, 0);
	cr_assert_eq(told.count, 1);
	cr_assert_eq(told.items[0].pid, 7);
	cr_assert_eq(told.items[0].value, 90);
	cr_assert_str_eq(told.items[0].subject, "one (pid 7)");
	/* Pid 7 has another owner: the rule begins anew for that process. */
	rows[0].start_boot_ns = 50;
	cpu_at(alerts, 3, rows, 2, 0);
	cr_assert_eq(told.count, 3, "the second, and the first owner is over");
	cr_assert(told.items[1].fired != told.items[2].fired);
	cr_assert_str_eq(told.items[told.items[1].fired ? 1 : 2].subject, "two?[2J (pid 8)");
	/* A process without a row did not run, unless --top cut rows off. */
	cpu_at(alerts, 4, rows, 0, 5);
	cr_assert_eq(told.count, 3);
	cpu_at(alerts, 5, rows, 0, 0);
	cr_assert_eq(told.count, 4);
	cr_assert(!told.items[3].fired);
	cr_assert_eq(told.items[3].pid, 8);
	alerts_free(alerts);
}

Test(alerts, a_source_that_is_away_changes_nothing)
{
	struct alerts *alerts = made("cpu.processes.cpu_ns > 80%");
	struct record_process_cpu row = {.pid = 7, .cpu_ns = 900000000};

	cpu_at(alerts, 1, &row, 1, 0);
	cr_assert_eq(told.count, 1);
	memory_at(alerts, 2, 1); /* a record without the CPU source */
	cr_assert_eq(told.count, 1);
	cr_assert_null(alerts_unseen(alerts, 0));
	alerts_free(alerts);
	alerts = made("cpu.processes.cpu_ns > 80%");
	memory_at(alerts, 2, 1);
	cr_assert(alerts_unseen(alerts, 0));
	alerts_free(alerts);
}

/* With --smaps off each process has a row, and none has a PSS; a row of sums that is not there is
 * 0.
 */
Test(alerts, a_list_without_the_value_has_none)
{
	struct alerts *alerts = made("memory.pss_bytes > 1M");
	struct record_memory_process row = {.pid = 7, .rss_bytes = SOME_U64(5)};
	struct record_interval interval = {
		.dur_ns = SEC, .memory = {.present = true, .processes = &row, .process_count = 1}};
	struct record record = {.type = RECORD_INTERVAL, .t_boot_ns = SEC, .interval = &interval};

	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_expect(alerts_unseen(alerts, 0));
	row.pss_bytes = SOME_U64(1);
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_expect_null(alerts_unseen(alerts, 0));
	alerts_free(alerts);
	alerts = made("cpu.processes.cpu_ns > 80%");
	cpu_at(alerts, 1, NULL, 0, 0);
	cr_expect_null(alerts_unseen(alerts, 0));
	alerts_free(alerts);
}

Test(alerts, a_block_once)
{
	struct alerts *alerts = made("block.wall_ns >= 2s cooldown 10s");
	struct record_block block = {.pid = 9, .tid = 9, .process = "app", .start_boot_ns = SEC};
	struct record record = {.type = RECORD_BLOCK, .block = &block};
	static const uint64_t walls[] = {SEC, 2 * SEC, 5 * SEC, 6 * SEC};

	for (size_t i = 0; i < 4; i++) {
		block.wall_ns = walls[i];
		record.t_boot_ns = SEC + walls[i];
		cr_assert_eq(alerts_take(alerts, &record), 0);
	}
	cr_assert_eq(told.count, 1);
	cr_assert_str_eq(told.items[0].subject, "app (tid 9)");
	block.start_boot_ns = 8 * SEC;
	record.t_boot_ns = 11 * SEC;
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 1, "it cools down");
	block.start_boot_ns = 12 * SEC;
	record.t_boot_ns = 15 * SEC;
	cr_assert_eq(alerts_take(alerts, &record), 0);
	cr_assert_eq(told.count, 2);
	alerts_free(alerts);
}

Test(alerts, bounded)
{
	struct alerts *alerts = made("cpu.processes.cpu_ns > 80% for 5s");
	static struct record_process_cpu rows[ALERT_SUBJECTS + 100];

	for (size_t i = 0; i < ALERT_SUBJECTS + 100; i++)
		rows[i] = (struct record_process_cpu){.pid = (pid_t)i + 1, .cpu_ns = 900000000};
	cpu_at(alerts, 1, rows, ALERT_SUBJECTS + 100, 0);
	cr_assert_eq(alerts_counts(alerts).left_out, 100);
	/* The processes for which the rule holds no more make room for others. */
	cpu_at(alerts, 2, rows + 100, ALERT_SUBJECTS, 0);
	cpu_at(alerts, 3, rows + 100, ALERT_SUBJECTS, 0);
	cr_assert_eq(alerts_counts(alerts).left_out, 100 + 100);
	cr_assert_eq(told.count, 0);
	alerts_free(alerts);
}

/* ---- the command ---- */

static void split(const char *text, size_t count, const char *words, size_t bytes)
{
	struct command command;
	char why[128];

	cr_assert_eq(command_split(text, &command, why, sizeof(why)), 0, "%s", text);
	cr_assert_eq(command.count, count, "%s: %zu", text, command.count);
	cr_assert_eq(command.bytes, bytes, "%s: %zu", text, command.bytes);
	cr_assert_eq(memcmp(command.words, words, bytes), 0, "%s", text);
}

Test(alert_command, words)
{
	struct command command;
	char why[128], text[6000];

	split("a", 1, "a", 2);
	split("  a\tb  ", 2, "a\0b", 4);
	split("a 'b c' \"d e\"", 3, "a\0b c\0d e", 10);
	split("a '' \"\"", 3, "a\0\0", 4);
	split("a\\ b 'c\\d' \"e\\\"f\"", 3, "a b\0c\\d\0e\"f", 12);
	split("a'b'\"c\"", 1, "abc", 4);
	/* The words of a shell are words of the command, and nothing is expanded. */
	split("echo $HOME ~ * `id` ; | > &", 9, "echo\0$HOME\0~\0*\0`id`\0;\0|\0>\0&", 28);
	cr_assert_eq(command_split("", &command, why, sizeof(why)), -EINVAL);
	cr_assert_eq(command_split("  ", &command, why, sizeof(why)), -EINVAL);
	cr_assert_eq(command_split("'' a", &command, why, sizeof(why)), -EINVAL);
	cr_assert_eq(command_split("a 'b", &command, why, sizeof(why)), -EINVAL);
	cr_assert_eq(command_split("a b\\", &command, why, sizeof(why)), -EINVAL);
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = 0;
	cr_assert_eq(command_split(text, &command, why, sizeof(why)), -EINVAL);
	for (size_t i = 0; i < 130; i++)
		strcpy(text + 2 * i, "a ");
	cr_assert_eq(command_split(text, &command, why, sizeof(why)), -EINVAL);
}
