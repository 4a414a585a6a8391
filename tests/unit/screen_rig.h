/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the live screen's tests: a terminal that checks each byte of a frame, and records for the
 * model. */
#pragma once
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/screen/draw.h"
#include "sink/screen/keys.h"
#include "sink/text.h"

static const struct size {
	int width, height;
} sizes[] = {{1, 1},    {2, 2},    {7, 3},     {20, 5},   {39, 9},    {40, 10},
	     {41, 13},  {60, 14},  {80, 16},   {80, 24},  {100, 130}, {139, 24},
	     {140, 10}, {160, 50}, {300, 100}, {500, 300}};
#define SIZE_COUNT (sizeof(sizes) / sizeof(*sizes))

static const char hostile[] = "\033[2J\033[1;1H\r\n\t\b\x7f\xc2\x9b"
			      "2J\xe2\x80\xae%s%n\xff\xe6\xbc\xa2\xf0\x9f\x98\x80"
			      "e\xcc\x81 a name that is long, so that no row has room for all of "
			      "it, whatever the width of the terminal may be in the end";

/* ---- a terminal that knows what frames are made of, and nothing else ---- */

/* The next character: its bytes and columns. */
static inline size_t character(const char *p, int *columns)
{
	char one[8] = {0};
	size_t length = 1;

	while ((p[length] & 0xc0) == 0x80)
		length++;
	cr_assert_leq(length, 4);
	memcpy(one, p, length);
	*columns = text_columns(one);
	return length;
}

/* Checks each byte of a frame; the text of row `wanted` (from 0) without its escapes in `out`. */
static inline void check_frame(const char *bytes, size_t size, int width, int height, bool colour,
			       int wanted, char *out, size_t out_size)
{
	int row = -1, column = 0, columns;
	size_t used = 0;

	cr_assert_eq(strlen(bytes), size);
	for (const char *p = bytes; *p;) {
		unsigned char c = (unsigned char)*p;

		if (c == 0x1b) {
			int a = 0, b = 0, n = 0;

			if (sscanf(p, "\033[%d;%dH%n", &a, &b, &n) == 2 && n) {
				cr_assert_eq(a, row + 2, "row %d after %d", a, row + 1);
				cr_assert_eq(b, 1);
				row++;
				column = 0;
			} else if (n = 0, sscanf(p, "\033[%dG%n", &a, &n) == 1 && n) {
				cr_assert(a - 1 >= column && a - 1 < width, "%d at %d", a, column);
				column = a - 1;
			} else if (!strncmp(p, "\033[K", 3)) {
				cr_assert_lt(column, width);
				n = 3;
			} else {
				n = 2 + (int)strspn(p + 2, "0123456789;");
				cr_assert(colour && p[1] == '[' && p[n] == 'm', "%.8s", p + 1);
				n++;
			}
			p += n;
			continue;
		}
		cr_assert(c >= 0x20 && c != 0x7f, "a control character: %02x", c);
		if (c >= 0x80) {
			char clean[8], one[8] = {0};

			memcpy(one, p, character(p, &columns));
			cr_assert_str_eq(text_clean(clean, sizeof(clean), one), one);
		}
		c = (unsigned char)character(p, &columns);
		if (row == wanted && used + c < out_size) {
			memcpy(out + used, p, c);
			used += c;
		}
		column += columns;
		cr_assert_leq(column, width, "%d columns of %d in row %d", column, width, row);
		p += c;
	}
	cr_assert_eq(row + 1, height);
	if (out_size)
		out[used] = 0;
}

static inline char *frame_of(const struct screen_model *model, struct screen_view *view, int width,
			     int height, bool colour)
{
	struct screen_frame frame;
	char *bytes;
	size_t size;

	cr_assert(frame_begin(&frame, width, height, colour, true));
	screen_draw(&frame, model, view);
	cr_assert_not(frame.failed);
	bytes = frame_bytes(&frame, &size);
	cr_assert_not_null(bytes);
	frame_free(&frame);
	check_frame(bytes, size, width, height, colour, -1, NULL, 0);
	return bytes;
}

static inline void check_all_sizes(const struct screen_model *model, struct screen_view *view)
{
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		free(frame_of(model, view, sizes[i].width, sizes[i].height, false));
		free(frame_of(model, view, sizes[i].width, sizes[i].height, true));
	}
}

/* With a block frozen, the help, a filter, a pause. */
static inline void check_all_views(const struct screen_model *model)
{
	static const int keys[] = {'s',     's',        's', 't',       '?',  'x',
				   'p',     'j',        'j', KEY_ENTER, 'j',  KEY_PAGE_DOWN,
				   KEY_END, KEY_ESCAPE, '/', 'a',       0xff, KEY_ENTER};
	struct screen_view view = {0};

	check_all_sizes(model, &view);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		view_key(&view, model, keys[i]);
		check_all_sizes(model, &view);
	}
	view_clear(&view);
}

