/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/slices.h"
#include "frames/period.h"
#include "trace/atrace.h"
#include "util/hash.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#ifdef FRAMES_SMALL_WINDOWS /* as in timeline.c */
#define WINDOW 64
#else
#define WINDOW 65536 /* markers that wait to be sorted */
#endif
#define MAX_THREADS  8192
#define MAX_DEPTH    32
#define MAX_APPS     1024
#define MAX_COUNTERS 1024
#define MAX_NAME     512
#define PENDING      8    /* doFrames that wait for their DrawFrame */
#define STARTS       4096 /* doFrame starts that are remembered */
#define EDGES        256
#define SECOND_NS    1000000000LL
#define SNAP_NS      100000000LL /* an edge further back says nothing about the grid */

enum mark_meaning {
	MEANS_OTHER = 0,
	MEANS_DO_FRAME,
	MEANS_DRAW_FRAME,
	MEANS_QUEUE_BUFFER,
	MEANS_VSYNC_APP,
	MEANS_VSYNC_SF,
	MEANS_VSYNC_HW,
	MEANS_BUFFER_COUNT,
	MEANS_PERIOD,
};

struct item {
	int64_t ts_ns, value; /* id of a slice, value of a counter */
	uint64_t order;
	int32_t tid, pid; /* pid of a buffer counter: its index */
	uint8_t kind, meaning;
};

struct open_slice {
	int64_t start_ns, id;
	uint8_t meaning;
};

struct thread {
	int32_t tid, pid;
	uint32_t depth, capacity; /* depth counts slices that found no room too */
	struct open_slice *stack;
	int64_t queued_ns; /* end of the last queueBuffer inside the open DrawFrame; 0: none */
	UT_hash_handle hh;
};

struct app {
	int32_t pid;
	struct sm sm;
	int64_t next_tick_ns;
	struct app_slice pending[PENDING];
	unsigned pending_count;
	bool draws;
	UT_hash_handle hh;
};

struct counter {
	uint64_t hash;
	int32_t pid;
	char *name;
	bool seen;
	int64_t value, last_ns;
};

struct start {
	int64_t ts_ns;
	int32_t pid;
};

struct slices {
	const struct slices_ops *ops;
	void *ctx;
	struct item *items;
	size_t item_count;
	uint64_t order;
	int64_t newest_ns;
	struct thread *threads;
	struct app *apps;
	struct counter *counters;
	size_t counter_count;
	uint16_t *counter_table; /* index + 1 */
	struct start *starts;
	uint64_t start_count;
	int64_t edges[EDGES], app_edges[EDGES]; /* rings of times */
	uint64_t edge_count, app_edge_count;
	int64_t last_edge_ns, period_ns, stated_period_ns;
	struct slices_counts counts;
};

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
	s->counter_table = calloc((size_t)4 * MAX_COUNTERS, sizeof(*s->counter_table));
	s->starts = malloc(STARTS * sizeof(*s->starts));
	if (!s->items || !s->counters || !s->counter_table || !s->starts) {
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
		HASH_DEL(s->apps, app);
		sm_free(&app->sm);
		free(app);
	}
	for (size_t i = 0; i < s->counter_count; i++)
		free(s->counters[i].name);
	free(s->counters);
	free(s->counter_table);
	free(s->starts);
	free(s->items);
	free(s);
}

/* ---- what a name means ---- */

static bool starts_with(const char *name, size_t size, const char *word)
{
	size_t n = strlen(word);

	return size >= n && !memcmp(name, word, n);
}

/* "Choreographer#doFrame", "Choreographer#doFrame 123 ..." but not "... - resynced to 123", which
 * Android 16 nests inside the real one. */
static uint8_t slice_meaning(struct slices *s, const struct trace_mark *mark, int64_t *id)
{
	static const char do_frame[] = "Choreographer#doFrame", draw[] = "DrawFrame";
	const char *name = mark->name;
	size_t size = mark->name_size, word;

	*id = -1;
	if (starts_with(name, size, do_frame)) {
		word = sizeof(do_frame) - 1;
		if (size > word + 2 && !memcmp(name + word, " - ", 3)) {
			s->counts.resynced++;
			return MEANS_OTHER;
		}
		if (size > word && name[word] != ' ')
			return MEANS_OTHER;
		atrace_slice_id(name, size, word, id);
		return MEANS_DO_FRAME;
	}
	if (starts_with(name, size, draw)) {
		word = sizeof(draw) - 1;
		word += size > word && name[word] == 's';
		if (size > word && name[word] != ' ')
			return MEANS_OTHER;
		atrace_slice_id(name, size, word, id);
		return MEANS_DRAW_FRAME;
	}
	if (starts_with(name, size, "queueBuffer") || starts_with(name, size, "eglSwapBuffers"))
		return MEANS_QUEUE_BUFFER;
	return MEANS_OTHER;
}

