/* SPDX-License-Identifier: BSD-2-Clause */
/* From events to frames, whatever source they come from. */
#include "frames/analysis_private.h"
#include "frames/period.h"
#include <stdio.h>
#include <string.h>

static void on_loss(void *ctx, const char *reason, uint64_t count)
{
	struct analysis *a = ctx;

	if (!count)
		return;
	for (size_t i = 0; i < a->loss_count; i++) {
		if (!strcmp(a->losses[i].reason, reason)) {
			a->losses[i].count += count;
			return;
		}
	}
	if (a->loss_count < ANALYSIS_LOSSES)
		a->losses[a->loss_count++] = (struct loss_counter){reason, count};
}

/* Keep the frame if it is among the worst so far. */
static void consider(struct analysis *a, const struct worst_frame *frame)
{
	size_t at,
		max = a->options.worst < ANALYSIS_MAX_WORST ? a->options.worst : ANALYSIS_MAX_WORST;

	if (frame->late_ns <= 0 || !max)
		return;
	if (a->worst_count == max && a->worst[max - 1].late_ns >= frame->late_ns)
		return;
	if (!analysis_wants(a, analysis_layer(a, frame->layer)))
		return;
	if (a->worst_count < max)
		a->worst_count++;
	for (at = a->worst_count - 1; at && a->worst[at - 1].late_ns < frame->late_ns; at--)
		a->worst[at] = a->worst[at - 1];
	a->worst[at] = *frame;
}

void analysis_on_finished(void *ctx, const struct timeline_finished *finished)
{
	struct analysis *a = ctx;
	const struct frame *frame = finished->frame;
	struct worst_frame worst;

	if (frame->predicted_ns == TIMELINE_NONE || frame->present_ns <= frame->predicted_ns)
		return;
	worst = (struct worst_frame){
		.late = {.pid = finished->pid,
			 .token = finished->token,
			 .start_ns = finished->start_ns,
			 .end_ns = finished->end_ns},
		.ts_ns = finished->start_ns,
		.layer = frame->layer,
		.jank = frame->flags & FRAME_JANK_MASK,
		.late_ns = frame->present_ns - frame->predicted_ns,
		.present_ns = frame->present_ns,
		.predicted_ns = frame->predicted_ns,
		.work_ns = frame->work_ns,
	};
	/* the app may have begun before doFrame: count from when it was woken */
	if (finished->expected_start_ns != TIMELINE_NONE &&
	    finished->expected_start_ns < worst.late.start_ns)
		worst.late.start_ns = finished->expected_start_ns;
	consider(a, &worst);
}

void analysis_on_late(void *ctx, const struct timeline_late *late)
{
	struct analysis *a = ctx;

	a->options.late(a->options.late_ctx, late);
}

static bool on_timeline(void *ctx, const struct timeline_event *event)
{
	struct analysis *a = ctx;
	int rc;

	if (a->err)
		return true;
	if (event->ts_ns >= 0 && event->ts_ns < a->first_ns)
		a->first_ns = event->ts_ns;
	if (event->kind == TIMELINE_EXPECTED_DISPLAY && event->ts_ns > 0)
		slices_add_predicted(a->slices, event->ts_ns);
	rc = timeline_add(a->timeline, event);
	if (rc < 0)
		a->err = rc;
	return rc != TIMELINE_REJECTED;
}

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct analysis *a = ctx;

	if (mark->ts_ns >= 0 && mark->ts_ns < a->first_ns)
		a->first_ns = mark->ts_ns;
	if (!a->err)
		a->err = slices_add(a->slices, mark);
	launches_mark(a->launches, mark);
}

static void on_process(void *ctx, int32_t pid, int64_t uid, const char *name, size_t size)
{
	struct analysis *a = ctx;

	if (!a->err)
		a->err = name_table_process(a->names, pid, uid, name, size);
	/* a daemon's path ends in its main thread's name; an app's is told by the scheduler */
	if (!a->err && a->options.threads) {
		const char *slash = size && name[0] == '/' ? memrchr(name, '/', size) : NULL;

		a->err = thread_table_note(a->options.threads, pid, pid, slash ? slash + 1 : "",
					   slash ? size - (size_t)(slash + 1 - name) : 0);
	}
}