/* The row as a terminal shows it. */
static const char *row_of(const struct screen_model *model, struct screen_view *view, int width,
			  int height, int row, char out[2048])
{
	struct screen_frame frame;
	char *bytes;
	size_t size;

	cr_assert(frame_begin(&frame, width, height, false, true));
	screen_draw(&frame, model, view);
	bytes = frame_bytes(&frame, &size);
	frame_free(&frame);
	check_frame(bytes, size, width, height, false, row, out, 2048);
	free(bytes);
	return out;
}

/* The number of the first row with that text; -1: none. */
static inline int find_row(const struct screen_model *model, struct screen_view *view, int width,
			   int height, const char *text)
{
	char out[2048];

	for (int i = 0; i < height; i++)
		if (strstr(row_of(model, view, width, height, i, out), text))
			return i;
	return -1;
}

/* ---- records ---- */

static inline void take(struct screen_model *model, enum record_type type, uint64_t seq,
			const void *what)
{
	struct record record = {.type = type, .seq = seq, .t_boot_ns = 5000000000ull + seq};

	record.header = what; /* the members of the union are pointers */
	cr_assert_eq(screen_model_take(model, &record), 0);
}

static inline void take_block(struct screen_model *model, uint64_t seq, pid_t pid,
			      uint64_t start_ns, uint64_t wall_ns, enum block_state state,
			      const char *symbol)
{
	struct record_frame frames[] = {{.module = "/lib/libc.so", .symbol = "nanosleep"},
					{.module = "/data/app/x.so", .symbol = symbol}};
	struct record_stack stack = {.weight_ns = wall_ns, .frames = frames, .frame_count = 2};
	struct block_reason reason = {"futex", wall_ns};
	struct record_block block = {
		.pid = pid,
		.tid = pid,
		.process = "/system/bin/app",
		.start_boot_ns = start_ns,
		.wall_ns = wall_ns,
		.state = state,
		.class = BLOCK_LONG,
		.reasons = &reason,
		.reason_count = 1,
		.stacks = &stack,
		.stack_count = symbol ? 1 : 0,
	};

	block.ledger.sleeping_ns = wall_ns;
	if (symbol)
		block.top = SOME_U64(0);
	else
		missing_list_set(&block.missing, "stacks", MISSING_FOLLOWS);
	take(model, RECORD_BLOCK, seq, &block);
	missing_list_free(&block.missing);
}

static inline void take_tasks(struct screen_model *model, uint64_t seq, const char *name)
{
	struct record_task tasks[] = {
		{.tid = 11,
		 .pid = 10,
		 .process = "com.first",
		 .thread = "zeta",
		 .cpu_ns = 500000000,
		 .runnable_ns = SOME_U64(1000000),
		 .switches_voluntary = SOME_U64(3)},
		{.tid = 21,
		 .pid = 20,
		 .process = name,
		 .thread = "alpha",
		 .cpu_ns = 100000000,
		 .runnable_ns = SOME_U64(90000000),
		 .switches_voluntary = SOME_U64(700)},
	};
	struct record_process_cpu processes[] = {
		{.pid = 10, .process = "com.first", .cpu_ns = 500000000, .threads = 1},
		{.pid = 20, .process = name, .cpu_ns = 100000000, .threads = 1},
	};
	struct record_layer layer = {.pid = 10,
				     .layer = "layer of first",
				     .shown = 58,
				     .janky = 2,
				     .fps_active = 60.5,
				     .period_ns = SOME_U64(16666667)};
	struct record_interval interval = {.dur_ns = 1000000000};

	interval.cpu = (struct record_cpu){.present = true,
					   .online_cpus = 4,
					   .busy_ns = 600000000,
					   .tasks = tasks,
					   .task_count = 2,
					   .processes = processes,
					   .process_count = 2};
	interval.frames =
		(struct record_frames){.present = true, .layers = &layer, .layer_count = 1};
	take(model, RECORD_INTERVAL, seq, &interval);
}

static inline void take_header(struct screen_model *model)
{
	struct header_target target = {.package = "com.first"};
	struct record_header header = {
		.interval_ns = 1000000000, .targets = &target, .target_count = 1};

	take(model, RECORD_HEADER, 0, &header);
}

/* A late frame by a lock; whatever has a name has this one. */
static inline void take_jank(struct screen_model *model, uint64_t seq, uint64_t late_ns,
			     const char *name)
{
	struct jank_thread thread = {.tid = 10, .role = JANK_ROLE_MAIN, .process = name};
	struct block_reason reason = {(char *)(uintptr_t)name, late_ns};
	struct record_jank jank = {
		.pid = 10,
		.process = name,
		.window_start_ns = 77,
		.window_end_ns = 77 + 2 * late_ns,
		.late_ns = late_ns,
		.cause = JANK_CAUSE_LOCK,
		.cause_thread = SOME_U64(0),
		.culprit = {.present = true, .tid = 11, .process = name},
		.threads = &thread,
		.thread_count = 1,
	};

	for (size_t i = 0; i < sizeof(thread.thread) && name[i]; i++)
		thread.thread[i] = jank.culprit.thread[i] = name[i];
	thread.reasons = &reason;
	thread.reason_count = 1;
	take(model, RECORD_JANK, seq, &jank);
}
