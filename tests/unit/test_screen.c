/* SPDX-License-Identifier: BSD-2-Clause */
/* The live screen without a terminal: what the model keeps, what the keys do, and that no frame has
 * anything that moves the cursor out of its row. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_records.h"
#include "random_records.h"
#include "record/json_read.h"
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
static size_t character(const char *p, int *columns)
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
static void check_frame(const char *bytes, size_t size, int width, int height, bool colour,
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

static char *frame_of(const struct screen_model *model, struct screen_view *view, int width,
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

static void check_all_sizes(const struct screen_model *model, struct screen_view *view)
{
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		free(frame_of(model, view, sizes[i].width, sizes[i].height, false));
		free(frame_of(model, view, sizes[i].width, sizes[i].height, true));
	}
}

/* With a block frozen, the help, a filter, a pause. */
static void check_all_views(const struct screen_model *model)
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
static int find_row(const struct screen_model *model, struct screen_view *view, int width,
		    int height, const char *text)
{
	char out[2048];

	for (int i = 0; i < height; i++)
		if (strstr(row_of(model, view, width, height, i, out), text))
			return i;
	return -1;
}

/* ---- records ---- */

static void take(struct screen_model *model, enum record_type type, uint64_t seq, const void *what)
{
	struct record record = {.type = type, .seq = seq, .t_boot_ns = 5000000000ull + seq};

	record.header = what; /* the members of the union are pointers */
	cr_assert_eq(screen_model_take(model, &record), 0);
}

static void take_block(struct screen_model *model, uint64_t seq, pid_t pid, uint64_t start_ns,
		       uint64_t wall_ns, enum block_state state, const char *symbol)
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

static void take_tasks(struct screen_model *model, uint64_t seq, const char *name)
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

static void take_header(struct screen_model *model)
{
	struct header_target target = {.package = "com.first"};
	struct record_header header = {
		.interval_ns = 1000000000, .targets = &target, .target_count = 1};

	take(model, RECORD_HEADER, 0, &header);
}

Test(live_screen, golden_records)
{
	const struct golden *runs;
	size_t count;

	runs = golden_runs(&count);
	for (size_t i = 0; i < count; i++) {
		struct screen_model model = {0};

		for (size_t n = 0; n < runs[i].count; n++)
			cr_assert_eq(screen_model_take(&model, &runs[i].records[n]), 0);
		check_all_views(&model);
		screen_model_clear(&model);
	}
}

static void hostile_text(void *ctx, const struct field *row, char *to, size_t size)
{
	struct random_records *r = ctx;

	/* JSON has no bytes that are no UTF-8; those are in hostile_names. */
	if (random_below(r, 2))
		snprintf(to, size, "\033[2J\r\n\xc2\x9bH\xe2\x80\xae\xe6\xbc\xa2%u",
			 random_below(r, 9));
	else
		snprintf(to, size, "t%u", random_below(r, 1000));
}

static void take_random(struct screen_model *model, struct random_records *r, enum record_type type,
			uint64_t seq)
{
	union {
		struct record_interval interval;
		struct record_block block;
		struct record_event event;
		struct record_header header;
	} out = {0};
	struct parsed_memory *memory = record_memory_new();
	json_t *object = random_object(r, record_types[type], 0);
	char why[256];

	cr_assert_eq(record_fill(record_types[type], object, &out, memory, why, sizeof(why)), 0,
		     "%s", why);
	take(model, type, seq, &out);
	record_memory_free(memory);
	json_decref(object);
}

/* Whatever the fields hold, the frames hold. */
Test(live_screen, random_records)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct random_records r = {.seed = seed, .all = seed % 2, .text = hostile_text};
		struct screen_model model = {0};

		r.ctx = &r;
		take_random(&model, &r, RECORD_HEADER, 0);
		for (uint64_t seq = 1; seq < 6; seq++) {
			take_random(&model, &r, RECORD_INTERVAL, 3 * seq);
			take_random(&model, &r, RECORD_BLOCK, 3 * seq + 1);
			take_random(&model, &r, RECORD_EVENT, 3 * seq + 2);
		}
		check_all_views(&model);
		screen_model_clear(&model);
	}
}

