/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/late.h"
#include "frames/slices.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHANGES 16384        /* of one thread around one frame */
#define BEFORE_NS   1000000000LL /* the state at the start comes from events before it */
#define AFTER_NS    200000000LL

enum thread_state { STATE_UNKNOWN, STATE_RUNNING, STATE_RUNNABLE, STATE_SLEEPING, STATE_BLOCKED };

struct change {
	int64_t ts_ns;
	uint32_t order;
	uint8_t state;
};

/* State changes of one thread around one frame. */
struct line {
	int32_t tid; /* -1: not known */
	struct change *changes;
	size_t count, capacity;
};

struct watch {
	struct late_frame *frame;
	struct line main, render;
};

struct late {
	struct watch *watches;
	size_t count;
	struct slices *slices;
	uint32_t order;
	int64_t first_ns, last_ns;
	int err;
};

static void on_do_frame(void *ctx, const struct app_slice *slice)
{
	struct late *late = ctx;

	for (size_t i = 0; i < late->count; i++) {
		struct late_frame *frame = late->watches[i].frame;

		if (slice->pid != frame->pid || frame->has_do_frame)
			continue;
		/* by its id, or before Android 12 by its time */
		if (slice->id >= 0 && frame->token >= 0
			    ? slice->id != frame->token
			    : slice->start_ns > frame->end_ns || slice->end_ns < frame->start_ns)
			continue;
		frame->has_do_frame = true;
		frame->do_frame_ns = slice->end_ns - slice->start_ns;
	}
}

static void on_draw_frame(void *ctx, const struct app_slice *slice)
{
	struct late *late = ctx;

	for (size_t i = 0; i < late->count; i++) {
		struct late_frame *frame = late->watches[i].frame;

		if (slice->pid != frame->pid || frame->has_draw_frame)
			continue;
		if (slice->id >= 0 && frame->token >= 0
			    ? slice->id != frame->token
			    : slice->start_ns > frame->end_ns || slice->end_ns < frame->start_ns)
			continue;
		frame->has_draw_frame = true;
		frame->draw_frame_ns = slice->end_ns - slice->start_ns;
	}
}

struct late *late_new(struct late_frame *frames, size_t count)
{
	static const struct slices_ops ops = {.do_frame = on_do_frame, .draw_frame = on_draw_frame};
	struct late *late = calloc(1, sizeof(*late));

	if (!late)
		return NULL;
	late->watches = calloc(count ? count : 1, sizeof(*late->watches));
	late->slices = slices_new(&ops, late);
	if (!late->watches || !late->slices) {
		late_free(late);
		errno = ENOMEM;
		return NULL;
	}
	late->count = count;
	late->first_ns = INT64_MAX;
	late->last_ns = INT64_MIN;
	for (size_t i = 0; i < count; i++) {
		late->watches[i].frame = &frames[i];
		late->watches[i].main.tid = frames[i].pid;
		late->watches[i].render.tid = frames[i].render_tid ? frames[i].render_tid : -1;
		if (frames[i].start_ns < late->first_ns)
			late->first_ns = frames[i].start_ns;
		if (frames[i].end_ns > late->last_ns)
			late->last_ns = frames[i].end_ns;
	}
	return late;
}

void late_free(struct late *late)
{
	if (!late)
		return;
	for (size_t i = 0; i < late->count; i++) {
		free(late->watches[i].main.changes);
		free(late->watches[i].render.changes);
	}
	slices_free(late->slices);
	free(late->watches);
	free(late);
}

bool late_wants(const struct late *late, int64_t first_ns, int64_t last_ns)
{
	for (size_t i = 0; i < late->count; i++) {
		const struct late_frame *frame = late->watches[i].frame;

		if (last_ns >= frame->start_ns - BEFORE_NS && first_ns <= frame->end_ns + AFTER_NS)
			return true;
	}
	return false;
}

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct late *late = ctx;

	if (mark->ts_ns < late->first_ns - BEFORE_NS || mark->ts_ns > late->last_ns + AFTER_NS)
		return;
	if (!late->err)
		late->err = slices_add(late->slices, mark);
}