/* SurfaceFlinger's name for the buffers that wait on a layer: "BufferTX - name#id" since Android
 * 12, "name#n" before, the bare name of a window before 4.4. */
static bool is_buffer_counter(const char *name, size_t size)
{
	const char *hash;

	if (starts_with(name, size, "BufferTX - "))
		return true;
	if (starts_with(name, size, "TX - ") || starts_with(name, size, "QueuedBuffer - ") ||
	    starts_with(name, size, "wq:") || starts_with(name, size, "oq:"))
		return false;
	hash = memrchr(name, '#', size);
	if (hash && hash + 1 < name + size) {
		for (const char *c = hash + 1; c < name + size; c++) {
			if (*c < '0' || *c > '9')
				return false;
		}
		return true;
	}
	return memchr(name, '/', size) && memchr(name, '.', size) && !memchr(name, ' ', size);
}

static void sort_items(struct slices *s);
static int handle_items(struct slices *s, size_t count);

/* Layers come and go for days: forget them all, after what waits for them was handled. */
static void forget_counters(struct slices *s)
{
	sort_items(s);
	handle_items(s, s->item_count);
	for (size_t i = 0; i < s->counter_count; i++)
		free(s->counters[i].name);
	memset(s->counters, 0, s->counter_count * sizeof(*s->counters));
	memset(s->counter_table, 0, (size_t)4 * MAX_COUNTERS * sizeof(*s->counter_table));
	s->counter_count = 0;
}

static int counter_index(struct slices *s, int32_t pid, const char *name, size_t size)
{
	uint64_t hash = hash_bytes(name, size, (uint32_t)pid);
	size_t at = hash % ((size_t)4 * MAX_COUNTERS);
	struct counter *counter;

	for (; s->counter_table[at]; at = (at + 1) % ((size_t)4 * MAX_COUNTERS)) {
		counter = &s->counters[s->counter_table[at] - 1];
		if (counter->hash == hash && counter->pid == pid)
			return s->counter_table[at] - 1;
	}
	if (s->counter_count == MAX_COUNTERS) {
		forget_counters(s);
		at = hash % ((size_t)4 * MAX_COUNTERS);
	}
	counter = &s->counters[s->counter_count];
	counter->name = strndup(name, size);
	if (!counter->name)
		return -1;
	counter->hash = hash;
	counter->pid = pid;
	s->counter_table[at] = (uint16_t)++s->counter_count;
	return (int)s->counter_count - 1;
}

static uint8_t counter_meaning(struct slices *s, const struct trace_mark *mark, int32_t *index)
{
	const char *name = mark->name;
	size_t size = mark->name_size;

	if (starts_with(name, size, "VSYNC")) {
		if ((size == 9 && !memcmp(name, "VSYNC-app", 9)) || size == 5)
			return MEANS_VSYNC_APP;
		return size == 8 && !memcmp(name, "VSYNC-sf", 8) ? MEANS_VSYNC_SF : MEANS_OTHER;
	}
	if (starts_with(name, size, "HW_VSYNC_ON"))
		return MEANS_OTHER;
	if (starts_with(name, size, "HW_VSYNC"))
		return MEANS_VSYNC_HW;
	if (starts_with(name, size, "VSP-period"))
		return MEANS_PERIOD;
	if (size > MAX_NAME || !is_buffer_counter(name, size))
		return MEANS_OTHER;
	*index = counter_index(s, mark->pid, name, size);
	return *index < 0 ? MEANS_OTHER : MEANS_BUFFER_COUNT;
}

/* ---- sorted markers ---- */

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

static struct app *app_of(struct slices *s, int32_t pid, bool create)
{
	struct app *app;

	HASH_FIND_INT(s->apps, &pid, app);
	if (app || !create)
		return app;
	if (HASH_COUNT(s->apps) >= MAX_APPS) {
		/* the one that was met first */
		struct app *oldest = s->apps;

		HASH_DEL(s->apps, oldest);
		sm_free(&oldest->sm);
		free(oldest);
	}
	app = calloc(1, sizeof(*app));
	if (!app)
		return NULL;
	app->pid = pid;
	HASH_ADD_INT(s->apps, pid, app);
	return app;
}

static int64_t period_or_default(const struct slices *s)
{
	if (s->stated_period_ns)
		return s->stated_period_ns;
	return s->period_ns ? s->period_ns : PERIOD_ASSUMED_NS;
}

/* The period of the last edges, in times that need not be regular. */
static int64_t period_of_edges(const int64_t *ring, uint64_t count)
{
	int64_t times[EDGES];
	size_t n = count < EDGES ? (size_t)count : EDGES;

	memcpy(times, ring, n * sizeof(times[0]));
	n = period_sort(times, n);
	return period_global(times, n);
}

