/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/late_why.h"
#include "frames/slice_names.h"
#include "why/tell.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CREW   16          /* threads that make the frames of one process */
#define BEHIND_NS  20000000LL  /* events behind a window tell how its last state ended */
#define WORK_LIMIT 67108864    /* spells, of all frames: some seconds */
#define QUEUES     64          /* threads whose last queueBuffer is remembered */
#define MAX_TIME   (1LL << 61) /* differences of two of them fit */

struct crew {
	int32_t pid;
	struct member {
		int32_t tid;
		enum jank_role role;
	} members[MAX_CREW];
	size_t count;
	struct sched_window *windows;
	size_t window_count;
};

struct late {
	struct timeline_late row;
	int64_t begin_ns, end_ns, handed_ns, queued_ns;
};

struct late_why {
	struct late *frames; /* sorted by process and time, once they are planned */
	size_t count, capacity;
	uint64_t frames_lost;
	struct thread_table *threads;
	const struct analysis *analysis;
	struct crew *crews; /* one a process with late frames */
	size_t crew_count;
	struct crew display; /* SurfaceFlinger's; its windows are all */
	struct late **by_token, **by_time;
	struct slices *slices;
	struct sched_log *log;
	struct {
		int32_t tid;
		int64_t end_ns;
	} queued[QUEUES];
	int err;
};

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
	free(why->by_token);
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