/* Names as another process chose them, and also where the model itself had them so. */
Test(live_screen, hostile_names)
{
	struct screen_model model = {0};
	struct screen_view view = {0};

	take_header(&model);
	take_tasks(&model, 1, hostile);
	take_block(&model, 2, 10, 77, 600000000, BLOCK_CLOSED, hostile);
	screen_model_say(&model, hostile, true);
	check_all_views(&model);
	model.now->tasks[0].thread = hostile;
	model.now->tasks[0].process = hostile;
	snprintf(model.title, sizeof(model.title), "%s", hostile);
	snprintf(model.layers[0].name, sizeof(model.layers[0].name), "%s", hostile);
	free(model.blocks[0]->told);
	model.blocks[0]->told = strdup(hostile);
	check_all_views(&model);
	memcpy(view.filter, hostile, sizeof(view.filter) - 1);
	view.editing = true;
	check_all_sizes(&model, &view);
	screen_model_clear(&model);
}

/* ---- what is where ---- */

Test(live_screen, panes)
{
	struct screen_model model = {0};
	struct screen_view view = {0};
	char row[2048];

	take_header(&model);
	take_tasks(&model, 1, "com.second");
	take_block(&model, 2, 10, 77, 812300000, BLOCK_OPEN, "Foo::wait(int)");
	cr_expect_not_null(
		strstr(row_of(&model, &view, 80, 24, 0, row), "60.0 %core busy 15.0 % of 4"), "%s",
		row);
	cr_expect_not_null(strstr(row_of(&model, &view, 80, 24, 2, row), "FRAMES  58.0/s"), "%s",
			   row);
	cr_expect_not_null(strstr(row, "\xe2\x96\x88"), "the graph is full: %s", row);
	cr_expect_not_null(strstr(row, "2 janky"), "%s", row);
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		if (sizes[i].width < 40 || sizes[i].height < 10)
			continue;
		cr_expect_geq(find_row(&model, &view, sizes[i].width, sizes[i].height, "FRAMES"),
			      0);
		cr_expect_geq(find_row(&model, &view, sizes[i].width, sizes[i].height, "NET"), 0);
		cr_expect_geq(find_row(&model, &view, sizes[i].width, sizes[i].height, "zeta"), 0);
		cr_expect_geq(find_row(&model, &view, sizes[i].width, sizes[i].height, "812.3 ms"),
			      0);
		cr_expect_eq(find_row(&model, &view, sizes[i].width, sizes[i].height, "q quit"),
			     sizes[i].height - 1);
	}
	/* Side by side from 140 columns on. */
	cr_expect_gt(find_row(&model, &view, 139, 40, "BLOCKS"),
		     find_row(&model, &view, 139, 40, "zeta"));
	cr_expect_leq(find_row(&model, &view, 140, 40, "FRAMES"),
		      find_row(&model, &view, 140, 40, "TASKS"));
	screen_model_clear(&model);
}

