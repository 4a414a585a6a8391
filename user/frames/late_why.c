/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/late_why_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "trace/reader.h"

#define BEHIND_NS 20000000LL  /* events behind a window tell how its last state ended */
#define MAX_TIME  (1LL << 61) /* differences of two of them fit */

struct late_why *late_why_new(void)
{
	struct late_why *why = calloc(1, sizeof(*why));

	if (!why)
		return NULL;
	why->threads = thread_table_new();
	if (!why->threads) {
		free(why);
		return NULL;
	}
	return why;
}

void late_why_free(struct late_why *why)
{
	if (!why)
		return;
	for (size_t i = 0; i < why->crew_count; i++)
		free(why->crews[i].windows);
	free(why->display.windows);
	free(why->crews);
	free(why->frames);
	free(why->by_key);
	free(why->by_time);
	sched_log_free(why->log);
	slices_free(why->slices);
	thread_table_free(why->threads);
	free(why);
}

struct thread_table *late_why_threads(struct late_why *why)
{
	return why->threads;
}

static int64_t clamp(int64_t ns)
{
	return ns > MAX_TIME ? MAX_TIME : ns < -MAX_TIME ? -MAX_TIME : ns;
}

void late_why_frame(void *ctx, const struct timeline_late *row)
{
	struct late_why *why = ctx;
	struct late late = {.row = *row, .handed_ns = WHY_NO_TIME, .queued_ns = WHY_NO_TIME};

	if (why->count == LATE_WHY_FRAMES) {
		why->frames_lost++;
		return;
	}
	if (why->count == why->capacity) {
		size_t capacity = why->capacity ? why->capacity * 2 : 64;
		struct late *frames = realloc(why->frames, capacity * sizeof(*frames));

		if (!frames) {
			why->err = -ENOMEM;
			return;
		}
		why->frames = frames;
		why->capacity = capacity;
	}
	/* a frame of doFrame and DrawFrame alone ends where its buffer was queued */
	late.key = row->is_row ? row->token : row->start_ns;
	if (!row->is_row)
		late.queued_ns = row->end_ns;
	/* of any window that the rule may look at */
	late.begin_ns = clamp(row->start_ns);
	late.end_ns = clamp(row->end_ns);
	if (row->expected_start_ns != TIMELINE_NONE && row->expected_start_ns < late.begin_ns)
		late.begin_ns = clamp(row->expected_start_ns);
	if (row->present_ns != TIMELINE_NONE && row->present_ns > late.end_ns)
		late.end_ns = clamp(row->present_ns);
	why->frames[why->count++] = late;
}

static int by_process(const void *a, const void *b)
{
	const struct late *x = a, *y = b;

	if (x->row.pid != y->row.pid)
		return x->row.pid < y->row.pid ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->row.layer < y->row.layer ? -1 : x->row.layer > y->row.layer;
}