static int by_token(const void *a, const void *b)
{
	const struct late *x = *(struct late *const *)a, *y = *(struct late *const *)b;

	if (x->row.pid != y->row.pid)
		return x->row.pid < y->row.pid ? -1 : 1;
	return x->row.token < y->row.token ? -1 : x->row.token > y->row.token;
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

static void add_member(struct crew *crew, int32_t tid, enum jank_role role)
{
	for (size_t i = 0; i < crew->count; i++)
		if (crew->members[i].tid == tid)
			return;
	if (crew->count < MAX_CREW && tid > 0)
		crew->members[crew->count++] = (struct member){tid, role};
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

static struct crew *crew_of(struct late_why *why, int32_t pid)
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

static void find_crews(struct late_why *why)
{
	const struct spell_thread *thread = NULL;
	struct crew *crew;

	for (size_t i = 0; i < why->crew_count; i++) {
		crew = &why->crews[i];
		add_member(crew, crew->pid, JANK_ROLE_MAIN);
		add_member(crew, analysis_renderer(why->analysis, crew->pid), JANK_ROLE_RENDER);
	}
	while ((thread = thread_table_next(why->threads, thread))) {
		crew = crew_of(why, thread->tgid);
		/* a process may have others of that name (WebView): slices tell which one draws */
		if (crew && !strcmp(thread->comm, "RenderThread") &&
		    !analysis_renderer(why->analysis, crew->pid))
			add_member(crew, thread->tid, JANK_ROLE_RENDER);
		else if (crew && begins(thread->comm, "hwuiTask"))
			add_member(crew, thread->tid, JANK_ROLE_HWUI_TASK);
		if (thread->tid == thread->tgid && !strcmp(thread->comm, "surfaceflinger") &&
		    thread->tid > why->display.pid)
			why->display.pid = thread->tid;
	}
	if (why->display.pid)
		add_member(&why->display, why->display.pid, JANK_ROLE_SF_MAIN);
	while (why->display.pid && (thread = thread_table_next(why->threads, thread)))
		if (thread->tgid == why->display.pid && begins(thread->comm, "RenderEngine"))
			add_member(&why->display, thread->tid, JANK_ROLE_RENDER_ENGINE);
	for (size_t i = 0; i < why->crew_count; i++)
		qsort(why->crews[i].members, why->crews[i].count, sizeof(struct member), by_tid);
	qsort(why->display.members, why->display.count, sizeof(struct member), by_tid);
}

static int watch(struct late_why *why, const struct crew *crew, const struct sched_window *windows,
		 size_t count)
{
	int err = 0;

	for (size_t i = 0; i < crew->count && !err; i++)
		err = sched_log_watch(why->log, crew->members[i].tid, windows, count);
	return err;
}

static void on_slice(void *ctx, const struct app_slice *slice)
{
	struct late_why *why = ctx;
	struct sched_span span = {slice->start_ns, slice->end_ns, slice->tid, 0};

	switch (slice->meaning) {
	case MEANS_QUEUE_BUFFER:
		why->queued[(uint32_t)slice->tid % QUEUES].tid = slice->tid;
		why->queued[(uint32_t)slice->tid % QUEUES].end_ns = slice->end_ns;
		return;
	case MEANS_LOCK:
		span.reason = LOOPER_REASON_FUTEX;
		break;
	case MEANS_GPU_WAIT:
		span.reason = SPELL_REASON_GPU;
		break;
	case MEANS_DEQUEUE:
		span.reason = SPELL_REASON_BUFFER;
		break;
	case MEANS_CALL:
		span.reason = LOOPER_REASON_BINDER;
		break;
	default:
		return;
	}
	sched_log_span(why->log, &span);
}

/* The first frame of that process with that vsync id, of several layers; count: there is none. */
static size_t frame_at(const struct late_why *why, int32_t pid, int64_t token)
{
	size_t low = 0, high = why->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct timeline_late *row = &why->by_token[middle]->row;

		if (row->pid < pid || (row->pid == pid && row->token < token))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of(const struct late_why *why, size_t at, int32_t pid, int64_t token)
{
	return at < why->count && why->by_token[at]->row.pid == pid &&
	       why->by_token[at]->row.token == token;
}

/* The main thread is done with its frame. */
static void on_do_frame(void *ctx, const struct app_slice *slice)
{
	struct late_why *why = ctx;

	for (size_t i = frame_at(why, slice->pid, slice->id); is_of(why, i, slice->pid, slice->id);
	     i++)
		why->by_token[i]->handed_ns = slice->end_ns;
}

static void on_draw_frame(void *ctx, const struct app_slice *slice)
{
	struct late_why *why = ctx;
	size_t slot = (uint32_t)slice->tid % QUEUES;

	if (why->queued[slot].tid != slice->tid || why->queued[slot].end_ns < slice->start_ns)
		return;
	for (size_t i = frame_at(why, slice->pid, slice->id); is_of(why, i, slice->pid, slice->id);
	     i++)
		why->by_token[i]->queued_ns = why->queued[slot].end_ns;
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

int late_why_plan(struct late_why *why, const struct analysis *analysis)
{
	static const struct slices_ops ops = {
		.slice = on_slice, .do_frame = on_do_frame, .draw_frame = on_draw_frame};
	size_t kept = 0;
	int err;

	why->analysis = analysis;
	for (size_t i = 0; i < why->count; i++)
		if (analysis_wants_layer(analysis, why->frames[i].row.layer))
			why->frames[kept++] = why->frames[i];
	why->count = kept;
	if (kept)
		qsort(why->frames, kept, sizeof(*why->frames), by_process);
	why->by_token = calloc(kept + 1, sizeof(struct late *));
	why->by_time = calloc(kept + 1, sizeof(struct late *));
	if (why->err || !why->by_token || !why->by_time || make_crews(why))
		return -ENOMEM;
	for (size_t i = 0; i < kept; i++)
		why->by_token[i] = why->by_time[i] = &why->frames[i];
	qsort(why->by_token, kept, sizeof(struct late *), by_token);
	qsort(why->by_time, kept, sizeof(struct late *), by_start);
	find_crews(why);
	why->slices = slices_new(&ops, why);
	why->log = sched_log_new(why->display.windows, why->display.window_count, why->threads);
	if (!why->slices || !why->log)
		return -ENOMEM;
	err = watch(why, &why->display, why->display.windows, why->display.window_count);
	for (size_t i = 0; i < why->crew_count && !err; i++)
		/* SurfaceFlinger draws layers of its own: its threads are watched already */
		if (why->crews[i].pid != why->display.pid)
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

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct late_why *why = ctx;

	if (!why->err)
		why->err = slices_add(why->slices, mark);
}

static void on_switch(void *ctx, const struct trace_switch *event)
{
	sched_log_switch(((struct late_why *)ctx)->log, event);
}

static void on_wakeup(void *ctx, const struct trace_wakeup *event)
{
	sched_log_wakeup(((struct late_why *)ctx)->log, event);
}

static void on_blocked(void *ctx, const struct trace_blocked *event)
{
	sched_log_blocked(((struct late_why *)ctx)->log, event);
}

static void on_binder(void *ctx, const struct trace_binder *event)
{
	sched_log_binder(((struct late_why *)ctx)->log, event);
}

const struct trace_events *late_why_events(void)
{
	static const struct trace_events events = {
		.mark = on_mark,
		.sched_switch = on_switch,
		.wakeup = on_wakeup,
		.blocked = on_blocked,
		.binder = on_binder,
	};

	return &events;
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
		.gaps = log->gaps,
	};
}

/* The threads of one frame while it is judged. */
struct cast {
	struct why_thread threads[2 * MAX_CREW];
	struct sched_spells spells[2 * MAX_CREW];
	size_t count;
	uint64_t work;
};

static int add_crew(struct late_why *why, struct cast *cast, const struct late *late,
		    const struct crew *crew)
{
	int err = 0;

	for (size_t i = 0; i < crew->count && !err; i++) {
		const struct member *member = &crew->members[i];
		const struct spell_thread *known = thread_table_find(why->threads, member->tid);
		struct sched_spells *spells = &cast->spells[cast->count];
		struct why_thread *thread = &cast->threads[cast->count++];

		err = sched_log_spells(why->log, member->tid, late->begin_ns, late->end_ns, spells);
		*thread = (struct why_thread){
			.tid = member->tid,
			.pid = crew->pid,
			.process = analysis_process(why->analysis, crew->pid),
			.role = member->role,
			.spells = spells->items,
			.spell_count = spells->count,
		};
		if (known)
			memcpy(thread->comm, known->comm, sizeof(thread->comm));
		cast->work += spells->count;
	}
	return err;
}

static const char *why_missing(const struct sched_log_counts *counts)
{
	if (!counts->switches)
		return "the trace has no scheduler events";
	return counts->lost ? "more scheduler events than there is room for"
			    : "the trace has no scheduler events of them";
}

static int judge(struct late_why *why, struct cast *cast, const struct late *late,
		 struct record_jank *record)
{
	const struct timeline_late *row = &late->row;
	struct why_frame frame = {
		.expected_start_ns = row->expected_start_ns,
		.expected_end_ns = row->expected_end_ns,
		.actual_start_ns = row->start_ns,
		.actual_end_ns = row->end_ns,
		.present_ns = row->present_ns,
		.predicted_ns = row->predicted_ns,
		.compose_start_ns = row->compose_start_ns,
		.handed_ns = late->handed_ns,
		.queued_ns = late->queued_ns,
		.jank = row->jank,
		.dropped = row->dropped,
		.threads = cast->threads,
	};
	const struct crew *crew = crew_of(why, row->pid);
	struct why_verdict verdict;
	int err = 0;

	_Static_assert(TIMELINE_NONE == WHY_NO_TIME, "both say that a time is not known");
	cast->count = 0;
	/* threads of another machine have numbers of their own */
	if (!row->machine)
		err = add_crew(why, cast, late, crew);
	if (!err && !row->machine && row->pid != why->display.pid)
		err = add_crew(why, cast, late, &why->display);
	if (err)
		return err;
	frame.thread_count = cast->count;
	why_judge(&frame, &verdict);
	err = why_record_fill(record, &frame, &verdict, why_missing(sched_log_counts(why->log)));
	if (!err && !row->machine &&
	    sched_log_has_gap(why->log, verdict.window_start_ns, verdict.window_end_ns))
		err = counter_list_add(&record->lost, "sched_events", 1);
	return err;
}

int late_why_each(struct late_why *why, int (*visit)(void *ctx, const struct record_jank *jank),
		  void *ctx)
{
	struct cast *cast = calloc(1, sizeof(*cast));
	int err = cast ? 0 : -ENOMEM;
	char package[256], jank_type[512];

	for (size_t i = 0; i < why->count && !err; i++) {
		const struct timeline_late *row = &why->by_time[i]->row;
		const struct layer *layer = analysis_layer(why->analysis, row->layer);
		struct record_jank record = {
			.pid = row->pid,
			.package = analysis_package(why->analysis, layer, package, sizeof(package)),
			.process = row->machine ? NULL : analysis_process(why->analysis, row->pid),
			.layer = layer->name,
			.surface_frame_token = SOME_I64(row->token),
			.display_frame_token = SOME_I64(row->display_token),
			.jank_type = timeline_jank_text(row->jank, jank_type, sizeof(jank_type)),
		};

		if (cast->work > WORK_LIMIT) {
			why->frames_lost += why->count - i;
			break;
		}
		err = judge(why, cast, why->by_time[i], &record);
		if (!err)
			err = visit(ctx, &record);
		why_record_free(&record);
	}
	for (size_t i = 0; cast && i < 2 * MAX_CREW; i++)
		free(cast->spells[i].items);
	free(cast);
	return err;
}
