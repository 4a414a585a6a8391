/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames of apps: each doFrame with its DrawFrame, and the ticks of GT's SM. */
#include "frames/slices_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_APPS 1024
#define DRAW_NS  SECOND_NS /* a DrawFrame ends no later than this after its doFrame */

void slices_app_free(struct slices *s, struct app *app)
{
	HASH_DEL(s->apps, app);
	sm_free(&app->sm);
	free(app);
}

struct app *slices_app(struct slices *s, int32_t pid, bool create)
{
	struct app *app;

	HASH_FIND_INT(s->apps, &pid, app);
	if (app || !create)
		return app;
	if (HASH_COUNT(s->apps) >= MAX_APPS) {
		/* the one that was met first */
		slices_app_finish(s, s->apps);
		slices_app_free(s, s->apps);
	}
	app = calloc(1, sizeof(*app));
	if (!app)
		return NULL;
	app->pid = pid;
	HASH_ADD_INT(s->apps, pid, app);
	return app;
}

/* GT's callback would run at each refresh when the main thread is free, and at the end of what
 * it does when it is busy at that moment. */
static int run_ticks(struct slices *s, struct app *app, int64_t busy_ns, int64_t free_ns)
{
	int64_t period_ns = slices_rate_period(s), next = app->next_tick_ns;
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

int slices_start_ticks(struct slices *s, struct app *app, int64_t start_ns)
{
	app->next_tick_ns = start_ns + slices_rate_period(s);
	return sm_add(&app->sm, start_ns);
}

int slices_main_thread_free(struct slices *s, const struct thread *thread, int64_t start_ns,
			    int64_t end_ns, bool do_frame)
{
	struct app *app = slices_app(s, thread->pid, do_frame);

	if (!app)
		return 0;
	if (do_frame && !app->sm.started)
		return slices_start_ticks(s, app, start_ns);
	return run_ticks(s, app, start_ns, end_ns);
}

void slices_remember_drawn(struct slices *s, int32_t pid, int64_t start_ns, int64_t end_ns)
{
	s->drawn[s->drawn_count++ % DRAWN] = (struct drawn){start_ns, end_ns, pid};
}

static void emit(struct slices *s, const struct app *app, int64_t start_ns, int64_t end_ns)
{
	slices_remember_drawn(s, app->pid, start_ns, end_ns);
	if (s->ops->app_frame)
		s->ops->app_frame(s->ctx, app->pid, start_ns, end_ns);
}

static void drop_pending(struct app *app, unsigned n)
{
	app->pending_count--;
	memmove(app->pending + n, app->pending + n + 1,
		(app->pending_count - n) * sizeof(app->pending[0]));
}

/* Without render thread (software drawing) the frame is the doFrame. */
static void settle_oldest(struct slices *s, struct app *app)
{
	if (!app->draws)
		emit(s, app, app->pending[0].start_ns, app->pending[0].end_ns);
	drop_pending(app, 0);
}

/* A frame that was not drawn by then is not drawn any more. */
static void settle_before(struct slices *s, struct app *app, int64_t before_ns)
{
	while (app->pending_count && app->pending[0].end_ns < before_ns)
		settle_oldest(s, app);
}

void slices_settle_app(struct slices *s, struct app *app, int64_t now_ns)
{
	settle_before(s, app, now_ns - DRAW_NS);
}

/* Threads with a Choreographer of their own (system_server's animations, a splash screen's) draw
 * other frames: two of them are never one sequence. */
int slices_do_frame_began(struct slices *s, const struct item *item)
{
	struct app *app = slices_app(s, item->pid, true);

	if (!app)
		return -ENOMEM;
	if (!app->tid || item->tid == item->pid)
		app->tid = item->tid;
	if (app->tid != item->tid)
		return 0;
	app->open = (struct ui_frame){item->ts_ns, item->ts_ns, item->value, -1};
	app->open_is_drawn = false;
	return 0;
}

void slices_do_frame_resynced(struct slices *s, const struct item *item)
{
	struct app *app = slices_app(s, item->pid, false);

	if (app && app->tid == item->tid)
		app->open.resynced_id = item->value;
}

int64_t slices_open_do_frame(struct slices *s, int32_t pid)
{
	struct app *app = slices_app(s, pid, false);

	return app ? app->open.start_ns : 0;
}

void slices_do_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	struct app *app = slices_app(s, thread->pid, false);
	struct ui_frame frame;

	s->counts.do_frames++;
	if (s->ops->do_frame)
		s->ops->do_frame(s->ctx, slice);
	if (!app || app->tid != thread->tid || app->open.start_ns != slice->start_ns)
		return;
	frame = app->open;
	frame.end_ns = slice->end_ns;
	app->open.start_ns = 0;
	settle_before(s, app, frame.end_ns - DRAW_NS);
	if (app->open_is_drawn)
		return;
	if (app->pending_count == PENDING)
		settle_oldest(s, app);
	app->pending[app->pending_count++] = frame;
}

static bool has_id(const struct ui_frame *frame, int64_t id)
{
	return id >= 0 && (frame->id == id || frame->resynced_id == id);
}

/* A doFrame waits until its DrawFrame has what it needs, so the one that is open when a DrawFrame
 * begins is the one that is drawn; the id tells where several threads draw. A doFrame may well have
 * nothing to draw: to match them by order alone would shift all that follow. */
void slices_draw_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	int64_t end_ns = thread->queued_ns > slice->start_ns ? thread->queued_ns : slice->end_ns;
	struct app *app = slices_app(s, thread->pid, false);
	unsigned n;

	s->counts.draw_frames++;
	if (s->ops->draw_frame)
		s->ops->draw_frame(s->ctx, slice);
	if (!app)
		return;
	settle_before(s, app, slice->end_ns - DRAW_NS);
	app->draws = true;
	/* drawn before its doFrame, which has other things to do, is over */
	if (app->open.start_ns && (slice->id >= 0 ? has_id(&app->open, slice->id)
						  : app->open.start_ns == thread->drawn_ns)) {
		if (!app->open_is_drawn)
			emit(s, app, app->open.start_ns, end_ns);
		app->open_is_drawn = true;
		return;
	}
	for (n = app->pending_count; n-- > 0;) {
		const struct ui_frame *frame = &app->pending[n];

		if (slice->id >= 0 ? has_id(frame, slice->id) : frame->start_ns == thread->drawn_ns)
			break;
	}
	if (n >= app->pending_count)
		return;
	emit(s, app, app->pending[n].start_ns, end_ns);
	drop_pending(app, n);
}

int slices_app_finish(struct slices *s, struct app *app)
{
	while (app->pending_count)
		settle_oldest(s, app);
	return sm_finish(&app->sm);
}