static void on_thread(void *ctx, int32_t tid, int32_t tgid, const char *name, size_t size)
{
	struct analysis *a = ctx;

	if (!a->err)
		a->err = name_table_thread(a->names, tid, tgid, name, size);
	if (!a->err && a->options.threads)
		a->err = thread_table_note(a->options.threads, tid, tgid, name, size);
}

/* A process tree may hold numbers alone: the names are those that threads ran under. */
static void on_switch(void *ctx, const struct trace_switch *event)
{
	struct analysis *a = ctx;

	if (!a->err)
		a->err = thread_table_ran(a->options.threads, event->prev_tid, event->ts_ns,
					  event->prev_comm, event->prev_comm_size);
	if (!a->err)
		a->err = thread_table_ran(a->options.threads, event->next_tid, event->ts_ns,
					  event->next_comm, event->next_comm_size);
}

static void on_package(void *ctx, uint32_t uid, const char *name, size_t size)
{
	struct analysis *a = ctx;

	if (!a->err)
		a->err = name_table_package(a->names, uid, name, size);
}

static void add_frame(struct analysis *a, int32_t pid, const char *name, enum layer_source source,
		      struct frame *frame)
{
	size_t count;
	uint32_t layer = timeline_layer(a->timeline, 0, pid, name, strlen(name));

	if (layer == UINT32_MAX || a->err)
		return;
	timeline_layers(a->timeline, &count)[layer].source = source;
	frame->layer = layer;
	frame->cookie = a->cookie++;
	a->err = timeline_add_frame(a->timeline, frame);
}

bool analysis_may_draw(void *ctx, int32_t pid, const char *layer)
{
	const struct analysis *a = ctx;

	return name_table_may_draw(a->names, pid, layer);
}

void analysis_on_latch(void *ctx, int32_t pid, const char *name, int64_t present_ns, bool due)
{
	struct frame frame = {
		.present_ns = present_ns,
		.work_ns = TIMELINE_NONE,
		.flags = FRAME_PERIOD | (due ? FRAME_DUE : 0),
	};
	struct analysis *a = ctx;

	frame.period_ns = slices_period(a->slices);
	add_frame(a, pid, name, LAYER_BUFFER, &frame);
}

void analysis_on_draw_frame(void *ctx, const struct app_slice *slice)
{
	struct analysis *a = ctx;
	size_t i = 0;

	while (i < a->renderer_count && a->renderers[i].pid != slice->pid)
		i++;
	if (i == ANALYSIS_RENDERERS)
		return;
	a->renderer_count += i == a->renderer_count;
	a->renderers[i].pid = slice->pid;
	a->renderers[i].tid = slice->tid;
}

void analysis_on_app_frame(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns)
{
	struct frame frame = {
		.present_ns = end_ns,
		.work_ns = end_ns - start_ns,
		.flags = FRAME_PERIOD,
	};
	struct worst_frame worst = {
		.late = {.pid = pid, .token = -1, .start_ns = start_ns, .end_ns = end_ns},
		.ts_ns = start_ns,
		.present_ns = end_ns,
		.predicted_ns = TIMELINE_NONE,
		.work_ns = end_ns - start_ns,
	};
	struct analysis *a = ctx;
	int64_t period_ns = slices_period(a->slices);

	frame.period_ns = period_ns;
	add_frame(a, pid, "Choreographer#doFrame", LAYER_CHOREOGRAPHER, &frame);
	/* where FrameTimeline knows the frames, it knows them better */
	if (a->err || timeline_counts(a->timeline)->actual)
		return;
	if (!period_ns)
		period_ns = PERIOD_ASSUMED_NS;
	worst.late_ns = worst.work_ns - period_ns;
	worst.layer = frame.layer;
	consider(a, &worst);
	if (a->options.late && worst.late_ns > 0) {
		struct timeline_late late =
			timeline_late_doframe(start_ns, end_ns, period_ns, pid, frame.layer);

		a->options.late(a->options.late_ctx, &late);
	}
}

/* Rows of a dump have no end of their own: what no device keeps is not kept here. */
static bool too_many_rows(struct analysis *a)
{
	if (a->dump_rows < ANALYSIS_DUMP_ROWS) {
		a->dump_rows++;
		return false;
	}
	on_loss(a, "dump_rows_over_limit", 1);
	return true;
}

