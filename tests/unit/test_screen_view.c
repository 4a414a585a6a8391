/* SPDX-License-Identifier: BSD-2-Clause */
/* What the model of the live screen keeps of blocks, and what the keys do. */
#include "screen_rig.h"

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