Test(live_screen, sort_and_filter)
{
	struct screen_model model = {0};
	struct screen_view view = {0};
	static const struct {
		const char *word;
		bool zeta_first;
	} orders[] = {
		{"by cpu", true}, {"by wait", false}, {"by switches", false}, {"by name", false}};

	take_header(&model);
	take_tasks(&model, 1, "com.second");
	for (size_t i = 0; i < 4; i++) {
		int zeta = find_row(&model, &view, 80, 24, "zeta");

		cr_expect_geq(find_row(&model, &view, 80, 24, orders[i].word), 0);
		cr_expect_eq(zeta < find_row(&model, &view, 80, 24, "alpha"), orders[i].zeta_first);
		view_key(&view, &model, 's');
	}
	cr_expect_eq(view.sort, SORT_CPU);
	view_key(&view, &model, '/');
	for (const char *p = "SECOND"; *p; p++)
		cr_expect_eq(view_key(&view, &model, *p), WISH_DRAW);
	view_key(&view, &model, 'q');
	view_key(&view, &model, KEY_BACKSPACE);
	cr_expect_str_eq(view.filter, "SECOND");
	cr_expect_geq(find_row(&model, &view, 80, 24, "filter: SECOND_"), 0);
	cr_expect_eq(find_row(&model, &view, 80, 24, "zeta"), -1);
	cr_expect_geq(find_row(&model, &view, 80, 24, "alpha"), 0);
	view_key(&view, &model, KEY_ENTER);
	view_key(&view, &model, '/');
	view_key(&view, &model, 'x');
	view_key(&view, &model, KEY_ESCAPE);
	cr_expect_str_eq(view.filter, "SECOND", "Esc takes back what was typed");
	view_key(&view, &model, KEY_ESCAPE);
	cr_expect_str_empty(view.filter);
	for (int i = 0; i < 200; i++) {
		view.editing = true;
		view_key(&view, &model, 0xe6);
	}
	cr_expect_eq(strlen(view.filter), SCREEN_FILTER - 1);
	check_all_sizes(&model, &view);
	screen_model_clear(&model);
}

/* ---- blocks ---- */

Test(live_screen, blocks_are_bounded_and_updated)
{
	struct screen_model model = {0};

	take_header(&model);
	for (uint64_t i = 0; i < 3 * SCREEN_BLOCKS; i++)
		take_block(&model, 2 + i, 10, 1000 + i, 600000000, BLOCK_CLOSED, "f");
	cr_expect_eq(model.block_count, SCREEN_BLOCKS);
	cr_expect_eq(model.blocks_seen, 3 * SCREEN_BLOCKS);
	cr_expect_eq(model.blocks[0]->start_boot_ns, 1000 + 3 * SCREEN_BLOCKS - 1);
	/* An open block that ends is one row, in its place. */
	take_block(&model, 900, 20, 5000, 600000000, BLOCK_OPEN, NULL);
	take_block(&model, 901, 20, 5001, 600000000, BLOCK_CLOSED, "f");
	take_block(&model, 902, 20, 5000, 700000000, BLOCK_CLOSED, NULL);
	cr_expect_eq(model.blocks_seen, 3 * SCREEN_BLOCKS + 2);
	cr_expect_eq(model.blocks[1]->start_boot_ns, 5000);
	cr_expect_eq(model.blocks[1]->wall_ns, 700000000);
	cr_expect_eq(model.blocks[1]->state, BLOCK_CLOSED);
	cr_expect_not_null(strstr(model.blocks[1]->told, "stack follows"));
	screen_model_clear(&model);
}

/* A stack that comes later finds its block by the seq of any of its records. */
Test(live_screen, a_stack_that_follows)
{
	struct record_frame frame = {.symbol = "late_function"};
	struct record_addition addition = {
		.of = 900, .stack = {.frames = &frame, .frame_count = 1, .weight_ns = 5}};
	struct screen_model model = {0};

	take_header(&model);
	take_block(&model, 900, 20, 5000, 600000000, BLOCK_OPEN, NULL);
	take_block(&model, 902, 20, 5000, 700000000, BLOCK_CLOSED, NULL);
	take(&model, RECORD_STACK, 903, &addition);
	cr_expect_not_null(strstr(model.blocks[0]->text, "late_function"));
	cr_expect_not_null(strstr(model.blocks[0]->told, "late_function"), "%s",
			   model.blocks[0]->told);
	/* Without end they are no more than so much text. */
	for (int i = 0; i < 20000; i++)
		take(&model, RECORD_STACK, 904, &addition);
	cr_expect_lt(strlen(model.blocks[0]->text), 300u << 10);
	addition.of = 12345;
	take(&model, RECORD_STACK, 905, &addition);
	screen_model_clear(&model);
}