static void on_gfx_summary(void *ctx, const struct trace_gfx_summary *summary)
{
	struct analysis *a = ctx;
	struct gfx_summary *gfx;

	if (summary->package_size)
		on_process(a, summary->pid, -1, summary->package, summary->package_size);
	if (a->gfx_count == ANALYSIS_GFX) {
		on_loss(a, "gfxinfo_processes_over_limit", 1);
		return;
	}
	gfx = &a->gfx[a->gfx_count++];
	gfx->pid = summary->pid;
	snprintf(gfx->package, sizeof(gfx->package), "%.*s", (int)summary->package_size,
		 summary->package);
	memcpy(gfx->counters, summary->counters, sizeof(gfx->counters));
}

static void on_present(void *ctx, int64_t desired_ns, int64_t present_ns, int64_t ready_ns)
{
	/* desired is when the app queued the buffer, unless it asked for a time: no prediction, but
	 * it tells whether a long gap was the app's or the display's */
	struct frame frame = {
		.present_ns = present_ns,
		.predicted_ns = TIMELINE_NONE,
		.work_ns = TIMELINE_NONE,
	};
	struct analysis *a = ctx;
	int64_t period_ns = a->stated_period_ns ? a->stated_period_ns : PERIOD_ASSUMED_NS;

	if (too_many_rows(a))
		return;
	if (desired_ns > 0 && a->last_latency_ns &&
	    desired_ns <= a->last_latency_ns + 2 * period_ns)
		frame.flags |= FRAME_DUE;
	a->last_latency_ns = present_ns;
	add_frame(a, -1, "SurfaceFlinger --latency", LAYER_DUMP, &frame);
}

static void on_frame_stats(void *ctx, const struct trace_frame_stats *row)
{
	struct frame frame = {
		.present_ns = row->present_ns ? row->present_ns : row->completed_ns,
		.predicted_ns = row->intended_ns, /* but for a constant, which cancels out */
		.work_ns = row->completed_ns - row->intended_ns,
		.flags = JANK_NONE,
	};
	struct analysis *a = ctx;
	char name[300] = "gfxinfo framestats";

	if (too_many_rows(a))
		return;
	on_process(a, row->pid, -1, row->package, row->package_size);
	if (row->interval_ns >= PERIOD_SHORTEST_NS && row->interval_ns < PERIOD_LONGEST_NS)
		a->stated_period_ns = row->interval_ns;
	else
		slices_add_predicted(a->slices, row->intended_ns);
	if (row->deadline_ns > row->intended_ns && row->deadline_ns < INT64_MAX &&
	    row->completed_ns > row->deadline_ns)
		frame.flags = JANK_APP_DEADLINE;
	if (row->window_size)
		snprintf(name, sizeof(name), "%.*s", (int)row->window_size, row->window);
	else if (row->section)
		snprintf(name, sizeof(name), "gfxinfo framestats #%u", row->section + 1);
	add_frame(a, row->pid, name, LAYER_DUMP, &frame);
	if (!a->err) {
		size_t count;
		struct layer *layers = timeline_layers(a->timeline, &count);

		if (frame.layer < count)
			layer_count_causes(&layers[frame.layer], frame.flags & FRAME_JANK_MASK,
					   false);
	}
}

static void on_period(void *ctx, int64_t period_ns)
{
	struct analysis *a = ctx;

	a->stated_period_ns = period_ns;
}

const struct trace_events *analysis_name_events(void)
{
	static const struct trace_events events = {
		.process = on_process,
		.thread = on_thread,
		.package = on_package,
	};

	return &events;
}

#define ANALYSIS_EVENTS                                                                       \
	.timeline = on_timeline, .mark = on_mark, .process = on_process, .thread = on_thread, \
	.package = on_package, .loss = on_loss, .present = on_present, .period = on_period,   \
	.frame_stats = on_frame_stats, .gfx_summary = on_gfx_summary

const struct trace_events *analysis_events(void)
{
	static const struct trace_events events = {ANALYSIS_EVENTS};

	return &events;
}

const struct trace_events *analysis_thread_events(void)
{
	static const struct trace_events events = {ANALYSIS_EVENTS, .sched_switch = on_switch};

	return &events;
}
