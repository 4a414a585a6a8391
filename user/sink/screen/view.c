/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/screen/view.h"

#include <stdlib.h>
#include <string.h>

#include "sink/screen/keys.h"

/* ---- what is shown ---- */

bool view_matches(const struct screen_view *view, const char *const *names, size_t count)
{
	if (!view->filter[0])
		return true;
	for (size_t i = 0; i < count; i++)
		if (names[i] && strcasestr(names[i], view->filter))
			return true;
	return false;
}

bool view_is_picked(const struct screen_view *view, const struct screen_block *block)
{
	return view->picked_pid && view->picked_pid == block->pid &&
	       view->picked_tid == block->tid && view->picked_boot_ns == block->start_boot_ns;
}

size_t view_blocks(const struct screen_view *view, const struct screen_model *model,
		   struct screen_block *blocks[SCREEN_BLOCKS])
{
	size_t count = 0;

	for (size_t i = 0; i < model->block_count; i++) {
		const char *const names[] = {model->blocks[i]->process, model->blocks[i]->told};

		if (view_matches(view, names, 2))
			blocks[count++] = model->blocks[i];
	}
	return count;
}

static uint64_t switches(const struct screen_task *task)
{
	return task->voluntary.value + task->involuntary.value;
}

static int descending(uint64_t x, uint64_t y)
{
	return x < y ? 1 : x > y ? -1 : 0;
}