static void add_edge(struct slices *s, int64_t ts_ns, bool app)
{
	int64_t *ring = app ? s->app_edges : s->edges;
	uint64_t *count = app ? &s->app_edge_count : &s->edge_count;

	ring[(*count)++ % EDGES] = ts_ns;
	if (!app)
		s->last_edge_ns = ts_ns;
	else if (!s->edge_count)
		s->last_edge_ns = ts_ns;
	if (*count >= 8 && *count % 16 == 8)
		s->period_ns = s->edge_count >= 8 ? period_of_edges(s->edges, s->edge_count)
						  : period_of_edges(ring, *count);
	if (s->ops->vsync)
		s->ops->vsync(s->ctx, ts_ns);
}

/* GT's callback would run at each refresh when the main thread is free, and at the end of what
 * it does when it is busy at that moment. */
static int run_ticks(struct slices *s, struct app *app, int64_t busy_ns, int64_t free_ns)
{
	int64_t period_ns = period_or_default(s), next = app->next_tick_ns;
	int err = 0;

	if (!app->sm.started)
		return 0;
	if (busy_ns - next > 2 * SECOND_NS) {
		/* a long idle time: only its last second is played tick by tick */
		int64_t skipped = (busy_ns - next - SECOND_NS) / period_ns;

		next += skipped * period_ns;
		err = sm_idle(&app->sm, next, (uint64_t)skipped,
			      (unsigned)((SECOND_NS + period_ns / 2) / period_ns));
	}
	while (!err && next < busy_ns) {
		err = sm_add(&app->sm, next);
		next += period_ns;
	}
	if (!err && next < free_ns) {
		err = sm_add(&app->sm, free_ns);
		next += (free_ns - next + period_ns - 1) / period_ns * period_ns;
	}
	app->next_tick_ns = next;
	return err;
}

static int main_thread_free(struct slices *s, const struct thread *thread, int64_t start_ns,
			    int64_t end_ns, bool do_frame)
{
	struct app *app = app_of(s, thread->pid, do_frame);

	if (!app)
		return 0;
	if (do_frame && !app->sm.started) {
		app->next_tick_ns = start_ns + period_or_default(s);
		return sm_add(&app->sm, start_ns);
	}
	return run_ticks(s, app, start_ns, end_ns);
}

static void emit_pending(struct slices *s, struct app *app, unsigned n, int64_t end_ns)
{
	const struct app_slice *slice = &app->pending[n];

	if (s->ops->app_frame)
		s->ops->app_frame(s->ctx, app->pid, slice->start_ns,
				  end_ns ? end_ns : slice->end_ns);
}

static void drop_pending(struct app *app, unsigned n)
{
	app->pending_count--;
	memmove(app->pending + n, app->pending + n + 1,
		(app->pending_count - n) * sizeof(app->pending[0]));
}

static void do_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	struct app *app = app_of(s, thread->pid, true);

	s->counts.do_frames++;
	if (s->ops->do_frame)
		s->ops->do_frame(s->ctx, slice);
	if (!app)
		return;
	if (app->pending_count == PENDING) {
		/* without render thread (software drawing) the frame is the doFrame */
		if (!app->draws)
			emit_pending(s, app, 0, 0);
		drop_pending(app, 0);
	}
	app->pending[app->pending_count++] = *slice;
}

static void draw_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	struct app *app = app_of(s, thread->pid, false);
	unsigned n = 0;

	s->counts.draw_frames++;
	if (s->ops->draw_frame)
		s->ops->draw_frame(s->ctx, slice);
	if (!app)
		return;
	app->draws = true;
	/* by its id, else the oldest that began before it */
	while (n < app->pending_count) {
		if (slice->id >= 0 ? app->pending[n].id == slice->id
				   : app->pending[n].start_ns <= slice->start_ns)
			break;
		n++;
	}
	if (n == app->pending_count)
		return;
	emit_pending(s, app, n,
		     thread->queued_ns > slice->start_ns ? thread->queued_ns : slice->end_ns);
	drop_pending(app, n);
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
	if (item->meaning == MEANS_DO_FRAME)
		s->starts[s->start_count++ % STARTS] = (struct start){item->ts_ns, item->pid};
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
	slice = (struct app_slice){thread->pid, thread->tid, open->id, open->start_ns, item->ts_ns};
	switch (open->meaning) {
	case MEANS_DO_FRAME:
		do_frame_ended(s, thread, &slice);
		nested_do_frame = true;
		break;
	case MEANS_DRAW_FRAME:
		draw_frame_ended(s, thread, &slice);
		thread->queued_ns = 0;
		break;
	case MEANS_QUEUE_BUFFER:
		thread->queued_ns = item->ts_ns;
		break;
	}
	if (thread->depth == 0 && thread->tid == thread->pid)
		return main_thread_free(s, thread, slice.start_ns, slice.end_ns, nested_do_frame);
	/* a doFrame inside onVsync makes the process known as one with frames */
	if (nested_do_frame && thread->tid == thread->pid) {
		struct app *app = app_of(s, thread->pid, true);

		if (app && !app->sm.started) {
			app->next_tick_ns = slice.start_ns + period_or_default(s);
			return sm_add(&app->sm, slice.start_ns);
		}
	}
	return 0;
}

