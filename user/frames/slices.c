/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/slices_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef FRAMES_SMALL_WINDOWS /* as in timeline.c */
#define WINDOW 64
#else
#define WINDOW 65536 /* markers that wait to be sorted */
#endif
#define MAX_THREADS 8192
#define MAX_DEPTH   32

struct slices *slices_new(const struct slices_ops *ops, void *ctx)
{
	struct slices *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ops = ops;
	s->ctx = ctx;
	s->newest_ns = INT64_MIN;
	s->items = malloc(WINDOW * sizeof(*s->items));
	s->counters = calloc(MAX_COUNTERS, sizeof(*s->counters));
	s->counter_table = calloc(COUNTER_SLOTS, sizeof(*s->counter_table));
	s->drawn = malloc(DRAWN * sizeof(*s->drawn));
	if (!s->items || !s->counters || !s->counter_table || !s->drawn) {
		slices_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void slices_free(struct slices *s)
{
	struct thread *thread, *next_thread;
	struct app *app, *next_app;

	if (!s)
		return;
	HASH_ITER (hh, s->threads, thread, next_thread) {
		HASH_DEL(s->threads, thread);
		free(thread->stack);
		free(thread);
	}
	HASH_ITER (hh, s->apps, app, next_app) {
		slices_app_free(s, app);
	}
	for (size_t i = 0; i < s->counter_count; i++)
		free(s->counters[i].name);
	free(s->counters);
	free(s->counter_table);
	free(s->drawn);
	free(s->items);
	free(s);
}

/* Threads come and go for days: one that is in no slice can be met anew. */
static void drop_idle_threads(struct slices *s)
{
	struct thread *thread, *next;

	HASH_ITER (hh, s->threads, thread, next) {
		/* cppcheck-suppress uninitvar ; HASH_ITER sets it */
		if (thread->depth)
			continue;
		HASH_DEL(s->threads, thread);
		free(thread->stack);
		free(thread);
	}
}

static struct thread *thread_of(struct slices *s, int32_t tid, bool create)
{
	struct thread *thread;

	HASH_FIND_INT(s->threads, &tid, thread);
	if (thread || !create)
		return thread;
	if (HASH_COUNT(s->threads) >= MAX_THREADS)
		drop_idle_threads(s);
	if (HASH_COUNT(s->threads) >= MAX_THREADS) {
		s->counts.threads_lost++;
		return NULL;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->pid = -1;
	HASH_ADD_INT(s->threads, tid, thread);
	return thread;
}

static int slice_begins(struct slices *s, const struct item *item)
{
	struct thread *thread = thread_of(s, item->tid, true);

	if (!thread)
		return 0;
	thread->pid = item->pid;
	if (thread->depth < MAX_DEPTH) {
		if (thread->depth == thread->capacity) {
			uint32_t capacity = thread->capacity ? thread->capacity * 2 : 4;
			struct open_slice *stack =
				realloc(thread->stack, capacity * sizeof(*stack));

			if (!stack)
				return -ENOMEM;
			thread->stack = stack;
			thread->capacity = capacity;
		}
		thread->stack[thread->depth] =
			(struct open_slice){item->ts_ns, item->value, item->meaning};
	}
	thread->depth++;
	switch (item->meaning) {
	case MEANS_DO_FRAME:
		return slices_do_frame_began(s, item);
	case MEANS_RESYNCED:
		slices_do_frame_resynced(s, item);
		break;
	case MEANS_DISPLAY:
		slices_note_display(s, item->pid);
		break;
	case MEANS_DRAW_FRAME:
		thread->drawn_ns = slices_open_do_frame(s, item->pid);
		break;
	}
	return 0;
}

static int slice_ends(struct slices *s, const struct item *item)
{
	struct thread *thread = thread_of(s, item->tid, false);
	struct open_slice *open;
	struct app_slice slice;
	bool nested_do_frame = false;

	if (!thread || !thread->depth) {
		s->counts.ends_without_begin++;
		return 0;
	}
	if (--thread->depth >= MAX_DEPTH)
		return 0;
	open = &thread->stack[thread->depth];
	slice = (struct app_slice){thread->pid, thread->tid,    open->meaning,
				   open->id,    open->start_ns, item->ts_ns};
	if (s->ops->slice && open->meaning != MEANS_OTHER)
		s->ops->slice(s->ctx, &slice);
	switch (open->meaning) {
	case MEANS_DO_FRAME:
		slices_do_frame_ended(s, thread, &slice);
		nested_do_frame = true;
		break;
	case MEANS_DRAW_FRAME:
		slices_draw_frame_ended(s, thread, &slice);
		thread->queued_ns = 0;
		thread->drawn_ns = 0;
		break;
	case MEANS_QUEUE_BUFFER:
		thread->queued_ns = item->ts_ns;
		if (thread->drawn_ns)
			slices_remember_drawn(s, thread->pid, thread->drawn_ns, item->ts_ns);
		break;
	}
	if (thread->depth == 0 && thread->tid == thread->pid)
		return slices_main_thread_free(s, thread, slice.start_ns, slice.end_ns,
					       nested_do_frame);
	/* a doFrame inside onVsync makes the process known as one with frames */
	if (nested_do_frame && thread->tid == thread->pid) {
		struct app *app = slices_app(s, thread->pid, true);

		if (app && !app->sm.started)
			return slices_start_ticks(s, app, slice.start_ns);
	}
	return 0;
}

static int handle(struct slices *s, const struct item *item)
{
	switch (item->kind) {
	case MARK_BEGIN:
		return slice_begins(s, item);
	case MARK_END:
		return slice_ends(s, item);
	case MARK_COUNTER:
		if (item->meaning >= MEANS_VSYNC_APP && item->meaning <= MEANS_VSYNC_HW)
			slices_note_display(s, item->pid);
		switch (item->meaning) {
		case MEANS_VSYNC_APP:
			slices_add_edge(s, item->ts_ns, EDGE_APP);
			break;
		case MEANS_VSYNC_SF:
			slices_add_edge(s, item->ts_ns, EDGE_SF);
			break;
		case MEANS_VSYNC_HW:
			slices_add_edge(s, item->ts_ns, EDGE_HW);
			break;
		case MEANS_PERIOD:
			if (item->value >= PERIOD_SHORTEST_NS && item->value < SECOND_NS)
				slices_state_period(s, item->value);
			break;
		case MEANS_BUFFER_COUNT:
			slices_buffer_counter(s, item);
			break;
		case MEANS_MAYBE_BUFFERS:
			if (slices_is_display(s, s->counters[item->pid].pid))
				slices_buffer_counter(s, item);
			break;
		}
	}
	return 0;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void sort_items(struct slices *s)
{
	bool sorted = true;

	for (size_t i = 1; i < s->item_count && sorted; i++)
		sorted = s->items[i - 1].ts_ns <= s->items[i].ts_ns;
	if (!sorted)
		qsort(s->items, s->item_count, sizeof(s->items[0]), compare_items);
}

/* The items are sorted: handle the first of them. */
static int handle_items(struct slices *s, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = handle(s, &s->items[i]);
	s->item_count -= count;
	memmove(s->items, s->items + count, s->item_count * sizeof(s->items[0]));
	return err;
}

/* The counter of a layer, or -1. */
static int32_t counter_of(struct slices *s, const struct trace_mark *mark)
{
	int index = slices_counter(s, mark->pid, mark->name, mark->name_size);

	if (index != -2)
		return index;
	/* what waits for the old ones comes first */
	sort_items(s);
	handle_items(s, s->item_count);
	slices_forget_counters(s);
	return slices_counter(s, mark->pid, mark->name, mark->name_size);
}

int slices_add(struct slices *s, const struct trace_mark *mark)
{
	struct item item = {
		.ts_ns = mark->ts_ns,
		.order = s->order++,
		.tid = mark->tid,
		.pid = mark->pid,
		.kind = (uint8_t)mark->kind,
	};

	s->counts.marks++;
	if (mark->ts_ns < 0 || mark->ts_ns >= INT64_MAX - 10 * SECOND_NS)
		return 0;
	switch (mark->kind) {
	case MARK_BEGIN:
		item.meaning = (uint8_t)slice_meaning(mark, &item.value);
		s->counts.resynced += item.meaning == MEANS_RESYNCED;
		break;
	case MARK_END:
		break;
	case MARK_COUNTER:
		item.meaning = (uint8_t)counter_meaning(mark->name, mark->name_size);
		item.value = mark->value;
		if (item.meaning == MEANS_OTHER)
			return 0;
		if (item.meaning == MEANS_BUFFER_COUNT || item.meaning == MEANS_MAYBE_BUFFERS) {
			item.pid = counter_of(s, mark);
			if (item.pid < 0)
				return 0;
		}
		break;
	default:
		return 0;
	}
	if (mark->ts_ns > s->newest_ns)
		s->newest_ns = mark->ts_ns;
	s->items[s->item_count++] = item;
	if (s->item_count < WINDOW)
		return 0;
	sort_items(s);
	return handle_items(s, WINDOW / 2);
}

int64_t slices_newest(const struct slices *s)
{
	return s->newest_ns;
}

int slices_settle(struct slices *s, int64_t before_ns)
{
	struct app *app, *next;
	size_t count = 0;
	int err;

	sort_items(s);
	while (count < s->item_count && s->items[count].ts_ns < before_ns)
		count++;
	err = handle_items(s, count);
	HASH_ITER (hh, s->apps, app, next) {
		/* cppcheck-suppress uninitvar ; HASH_ITER sets it */
		slices_settle_app(s, app, before_ns);
	}
	return err;
}

int slices_finish(struct slices *s)
{
	struct app *app, *next;
	int err;

	sort_items(s);
	err = handle_items(s, s->item_count);
	HASH_ITER (hh, s->apps, app, next) {
		/* cppcheck-suppress uninitvar ; HASH_ITER sets it */
		if (!err)
			err = slices_app_finish(s, app);
	}
	slices_finish_edges(s);
	return err;
}

struct sm *slices_sm(struct slices *s, int32_t pid)
{
	struct app *app = slices_app(s, pid, false);

	return app && app->sm.evaluations ? &app->sm : NULL;
}

const struct slices_counts *slices_counts(const struct slices *s)
{
	return &s->counts;
}

int64_t slices_period(const struct slices *s)
{
	return s->stated_period_ns ? s->stated_period_ns : s->period_ns;
}