static int by_key(const void *a, const void *b)
{
	const struct late *x = *(struct late *const *)a, *y = *(struct late *const *)b;

	if (x->row.pid != y->row.pid)
		return x->row.pid < y->row.pid ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_start(const void *a, const void *b)
{
	const struct late *x = *(struct late *const *)a, *y = *(struct late *const *)b;

	if (x->row.start_ns != y->row.start_ns)
		return x->row.start_ns < y->row.start_ns ? -1 : 1;
	return by_process(x, y);
}

static int by_begin(const void *a, const void *b)
{
	const struct sched_window *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* Windows that touch become one. */
static size_t join_windows(struct sched_window *windows, size_t count)
{
	size_t kept = 0;

	qsort(windows, count, sizeof(*windows), by_begin);
	for (size_t i = 0; i < count; i++) {
		if (!kept || windows[i].begin_ns > windows[kept - 1].end_ns)
			windows[kept++] = windows[i];
		else if (windows[i].end_ns > windows[kept - 1].end_ns)
			windows[kept - 1].end_ns = windows[i].end_ns;
	}
	return kept;
}

static int windows_of(struct crew *crew, const struct late *frames, size_t count)
{
	crew->windows = calloc(count ? count : 1, sizeof(*crew->windows));
	if (!crew->windows)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		crew->windows[i] =
			(struct sched_window){frames[i].begin_ns, frames[i].end_ns + BEHIND_NS};
	crew->window_count = join_windows(crew->windows, count);
	return 0;
}

static bool has_member(const struct crew *crew, int32_t tid)
{
	for (size_t i = 0; i < crew->count; i++)
		if (crew->members[i].tid == tid)
			return true;
	return false;
}

static void add_member(struct crew *crew, int32_t tid, int32_t pid, enum jank_role role)
{
	if (crew->count < MAX_CREW && tid > 0 && !has_member(crew, tid))
		crew->members[crew->count++] = (struct member){tid, pid, role};
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* The lowest thread ids first: the order does not depend on that of the file. */
static int by_tid(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

struct crew *late_why_crew(struct late_why *why, int32_t pid)
{
	size_t low = 0, high = why->crew_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (why->crews[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < why->crew_count && why->crews[low].pid == pid ? &why->crews[low] : NULL;
}

bool late_why_is_display(const struct late_why *why, int32_t pid)
{
	return has_member(&why->display, pid);
}

/* The composer HAL has its name from its interface; its threads, from Binder. */
static void find_display(struct late_why *why)
{
	const struct spell_thread *thread = NULL;
	const char *name;

	while ((thread = thread_table_next(why->threads, thread))) {
		if (thread->tid != thread->tgid)
			continue;
		name = analysis_process(why->analysis, thread->tid);
		if (!strcmp(thread->comm, "surfaceflinger"))
			add_member(&why->display, thread->tid, thread->tid, JANK_ROLE_SF_MAIN);
		else if (name &&
			 (strstr(name, "hardware.graphics.composer") || strstr(name, "hwcomposer")))
			add_member(&why->hal, thread->tid, thread->tid, JANK_ROLE_HWC);
	}
	while ((thread = thread_table_next(why->threads, thread))) {
		if (late_why_is_display(why, thread->tgid) && begins(thread->comm, "RenderEngine"))
			add_member(&why->display, thread->tid, thread->tgid,
				   JANK_ROLE_RENDER_ENGINE);
		else if (has_member(&why->hal, thread->tgid))
			add_member(&why->hal, thread->tid, thread->tgid, JANK_ROLE_HWC);
	}
}

static void find_crews(struct late_why *why)
{
	const struct spell_thread *thread = NULL;
	struct crew *crew;

	for (size_t i = 0; i < why->crew_count; i++) {
		crew = &why->crews[i];
		add_member(crew, crew->pid, crew->pid, JANK_ROLE_MAIN);
		add_member(crew, analysis_renderer(why->analysis, crew->pid), crew->pid,
			   JANK_ROLE_RENDER);
	}
	while ((thread = thread_table_next(why->threads, thread))) {
		crew = late_why_crew(why, thread->tgid);
		/* a process may have others of that name (WebView): slices tell which one draws */
		if (crew && thread_was_called(thread, "RenderThread") &&
		    !analysis_renderer(why->analysis, crew->pid))
			add_member(crew, thread->tid, crew->pid, JANK_ROLE_RENDER);
		else if (crew && begins(thread->comm, "hwuiTask"))
			add_member(crew, thread->tid, crew->pid, JANK_ROLE_HWUI_TASK);
	}
	find_display(why);
	for (size_t i = 0; i < why->crew_count; i++)
		qsort(why->crews[i].members, why->crews[i].count, sizeof(struct member), by_tid);
	qsort(why->display.members, why->display.count, sizeof(struct member), by_tid);
	qsort(why->hal.members, why->hal.count, sizeof(struct member), by_tid);
}

static int watch(struct late_why *why, const struct crew *crew, const struct sched_window *windows,
		 size_t count)
{
	int err = 0;

	for (size_t i = 0; i < crew->count && !err; i++)
		err = sched_log_watch(why->log, crew->members[i].tid, windows, count);
	return err;
}

static int make_crews(struct late_why *why)
{
	size_t first = 0;

	why->crews = calloc(why->count ? why->count : 1, sizeof(*why->crews));
	if (!why->crews || windows_of(&why->display, why->frames, why->count))
		return -ENOMEM;
	for (size_t i = 0; i < why->count; i++) {
		if (i + 1 < why->count && why->frames[i + 1].row.pid == why->frames[i].row.pid)
			continue;
		if (windows_of(&why->crews[why->crew_count], &why->frames[first], i + 1 - first))
			return -ENOMEM;
		why->crews[why->crew_count++].pid = why->frames[i].row.pid;
		first = i + 1;
	}
	return 0;
}

int late_why_plan(struct late_why *why, const struct analysis *analysis,
		  const struct trace_reader *first)
{
	size_t kept = 0;
	int err;

	why->analysis = analysis;
	for (size_t i = 0; i < why->count; i++) {
		const struct timeline_late *row = &why->frames[i].row;

		/* where FrameTimeline knows the frames, it knows them better */
		if (analysis_wants_layer(analysis, row->layer) &&
		    (row->is_row || !analysis_counts(analysis)->actual))
			why->frames[kept++] = why->frames[i];
	}
	why->count = kept;
	if (kept)
		qsort(why->frames, kept, sizeof(*why->frames), by_process);
	why->by_key = calloc(kept + 1, sizeof(struct late *));
	why->by_time = calloc(kept + 1, sizeof(struct late *));
	if (why->err || !why->by_key || !why->by_time || make_crews(why))
		return -ENOMEM;
	for (size_t i = 0; first && i < kept; i++)
		why->frames[i].clock_error_ns = trace_reader_clock_error(
			first, why->frames[i].begin_ns, why->frames[i].end_ns);
	for (size_t i = 0; i < kept; i++)
		why->by_key[i] = why->by_time[i] = &why->frames[i];
	qsort(why->by_key, kept, sizeof(struct late *), by_key);
	qsort(why->by_time, kept, sizeof(struct late *), by_start);
	find_crews(why);
	why->slices = slices_new(late_why_slices(), why);
	why->log = sched_log_new(why->display.windows, why->display.window_count, why->threads);
	if (!why->slices || !why->log)
		return -ENOMEM;
	err = watch(why, &why->display, why->display.windows, why->display.window_count);
	if (!err)
		err = watch(why, &why->hal, why->display.windows, why->display.window_count);
	for (size_t i = 0; i < why->crew_count && !err; i++)
		/* SurfaceFlinger draws layers of its own: its threads are watched already */
		if (!late_why_is_display(why, why->crews[i].pid))
			err = watch(why, &why->crews[i], why->crews[i].windows,
				    why->crews[i].window_count);
	return err;
}

size_t late_why_count(const struct late_why *why)
{
	return why->count;
}

bool late_why_wants(const struct late_why *why, int64_t first_ns)
{
	const struct crew *all = &why->display;

	return all->window_count && first_ns < all->windows[all->window_count - 1].end_ns;
}

int late_why_finish(struct late_why *why)
{
	int err = slices_finish(why->slices);

	if (!err)
		err = sched_log_finish(why->log);
	return err ? err : why->err;
}

struct late_why_counts late_why_counts(const struct late_why *why)
{
	const struct sched_log_counts *log = sched_log_counts(why->log);

	return (struct late_why_counts){
		.switches = log->switches,
		.frames_lost = why->frames_lost,
		.events_lost = log->lost,
		.names_lost = thread_table_lost(why->threads),
		.gaps = log->gaps,
	};
}