/* Whether an app began a frame right after a latch, so that the next one was due. */
static bool frame_began(const struct slices *s, int64_t from_ns, int64_t to_ns)
{
	uint64_t n = s->start_count < STARTS ? s->start_count : STARTS;

	for (uint64_t i = 0; i < n; i++) {
		const struct start *start = &s->starts[(s->start_count - 1 - i) % STARTS];

		if (start->ts_ns < from_ns)
			break;
		if (start->ts_ns < to_ns)
			return true;
	}
	return false;
}

static void buffer_counter(struct slices *s, const struct item *item)
{
	struct counter *counter = &s->counters[item->pid];
	int64_t taken = counter->value - item->value, present_ns = item->ts_ns;
	int64_t period_ns = period_or_default(s);
	bool due;

	if (!counter->seen || taken <= 0) {
		counter->seen = true;
		counter->value = item->value;
		return;
	}
	counter->value = item->value;
	s->counts.latches++;
	s->counts.dropped_buffers += (uint64_t)taken - 1;
	/* shown at the refresh after the latch */
	if (s->last_edge_ns && present_ns >= s->last_edge_ns &&
	    present_ns - s->last_edge_ns < SNAP_NS)
		present_ns = s->last_edge_ns +
			     ((present_ns - s->last_edge_ns) / period_ns + 1) * period_ns;
	due = counter->last_ns &&
	      frame_began(s, counter->last_ns, counter->last_ns + 2 * period_ns);
	counter->last_ns = item->ts_ns;
	if (s->ops->latch)
		s->ops->latch(s->ctx, counter->pid, counter->name, present_ns, due);
}

static int handle(struct slices *s, const struct item *item)
{
	switch (item->kind) {
	case MARK_BEGIN:
		return slice_begins(s, item);
	case MARK_END:
		return slice_ends(s, item);
	case MARK_COUNTER:
		switch (item->meaning) {
		case MEANS_VSYNC_APP:
			add_edge(s, item->ts_ns, true);
			break;
		case MEANS_VSYNC_SF:
			add_edge(s, item->ts_ns, false);
			break;
		case MEANS_PERIOD:
			if (item->value >= PERIOD_SHORTEST_NS && item->value < SECOND_NS)
				s->stated_period_ns = item->value;
			break;
		case MEANS_BUFFER_COUNT:
			buffer_counter(s, item);
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

int slices_add(struct slices *s, const struct trace_mark *mark)
{
	struct item item = {
		.ts_ns = mark->ts_ns,
		.order = s->order++,
		.tid = mark->tid,
		.pid = mark->pid,
		.kind = (uint8_t)mark->kind,
	};
	int32_t index = mark->pid;

	s->counts.marks++;
	if (mark->ts_ns < 0 || mark->ts_ns >= INT64_MAX - 10 * SECOND_NS)
		return 0;
	switch (mark->kind) {
	case MARK_BEGIN:
		item.meaning = slice_meaning(s, mark, &item.value);
		break;
	case MARK_END:
		break;
	case MARK_COUNTER:
		item.meaning = counter_meaning(s, mark, &index);
		item.pid = index;
		item.value = mark->value;
		if (item.meaning == MEANS_OTHER)
			return 0;
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
	size_t count = 0;

	sort_items(s);
	while (count < s->item_count && s->items[count].ts_ns < before_ns)
		count++;
	return handle_items(s, count);
}

int slices_finish(struct slices *s)
{
	struct app *app, *next;
	int err;

	sort_items(s);
	err = handle_items(s, s->item_count);
	HASH_ITER (hh, s->apps, app, next) {
		/* cppcheck-suppress uninitvar ; HASH_ITER sets it */
		while (app->pending_count && !app->draws) {
			emit_pending(s, app, 0, 0);
			drop_pending(app, 0);
		}
		if (!err)
			err = sm_finish(&app->sm);
	}
	if (!s->period_ns && s->edge_count + s->app_edge_count > 2)
		s->period_ns = s->edge_count > s->app_edge_count
				       ? period_of_edges(s->edges, s->edge_count)
				       : period_of_edges(s->app_edges, s->app_edge_count);
	return err;
}

struct sm *slices_sm(struct slices *s, int32_t pid)
{
	struct app *app = app_of(s, pid, false);

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
