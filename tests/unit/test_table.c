/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden_records.h"
#include "record/json_write.h"
#include "sink/table.h"

static char *print(const struct golden *run, const struct table_options *options)
{
	struct sink *sink;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	sink = table_sink_new(out, options);
	cr_assert_not_null(sink);
	for (size_t i = 0; i < run->count; i++)
		cr_assert_eq(sink->ops->write(sink, &run->records[i]), 0);
	sink->ops->close(sink);
	fclose(out);
	return text;
}

/* Of the characters in the golden records that take two columns. */
static int width_of(const unsigned char *p)
{
	return !memcmp(p, "\xe6\xbc\xa2", 3) || !memcmp(p, "\xe5\xad\x97", 3) ||
			       !memcmp(p, "\xf0\x9f\x98", 3)
		       ? 2
		       : 1;
}

/* Columns, not bytes, without the escapes of colours; -1 if this is not UTF-8 that a terminal can
 * be given. */
static int columns(const char *p, const char *end, bool colour)
{
	int n = 0;

	while (p < end) {
		unsigned char c = (unsigned char)*p;
		int more = c < 0x80 ? 0 : (c & 0xe0) == 0xc0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : 3;

		if (colour && c == 0x1b && p[1] == '[') {
			p += 2 + strspn(p + 2, "0123456789;");
			if (*p++ != 'm')
				return -1;
			continue;
		}
		if (c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xc2))
			return -1;
		if (c == 0xc2 && (unsigned char)p[1] < 0xa0)
			return -1;
		/* directions and what nobody sees */
		if (!memcmp(p, "\xe2\x80", 2) && (unsigned char)p[2] >= 0x8b &&
		    (unsigned char)p[2] < 0xaf)
			return -1;
		n += width_of((const unsigned char *)p);
		for (p++; more; more--, p++)
			if (p >= end || (*p & 0xc0) != 0x80)
				return -1;
	}
	return n;
}

static void check_lines(const char *text, int width, bool colour)
{
	for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
		int n = columns(text, end, colour);

		cr_expect(n >= 0, "not fit for a terminal: %.*s", (int)(end - text), text);
		cr_expect_leq(n, width, "%d columns: %.*s", n, (int)(end - text), text);
		cr_expect(end == text || end[-1] != ' ', "blanks at the end: %.*s",
			  (int)(end - text), text);
	}
	cr_expect_str_empty(text, "the last line ends in a newline");
}

Test(table, golden)
{
	static const struct table_options options = {.top = 15, .width = 80, .verbose = true};
	const struct golden *runs;
	size_t count;

	runs = golden_runs(&count);
	for (size_t i = 0; i < count; i++) {
		char *text = print(&runs[i], &options), file[64];

		snprintf(file, sizeof(file), "%s.table.txt", runs[i].name);
		cr_expect(golden_equal(file, text, strlen(text)), "%s", file);
		check_lines(text, 80, false);
		free(text);
	}
}

/* The same, with colours and nothing else added. */
Test(table, golden_colour)
{
	static const struct table_options options = {
		.top = 15, .width = 80, .verbose = true, .colour = true};
	static const struct table_options plain = {.top = 15, .width = 80, .verbose = true};
	const struct golden *runs;
	size_t count;

	runs = golden_runs(&count);
	for (size_t i = 0; i < count; i++) {
		char *text = print(&runs[i], &options), *without = print(&runs[i], &plain),
		     file[64];
		char *to = text;

		snprintf(file, sizeof(file), "%s.colour.txt", runs[i].name);
		cr_expect(golden_equal(file, text, strlen(text)), "%s", file);
		check_lines(text, 80, true);
		for (const char *from = text; *from;) {
			if (*from == '\x1b')
				from += strcspn(from, "m") + 1;
			else
				*to++ = *from++;
		}
		*to = 0;
		cr_expect_str_eq(text, without);
		free(without);
		free(text);
	}
}

/* Whatever the width of the terminal: never wider than it, down to 20. */
Test(table, any_width)
{
	size_t count;
	const struct golden *runs = golden_runs(&count);

	for (unsigned width = 0; width < 500; width += width < 90 ? 1 : 13) {
		struct table_options options = {.top = 15, .width = width};
		char *text = print(&runs[0], &options);

		check_lines(text, width < TABLE_MIN_WIDTH ? TABLE_MIN_WIDTH : (int)width, false);
		free(text);
	}
}

