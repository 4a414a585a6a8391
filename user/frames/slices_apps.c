/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames of apps: each doFrame with its DrawFrame, and the ticks of GT's SM. */
#include "frames/slices_private.h"
#include <stdlib.h>
#include <string.h>

#define MAX_APPS 1024

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
	if (HASH_COUNT(s->apps) >= MAX_APPS)
		slices_app_free(s, s->apps); /* the one that was met first */
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
	int64_t period_ns = slices_period_or_default(s), next = app->next_tick_ns;
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
	app->next_tick_ns = start_ns + slices_period_or_default(s);
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

void slices_do_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	struct app *app = slices_app(s, thread->pid, true);

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

void slices_draw_frame_ended(struct slices *s, struct thread *thread, const struct app_slice *slice)
{
	struct app *app = slices_app(s, thread->pid, false);
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

int slices_app_finish(struct slices *s, struct app *app)
{
	while (app->pending_count && !app->draws) {
		emit_pending(s, app, 0, 0);
		drop_pending(app, 0);
	}
	return sm_finish(&app->sm);
}