Test(live_screen, freeze)
{
	struct screen_model model = {0};
	struct screen_view view = {0};
	char row[2048];

	take_header(&model);
	take_block(&model, 2, 10, 77, 600000000, BLOCK_OPEN, "Foo::wait(int)");
	take_block(&model, 3, 10, 78, 500000000, BLOCK_CLOSED, "other");
	view_key(&view, &model, 'j');
	cr_expect_geq(find_row(&model, &view, 80, 24, ">"), 0);
	cr_expect(view_is_picked(&view, model.blocks[0]), "the newest first");
	view_key(&view, &model, KEY_DOWN);
	view_key(&view, &model, KEY_DOWN);
	cr_expect(view_is_picked(&view, model.blocks[1]));
	/* New rows do not move what is picked. */
	take_block(&model, 4, 10, 79, 500000000, BLOCK_CLOSED, "newer");
	view_key(&view, &model, KEY_ENTER);
	cr_assert_not_null(view.frozen);
	cr_expect_eq(view.frozen->start_boot_ns, 77);
	cr_expect_geq(find_row(&model, &view, 80, 24, "#1  Foo::wait(int)"), 0);
	/* The run goes on: it ends, and leaves the ring. */
	take_block(&model, 5, 10, 77, 900000000, BLOCK_CLOSED, "Foo::wait(int)");
	cr_expect_not_null(strstr(row_of(&model, &view, 80, 24, 2, row), "by now 900.0 ms, closed"),
			   "%s", row);
	for (uint64_t i = 0; i < 2 * SCREEN_BLOCKS; i++)
		take_block(&model, 6 + i, 10, 1000 + i, 600000000, BLOCK_CLOSED, "f");
	cr_expect_geq(find_row(&model, &view, 80, 24, "600.0 ms (open)"), 0);
	/* Scrolling ends where the text does. */
	free(frame_of(&model, &view, 40, 10, false));
	for (int i = 0; i < 100; i++)
		view_key(&view, &model, 'j');
	free(frame_of(&model, &view, 40, 10, false));
	cr_expect_eq(view.scroll, view.scroll_max);
	cr_expect_gt(view.scroll_max, 0);
	free(frame_of(&model, &view, 300, 100, false));
	cr_expect_eq(view.scroll, 0);
	view_key(&view, &model, KEY_ESCAPE);
	cr_expect_null(view.frozen);
	screen_model_clear(&model);
	view_clear(&view);
}

/* A paused screen has its own copy. */
Test(live_screen, pause_shares_nothing_that_changes)
{
	struct screen_model live = {0}, paused;
	struct screen_view view = {0};
	char *before, *after;

	take_header(&live);
	take_tasks(&live, 1, "com.second");
	take_block(&live, 2, 10, 77, 600000000, BLOCK_OPEN, "f");
	cr_expect_eq(view_key(&view, &live, 'p'), WISH_PAUSE);
	screen_model_copy(&paused, &live);
	before = frame_of(&paused, &view, 80, 24, true);
	for (uint64_t i = 0; i < 2 * SCREEN_BLOCKS; i++) {
		take_tasks(&live, 10 + i, "com.third");
		take_block(&live, 500 + i, 10, 77 + i, 900000000, BLOCK_CLOSED, "g");
	}
	after = frame_of(&paused, &view, 80, 24, true);
	cr_expect_str_eq(before, after);
	free(before);
	free(after);
	screen_model_clear(&paused);
	screen_model_clear(&live);
}

/* ---- frames ---- */