Test(table, cut_rows_are_summed)
{
	struct table_options options = {.top = 1, .width = 80};
	size_t count;
	char *text = print(&golden_runs(&count)[0], &options);

	/* the 50.000001 ms of the rows that were cut, and 7 ms of tasks that are not listed */
	cr_expect(strstr(text, "   5.0     50.0  in 3 other processes\n"), "%s", text);
	cr_expect(strstr(text, "   0.7      7.0  not the target's\n"), "%s", text);
	cr_expect_null(strstr(text, " red "));
	free(text);
}

static char *print_block(uint64_t wall_ns, uint64_t futex_ns)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct block_reason reasons[] = {{"futex", futex_ns}};
	struct record_block block = {.pid = 7,
				     .tid = 7,
				     .process = "app",
				     .wall_ns = wall_ns,
				     .state = BLOCK_CLOSED,
				     .reasons = reasons,
				     .reason_count = 1};
	struct record record = {.type = RECORD_BLOCK, .block = &block};
	struct golden run = {"block", &record, 1};

	return print(&run, &options);
}

/* What a thread waited for says why it was blocked only where it did wait. */
Test(table, a_block_that_did_not_sleep_has_no_reason)
{
	char *ran = print_block(1000000000, 5000000), *slept = print_block(1000000000, 500000000);
	char *none = print_block(1000000000, 0);

	cr_expect(strstr(slept, ", futex"), "%s", slept);
	cr_expect_null(strstr(ran, "futex"), "%s", ran);
	cr_expect_null(strstr(none, "futex"), "%s", none);
	free(ran);
	free(slept);
	free(none);
}

/* What is not the whole of it is not shown as if it were. */
Test(table, a_row_made_anew_says_so)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct summary_total totals[] = {
		{"cpu.busy_ns", 2000000}, {"cpu.tasks_exited", 5}, {"cpu.deaths_in_flight", 3}};
	struct footer_usage uids[] = {
		{.uid = 10001, .count = 1, .cpu_ns = 2000000, .partial = true},
		{.uid = 10002, .count = 1, .cpu_ns = 1000000}};
	struct footer_layer layers[] = {{.layer = "one", .pid = 7, .shown = 9, .partial = true},
					{.layer = "two", .shown = 8, .partial = true},
					{.layer = "three", .pid = 8, .shown = 7},
					{.layer = "four", .shown = 6}};
	struct footer_block_path paths[] = {{"a;b", 2, 30000000, 20000000, true},
					    {"a;c", 2, 30000000, 20000000, false}};
	struct record_footer footer = {
		.totals = totals,
		.total_count = 3,
		.uids = {.rows = uids, .count = 2},
		.layers = layers,
		.layer_count = 4,
		.block_paths = paths,
		.block_path_count = 2,
	};
	struct record record = {.type = RECORD_FOOTER, .footer = &footer};
	struct golden run = {"anew", &record, 1};
	char *text = print(&run, &options);

	cr_expect(strstr(text, "; 5 tasks ended, 3 not freed yet\n"), "%s", text);
	cr_expect(strstr(text, "  10001, at least\n"), "%s", text);
	cr_expect(strstr(text, "  10002\n"), "%s", text);
	cr_expect(strstr(text, "  one 7, at least\n"), "%s", text);
	cr_expect(strstr(text, "  two, at least\n"), "%s", text);
	cr_expect(strstr(text, "  three 8\n"), "%s", text);
	cr_expect(strstr(text, "  four\n"), "%s", text);
	cr_expect(strstr(text, " ms, at least, longest 20.0: b < a\n"), "%s", text);
	cr_expect(strstr(text, " ms, longest 20.0: c < a\n"), "%s", text);
	free(text);
}

/* Shares of clusters are of all that the targets ran: what has no known place is said. */
Test(table, time_without_a_place_is_said)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct summary_total totals[] = {{"targets.clusters.0.cpu_ns", 500000},
					 {"targets.clusters.4.cpu_ns", 200000},
					 {"targets.cpu_ns", 1000000}};
	struct header_target target = {.pid = {true, 7}};
	struct record_header header = {
		.kernel = "", .arch = "", .targets = &target, .target_count = 1};
	struct record_footer footer = {.totals = totals, .total_count = 3};
	struct record records[] = {{.type = RECORD_HEADER, .header = &header},
				   {.type = RECORD_FOOTER, .footer = &footer}};
	struct golden run = {"clusters", records, 2};
	char *text = print(&run, &options);

	cr_expect(strstr(text, "  target ran on cluster 0 50.0 %, cluster 4 20.0 %, not known "
			       "where 30.0 %\n"),
		  "%s", text);
	free(text);
	totals[1].value = 500000;
	text = print(&run, &options);
	cr_expect(strstr(text, "cluster 4 50.0 %\n"), "%s", text);
	free(text);
}

