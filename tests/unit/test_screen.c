/* SPDX-License-Identifier: BSD-2-Clause */
/* The live screen without a terminal: what stands where, and that no frame has anything that moves
 * the cursor out of its row. */
#include "golden_records.h"
#include "random_records.h"
#include "record/json_read.h"
#include "screen_rig.h"

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
	take_jank(&model, 3, 11400000, hostile);
	screen_model_say(&model, hostile, true);
	check_all_views(&model);
	snprintf(model.late[0].text, sizeof(model.late[0].text), "%s", hostile);
	snprintf(model.late[0].process, sizeof(model.late[0].process), "%s", hostile);
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

/* Late frames have a pane once there is one, and the other panes keep theirs. */
Test(live_screen, late_frames)
{
	struct screen_model model = {0};
	struct screen_view view = {0};
	char row[2048];

	take_header(&model);
	take_tasks(&model, 1, "com.second");
	take_block(&model, 2, 10, 77, 812300000, BLOCK_OPEN, "Foo::wait(int)");
	cr_expect_lt(find_row(&model, &view, 80, 24, "LATE"), 0);
	for (unsigned i = 0; i < SCREEN_LATE + 5; i++)
		take_jank(&model, 3 + i, 1000000, "older");
	take_jank(&model, 100, 11400000, "holder");
	cr_expect_eq(model.late_count, SCREEN_LATE);
	cr_expect_eq(model.late_totals.frames, SCREEN_LATE + 6);
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		int width = sizes[i].width, height = sizes[i].height, title;

		if (width < 40 || height < 10)
			continue;
		title = find_row(&model, &view, width, height, "LATE 70 frames, 80 ms");
		cr_expect_geq(title, 0, "%dx%d", width, height);
		/* The newest is the first. */
		row_of(&model, &view, width, height, title + 1, row);
		cr_expect(strstr(row, "+11.4 ms  app"), "%dx%d: %s", width, height, row);
		cr_expect_geq(find_row(&model, &view, width, height, "zeta"), 0, "%dx%d", width,
			      height);
		cr_expect_geq(find_row(&model, &view, width, height, "812.3 ms"), 0, "%dx%d", width,
			      height);
	}
	row_of(&model, &view, 160, 50, find_row(&model, &view, 160, 50, "11.4 ms"), row);
	cr_expect(strstr(row, "for a lock, ended by holder"), "%s", row);
	strcpy(view.filter, "HOLDER");
	cr_expect_geq(find_row(&model, &view, 160, 50, "+11.4 ms"), 0);
	cr_expect_lt(find_row(&model, &view, 160, 50, "+ 1.0 ms"), 0);
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