/* Note that a thread went into a state, for every frame whose thread it is. */
static void note(struct late *late, int32_t tid, int64_t ts_ns, enum thread_state state)
{
	late->order++;
	for (size_t i = 0; i < late->count; i++) {
		struct watch *watch = &late->watches[i];
		struct line *line = NULL;

		if (ts_ns < watch->frame->start_ns - BEFORE_NS || ts_ns > watch->frame->end_ns)
			continue;
		if (tid == watch->main.tid)
			line = &watch->main;
		else if (tid == watch->render.tid && tid >= 0)
			line = &watch->render;
		if (!line || line->count == MAX_CHANGES)
			continue;
		if (line->count == line->capacity) {
			size_t capacity = line->capacity ? line->capacity * 2 : 64;
			struct change *changes =
				realloc(line->changes, capacity * sizeof(*changes));

			if (!changes) {
				late->err = -ENOMEM;
				return;
			}
			line->changes = changes;
			line->capacity = capacity;
		}
		line->changes[line->count++] = (struct change){ts_ns, late->order, (uint8_t)state};
	}
}

/* prev_state: 0 runnable, bits 1 S, 2 D, ... up to 128; a bit above them (which one, the kernel's
 * version decides) says preempted, which is runnable too. Text traces give the letter. */
static enum thread_state state_of(int64_t prev_state)
{
	if (prev_state < 0)
		return STATE_UNKNOWN;
	if (prev_state == 'D' || prev_state == 'K')
		return STATE_BLOCKED;
	if (prev_state >= 'A' && prev_state <= 'z')
		return STATE_SLEEPING;
	if (!(prev_state & 0xff))
		return STATE_RUNNABLE;
	return prev_state & 2 ? STATE_BLOCKED : STATE_SLEEPING;
}

static void on_switch(void *ctx, const struct trace_switch *event)
{
	struct late *late = ctx;

	if (event->ts_ns < late->first_ns - BEFORE_NS || event->ts_ns > late->last_ns)
		return;
	if (event->prev_tid > 0)
		note(late, event->prev_tid, event->ts_ns, state_of(event->prev_state));
	if (event->next_tid > 0)
		note(late, event->next_tid, event->ts_ns, STATE_RUNNING);
}

static void on_wakeup(void *ctx, const struct trace_wakeup *event)
{
	struct late *late = ctx;

	if (event->ts_ns >= late->first_ns - BEFORE_NS && event->ts_ns <= late->last_ns)
		note(late, event->tid, event->ts_ns, STATE_RUNNABLE);
}

const struct trace_events *late_events(void)
{
	static const struct trace_events events = {
		.mark = on_mark,
		.sched_switch = on_switch,
		.wakeup = on_wakeup,
	};

	return &events;
}

static int compare_changes(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void spend(struct thread_time *time, enum thread_state state, int64_t ns)
{
	switch (state) {
	case STATE_RUNNING:
		time->running_ns += ns;
		break;
	case STATE_RUNNABLE:
		time->runnable_ns += ns;
		break;
	case STATE_SLEEPING:
		time->sleeping_ns += ns;
		break;
	case STATE_BLOCKED:
		time->uninterruptible_ns += ns;
		break;
	case STATE_UNKNOWN:
		break;
	}
}

static void sum_up(struct line *line, const struct late_frame *frame, struct thread_time *time)
{
	enum thread_state state = STATE_UNKNOWN;
	int64_t since = frame->start_ns;

	time->tid = line->tid;
	if (!line->count)
		return;
	qsort(line->changes, line->count, sizeof(line->changes[0]), compare_changes);
	for (size_t i = 0; i < line->count; i++) {
		const struct change *change = &line->changes[i];

		/* a wake-up of a thread that runs changes nothing */
		if (change->state == STATE_RUNNABLE && state == STATE_RUNNING &&
		    i + 1 < line->count && line->changes[i + 1].state != STATE_RUNNING)
			continue;
		if (change->ts_ns > frame->start_ns) {
			spend(time, state, change->ts_ns - since);
			since = change->ts_ns;
		}
		state = (enum thread_state)change->state;
	}
	spend(time, state, frame->end_ns - since);
	time->known = true;
}

int late_finish(struct late *late)
{
	int err = slices_finish(late->slices);

	for (size_t i = 0; i < late->count; i++) {
		struct watch *watch = &late->watches[i];

		sum_up(&watch->main, watch->frame, &watch->frame->main);
		sum_up(&watch->render, watch->frame, &watch->frame->render);
	}
	return late->err ? late->err : err;
}