static int by_cpu(const void *a, const void *b)
{
	const struct screen_task *const *x = a, *const *y = b;
	int order = descending((*x)->cpu_ns, (*y)->cpu_ns);

	if (order)
		return order;
	/* Rows that are equal keep their places from one interval to the next. */
	return (*x)->pid != (*y)->pid ? ((*x)->pid < (*y)->pid ? -1 : 1)
				      : ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

static int by_wait(const void *a, const void *b)
{
	const struct screen_task *const *x = a, *const *y = b;
	int order = descending((*x)->runnable_ns.value, (*y)->runnable_ns.value);

	return order ? order : by_cpu(a, b);
}

static int by_switches(const void *a, const void *b)
{
	const struct screen_task *const *x = a, *const *y = b;
	int order = descending(switches(*x), switches(*y));

	return order ? order : by_cpu(a, b);
}

static int by_name(const void *a, const void *b)
{
	const struct screen_task *const *x = a, *const *y = b;
	int order = strcasecmp((*x)->tid ? (*x)->thread : (*x)->process,
			       (*y)->tid ? (*y)->thread : (*y)->process);

	return order ? order : by_cpu(a, b);
}

const char *view_sort_name(enum screen_sort sort)
{
	static const char *const names[SORT_COUNT] = {"cpu", "wait", "switches", "name"};

	return names[sort];
}

const struct screen_task **view_tasks(const struct screen_view *view,
				      const struct screen_model *model, size_t *count)
{
	static int (*const orders[SORT_COUNT])(const void *, const void *) = {by_cpu, by_wait,
									      by_switches, by_name};
	const struct screen_interval *now = model->now;
	const struct screen_task *from, **tasks;
	size_t all;

	*count = 0;
	if (!now || !now->has_cpu)
		return NULL;
	from = view->processes ? now->processes : now->tasks;
	all = view->processes ? now->process_count : now->task_count;
	tasks = calloc(all + 1, sizeof(*tasks));
	for (size_t i = 0; tasks && i < all; i++) {
		const char *const names[] = {from[i].thread, from[i].process, from[i].package};

		if (view_matches(view, names, 3))
			tasks[(*count)++] = &from[i];
	}
	if (tasks)
		qsort(tasks, *count, sizeof(*tasks), orders[view->sort]);
	return tasks;
}

/* ---- keys ---- */

static void pick(struct screen_view *view, const struct screen_block *block)
{
	view->picked_pid = block->pid;
	view->picked_tid = block->tid;
	view->picked_boot_ns = block->start_boot_ns;
}

static void move(struct screen_view *view, const struct screen_model *model, int by)
{
	struct screen_block *blocks[SCREEN_BLOCKS];
	size_t count = view_blocks(view, model, blocks);
	int at = -1;

	for (size_t i = 0; i < count; i++)
		if (view_is_picked(view, blocks[i]))
			at = (int)i;
	if (!count)
		return;
	at = at < 0 ? 0 : at + by;
	pick(view, blocks[at < 0 ? 0 : at >= (int)count ? (int)count - 1 : at]);
}

/* The block that is picked, or the newest one where none is. */
static void freeze(struct screen_view *view, const struct screen_model *model)
{
	struct screen_block *blocks[SCREEN_BLOCKS], *found;
	size_t count = view_blocks(view, model, blocks);

	if (!count)
		return;
	found = blocks[0];
	for (size_t i = 0; i < count; i++)
		if (view_is_picked(view, blocks[i]))
			found = blocks[i];
	pick(view, found);
	screen_block_drop(view->frozen);
	view->frozen = screen_block_hold(found);
	view->scroll = 0;
}

static void end_freeze(struct screen_view *view)
{
	screen_block_drop(view->frozen);
	view->frozen = NULL;
	view->scroll = 0;
}

static void scroll(struct screen_view *view, int by)
{
	int to = view->scroll + by;

	view->scroll = to > view->scroll_max ? view->scroll_max : to;
	if (view->scroll < 0)
		view->scroll = 0;
}

static enum screen_wish key_in_filter(struct screen_view *view, int key)
{
	size_t length = strlen(view->filter);

	switch (key) {
	case KEY_ENTER:
		view->editing = false;
		return WISH_DRAW;
	case KEY_ESCAPE:
		memcpy(view->filter, view->before, sizeof(view->filter));
		view->editing = false;
		return WISH_DRAW;
	case KEY_BACKSPACE:
		while (length && (view->filter[length - 1] & 0xc0) == 0x80)
			length--;
		view->filter[length ? length - 1 : 0] = 0;
		return WISH_DRAW;
	case KEY_SUSPEND:
		return WISH_SUSPEND;
	case KEY_REDRAW:
		return WISH_REDRAW;
	}
	if (key < 0x20 || key > 0xff || length + 1 >= sizeof(view->filter))
		return WISH_NOTHING;
	view->filter[length] = (char)key;
	view->filter[length + 1] = 0;
	return WISH_DRAW;
}

static enum screen_wish key_in_frozen(struct screen_view *view, int key)
{
	int page = view->page > 2 ? view->page - 1 : 1;

	switch (key) {
	case KEY_ESCAPE:
	case KEY_BACKSPACE:
	case KEY_LEFT:
	case KEY_ENTER:
		end_freeze(view);
		return WISH_DRAW;
	case KEY_UP:
	case 'k':
		scroll(view, -1);
		return WISH_DRAW;
	case KEY_DOWN:
	case 'j':
		scroll(view, 1);
		return WISH_DRAW;
	case KEY_PAGE_UP:
		scroll(view, -page);
		return WISH_DRAW;
	case KEY_PAGE_DOWN:
		scroll(view, page);
		return WISH_DRAW;
	case KEY_HOME:
	case 'g':
		view->scroll = 0;
		return WISH_DRAW;
	case KEY_END:
	case 'G':
		view->scroll = view->scroll_max;
		return WISH_DRAW;
	}
	return WISH_NOTHING;
}

enum screen_wish view_key(struct screen_view *view, const struct screen_model *model, int key)
{
	enum screen_wish wish = WISH_NOTHING;

	if (view->editing)
		return key_in_filter(view, key);
	switch (key) {
	case 'q':
		return WISH_QUIT;
	case KEY_SUSPEND:
		return WISH_SUSPEND;
	case KEY_REDRAW:
		return WISH_REDRAW;
	case 'p':
	case ' ':
		view->paused = !view->paused;
		return WISH_PAUSE;
	}
	if (view->help) {
		view->help = key == KEY_NONE;
		return WISH_DRAW;
	}
	if (key == '?' || key == 'h') {
		view->help = true;
		return WISH_DRAW;
	}
	if (view->frozen)
		wish = key_in_frozen(view, key);
	if (wish != WISH_NOTHING)
		return wish;
	switch (key) {
	case 's':
		view->sort = (view->sort + 1) % SORT_COUNT;
		return WISH_DRAW;
	case 't':
		view->processes = !view->processes;
		return WISH_DRAW;
	case '/':
		end_freeze(view);
		memcpy(view->before, view->filter, sizeof(view->before));
		view->editing = true;
		return WISH_DRAW;
	case KEY_ESCAPE:
		view->filter[0] = 0;
		view->picked_pid = 0;
		return WISH_DRAW;
	case KEY_UP:
	case 'k':
		move(view, model, -1);
		return WISH_DRAW;
	case KEY_DOWN:
	case 'j':
		move(view, model, 1);
		return WISH_DRAW;
	case KEY_PAGE_UP:
	case KEY_HOME:
		move(view, model, -SCREEN_BLOCKS);
		return WISH_DRAW;
	case KEY_PAGE_DOWN:
	case KEY_END:
		move(view, model, SCREEN_BLOCKS);
		return WISH_DRAW;
	case KEY_ENTER:
		freeze(view, model);
		return WISH_DRAW;
	}
	return WISH_NOTHING;
}

void view_clear(struct screen_view *view)
{
	end_freeze(view);
}