/* What the targets did in the foreground and in the background is in the summary that one reads. */
Test(table, states_of_the_targets)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct summary_total totals[] = {
		{"foreground.process_dur_ns", 3e9}, {"foreground.cpu_ns", 1.25e9},
		{"foreground.frames.shown", 120},   {"foreground.frames.janky", 7},
		{"foreground.blocks.count", 2},     {"foreground.blocks.total_ns", 0.7e9},
		{"mixed.process_dur_ns", 1e9},      {"mixed.cpu_ns", 0}};
	struct record_footer footer = {.totals = totals, .total_count = 8};
	struct record record = {.type = RECORD_FOOTER, .footer = &footer};
	char *text = print(&(struct golden){"states", &record, 1}, &options);

	cr_expect(strstr(text,
			 "    3.000       -    1.250    120      7      2   0.70  foreground\n"
			 "    1.000       -    0.000      -      -      -      -  mixed\n"),
		  "%s", text);
	cr_expect_null(strstr(text, "background"));
	free(text);
}

/* Beside what the hooks counted stands what netd's own map has, and how far apart they are. */
Test(table, the_difference_to_netd)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct summary_total totals[] = {{"net.rx_bytes", 1000},
					 {"net.tx_bytes", 2000},
					 {"net.netd.rx_bytes", 1100},
					 {"net.netd.tx_bytes", 1999}};
	struct record_footer footer = {.totals = totals, .total_count = 4};
	struct record record = {.type = RECORD_FOOTER, .footer = &footer};
	char *text = print(&(struct golden){"netd", &record, 1}, &options);

	cr_expect(strstr(text, "  netd's map: rx 1100 B (+100), tx 1999 B (-1)\n"), "%s", text);
	free(text);
	footer.total_count = 2;
	text = print(&(struct golden){"netd", &record, 1}, &options);
	cr_expect_null(strstr(text, "netd"), "%s", text);
	free(text);
}

/* One frame has no rate: its layer has neither the key nor a 0. */
Test(table, a_layer_with_one_frame_has_no_rate)
{
	static const struct table_options options = {.top = 15, .width = 80};
	struct record_layer layers[] = {{.layer = "one", .shown = 1},
					{.layer = "two", .shown = 2, .fps_active = 60}};
	struct record_frames frames = {.present = true, .layers = layers, .layer_count = 2};
	struct record_interval interval = {.dur_ns = 1000000000, .frames = frames};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	struct golden run = {"layers", &record, 1};
	char *text = print(&run, &options), *line, *second;
	size_t length;

	cr_expect(strstr(text, "      - fps_active one\n"), "%s", text);
	cr_expect(strstr(text, "   60.0 fps_active two\n"), "%s", text);
	free(text);
	line = record_to_line(&record, &length);
	cr_assert_not_null(line);
	second = strstr(line, "\"two\"");
	cr_assert_not_null(second, "%s", line);
	cr_expect(strstr(second, "\"fps_active\":60"), "%s", second);
	*second = 0;
	cr_expect_null(strstr(line, "fps_active"), "%s", line);
	free(line);
}

Test(table, clock_of_the_wall)
{
	struct table_options options = {.top = 1, .width = 80, .wall_clock = true};
	size_t count;
	char *text = print(&golden_runs(&count)[0], &options);

	/* 1700000000 is 22:13:20 UTC; the first event comes 1 ms and 5 ns after it. */
	cr_expect(strstr(text, "\n22:13:20Z  * start\n"), "%s", text);
	free(text);
}

Test(table, reader_that_went_away, .init = cr_redirect_stderr)
{
	static const struct table_options options = {.top = 15, .width = 80};
	size_t count;
	const struct golden *run = golden_runs(&count);
	struct sink *sink;
	FILE *out;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(fds), 0);
	close(fds[0]);
	out = fdopen(fds[1], "w");
	sink = table_sink_new(out, &options);
	cr_expect_eq(sink->ops->write(sink, &run->records[0]), -EPIPE);
	sink->ops->close(sink);
	fclose(out);
	fflush(stderr);
	cr_expect_stderr_eq_str("");
}

Test(table, full_device, .init = cr_redirect_stderr)
{
	static const struct table_options options = {.top = 15, .width = 80};
	size_t count;
	const struct golden *run = golden_runs(&count);
	FILE *out = fopen("/dev/full", "w");
	struct sink *sink = table_sink_new(out, &options);

	cr_expect_eq(sink->ops->write(sink, &run->records[0]), -ENOSPC);
	sink->ops->close(sink);
	fclose(out);
	fflush(stderr);
	cr_expect_stderr_eq_str(
		"jankscope: error: cannot write the table: No space left on device\n");
}