Test(live_screen, history_of_frames)
{
	struct screen_model model = {0};
	struct record_interval empty = {.dur_ns = 1000000000, .frames.present = true};
	char row[2048];
	struct screen_view view = {0};

	take_header(&model);
	for (uint64_t i = 0; i < 2 * SCREEN_HISTORY; i++)
		take_tasks(&model, 1 + i, "x");
	cr_expect_eq(model.layer_count, 1);
	cr_expect_eq(model.layers[0].count, SCREEN_HISTORY);
	cr_expect_float_eq(model.layers[0].rate[SCREEN_HISTORY - 1], 58, 0.01);
	cr_expect(model.layers[0].late[SCREEN_HISTORY - 1]);
	take(&model, RECORD_INTERVAL, 2000, &empty);
	cr_expect_eq(model.layers[0].rate[SCREEN_HISTORY - 1], 0);
	cr_expect_eq(model.layers[0].shown, 0);
	cr_expect_not_null(strstr(row_of(&model, &view, 80, 24, 2, row), "  0.0/s"), "%s", row);
	/* Others take the room of those that are quiet, and of no others. */
	for (uint64_t n = 0; n < 200; n++) {
		char name[32];
		struct record_layer layer = {.layer = name, .shown = 10};
		struct record_interval interval = {.dur_ns = 1000000000};

		snprintf(name, sizeof(name), "layer %d", (int)n);
		interval.frames = (struct record_frames){true, false, &layer, 1};
		take(&model, RECORD_INTERVAL, 3000 + n, &interval);
		cr_assert_leq(model.layer_count, SCREEN_LAYERS);
	}
	cr_expect_eq(model.layer_count, SCREEN_LAYERS);
	screen_model_clear(&model);
}

/* ---- keys ---- */

static int key_of(const char *bytes)
{
	struct key_reader reader = {0};
	int key = KEY_NONE;

	for (; *bytes; bytes++) {
		cr_expect_eq(key, KEY_NONE);
		key = keys_take(&reader, (unsigned char)*bytes);
	}
	if (keys_are_midway(&reader))
		key = keys_time_out(&reader);
	cr_expect_not(keys_are_midway(&reader));
	return key;
}

Test(live_screen, keys)
{
	struct key_reader reader = {0};

	cr_expect_eq(key_of("q"), 'q');
	cr_expect_eq(key_of("\r"), KEY_ENTER);
	cr_expect_eq(key_of("\x7f"), KEY_BACKSPACE);
	cr_expect_eq(key_of("\x1a"), KEY_SUSPEND);
	cr_expect_eq(key_of("\033[A"), KEY_UP);
	cr_expect_eq(key_of("\033OB"), KEY_DOWN);
	cr_expect_eq(key_of("\033[1;5B"), KEY_DOWN, "with Ctrl");
	cr_expect_eq(key_of("\033[5~"), KEY_PAGE_UP);
	cr_expect_eq(key_of("\033[6~"), KEY_PAGE_DOWN);
	cr_expect_eq(key_of("\033[99999999999999999999~"), KEY_NONE, "longer than any");
	cr_expect_eq(key_of("\033"), KEY_ESCAPE);
	cr_expect_eq(key_of("\033x"), KEY_NONE);
	/* Escape, and another key right behind it. */
	cr_expect_eq(keys_take(&reader, 0x1b), KEY_NONE);
	cr_expect_eq(keys_take(&reader, 0x1b), KEY_ESCAPE);
	cr_expect_eq(keys_take(&reader, '['), KEY_NONE);
	cr_expect_eq(keys_time_out(&reader), KEY_NONE, "half a sequence is no key");
	/* Any bytes at all. */
	for (unsigned seed = 1, i = 0; i < 200000; i++) {
		int key = keys_take(&reader, (unsigned char)rand_r(&seed));

		cr_assert(key >= 0 && key <= KEY_REDRAW);
		cr_assert_leq(reader.count, sizeof(reader.bytes));
	}
}

/* Any keys at all, in any order. */
Test(live_screen, random_keys)
{
	struct screen_model model = {0};
	struct screen_view view = {0};
	unsigned seed = 3;

	take_header(&model);
	take_tasks(&model, 1, hostile);
	for (uint64_t i = 0; i < 5; i++)
		take_block(&model, 2 + i, 10, 77 + i, 600000000, BLOCK_OPEN, "f");
	for (int i = 0; i < 20000; i++) {
		view_key(&view, &model, rand_r(&seed) % (KEY_REDRAW + 1));
		if (i % 50)
			continue;
		free(frame_of(&model, &view, 1 + rand_r(&seed) % 160, 1 + rand_r(&seed) % 60,
			      true));
		take_block(&model, 100 + (uint64_t)i, 10, 1000 + (uint64_t)i, 1, BLOCK_CLOSED, "g");
	}
	view_clear(&view);
	screen_model_clear(&model);
}
