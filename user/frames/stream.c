/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/stream.h"
#include "core/histogram.h"
#include "frames/metrics.h"
#include "frames/period.h"
#include "frames/slices.h"
#include "frames/sort.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS  8192
#define MANY_LAYERS 4096 /* then start over: layers of days ago are gone by now */
#define MAX_LOSSES  64
#define CHECKPOINTS 64
#define KEEP_NS     2000000000LL /* of predicted presents, for the local period */

/* What a layer was when it was last looked at. */
struct layer_past {
	struct layer counts;
	struct frame last;
	int64_t cadence_ns;
	bool has_last;
};

struct checkpoint {
	uint64_t at_ns, row;
	int64_t newest_mark_ns;
};

struct loss {
	const char *reason;
	uint64_t count;
};

struct frame_stream {
	struct timeline *timeline;
	struct slices *slices;
	struct name_table *names;
	struct layer_past *past;
	size_t past_count;
	struct stream_layer *taken;
	size_t taken_count, taken_capacity;
	struct checkpoint checkpoints[CHECKPOINTS]; /* oldest first */
	size_t checkpoint_count;
	struct loss losses[MAX_LOSSES];
	size_t loss_count;
	int64_t period_ns, stated_period_ns, cookie;
	bool has_timeline;
	int err;
};

static void on_loss(void *ctx, const char *reason, uint64_t count)
{
	struct frame_stream *s = ctx;

	for (size_t i = 0; i < s->loss_count; i++) {
		if (!strcmp(s->losses[i].reason, reason)) {
			s->losses[i].count += count;
			return;
		}
	}
	if (count && s->loss_count < MAX_LOSSES)
		s->losses[s->loss_count++] = (struct loss){reason, count};
}

static bool on_timeline(void *ctx, const struct timeline_event *event)
{
	struct frame_stream *s = ctx;
	int rc;

	s->has_timeline = true;
	if (s->err)
		return true;
	rc = timeline_add(s->timeline, event);
	if (rc < 0)
		s->err = rc;
	return rc != TIMELINE_REJECTED;
}

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct frame_stream *s = ctx;

	if (!s->err)
		s->err = slices_add(s->slices, mark);
}

static void on_process(void *ctx, int32_t pid, int64_t uid, const char *name, size_t size)
{
	struct frame_stream *s = ctx;

	if (!s->err)
		s->err = name_table_process(s->names, pid, uid, name, size);
}

static void on_package(void *ctx, uint32_t uid, const char *name, size_t size)
{
	struct frame_stream *s = ctx;

	if (!s->err)
		s->err = name_table_package(s->names, uid, name, size);
}

static void on_period(void *ctx, int64_t period_ns)
{
	struct frame_stream *s = ctx;

	s->stated_period_ns = period_ns;
}

const struct trace_events *frame_stream_events(void)
{
	static const struct trace_events events = {
		.timeline = on_timeline,
		.mark = on_mark,
		.process = on_process,
		.package = on_package,
		.loss = on_loss,
		.period = on_period,
	};

	return &events;
}

static void add_frame(struct frame_stream *s, int32_t pid, const char *name,
		      enum layer_source source, struct frame *frame)
{
	size_t count;

	if (s->err)
		return;
	frame->layer = timeline_layer(s->timeline, 0, pid, name, strlen(name));
	if (frame->layer == UINT32_MAX)
		return;
	timeline_layers(s->timeline, &count)[frame->layer].source = source;
	frame->cookie = s->cookie++;
	s->err = timeline_add_frame(s->timeline, frame);
}

static bool may_draw(void *ctx, int32_t pid, const char *layer)
{
	const struct frame_stream *s = ctx;

	return name_table_may_draw(s->names, pid, layer);
}

static void on_latch(void *ctx, int32_t pid, const char *name, int64_t present_ns, bool due)
{
	struct frame_stream *s = ctx;
	struct frame frame = {
		.present_ns = present_ns,
		.predicted_ns = TIMELINE_NONE,
		.work_ns = TIMELINE_NONE,
		.flags = due ? FRAME_DUE : 0,
	};

	/* FrameTimeline has the same layers, with predictions */
	if (!s->has_timeline)
		add_frame(s, pid, name, LAYER_BUFFER, &frame);
}

static void on_app_frame(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns)
{
	struct frame_stream *s = ctx;
	struct frame frame = {
		.present_ns = end_ns,
		.predicted_ns = TIMELINE_NONE,
		.work_ns = end_ns - start_ns,
	};

	if (!s->has_timeline)
		add_frame(s, pid, "Choreographer#doFrame", LAYER_CHOREOGRAPHER, &frame);
}

static struct timeline *new_timeline(void)
{
	const struct timeline_options options = {.max_layers = MAX_LAYERS};

	return timeline_new(&options);
}

struct frame_stream *frame_stream_new(void)
{
	static const struct slices_ops ops = {
		.may_draw = may_draw, .latch = on_latch, .app_frame = on_app_frame};
	struct frame_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->timeline = new_timeline();
	s->slices = slices_new(&ops, s);
	s->names = name_table_new();
	if (!s->timeline || !s->slices || !s->names) {
		frame_stream_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

static void free_taken(struct frame_stream *s)
{
	for (size_t i = 0; i < s->taken_count; i++)
		histogram_free(s->taken[i].hist);
	s->taken_count = 0;
}

void frame_stream_free(struct frame_stream *s)
{
	if (!s)
		return;
	free_taken(s);
	free(s->taken);
	free(s->past);
	timeline_free(s->timeline);
	slices_free(s->slices);
	name_table_free(s->names);
	free(s);
}

int frame_stream_error(const struct frame_stream *s)
{
	return s->err;
}

int frame_stream_settle(struct frame_stream *s, uint64_t now_ns, uint64_t window_ns,
			bool settle_all)
{
	const struct checkpoint *ripe = NULL;
	size_t n = 0;
	int err;

	if (settle_all) {
		err = timeline_finish(s->timeline);
		s->checkpoint_count = 0;
		return err ? err : slices_settle(s->slices, INT64_MAX);
	}
	while (n < s->checkpoint_count && s->checkpoints[n].at_ns + window_ns <= now_ns)
		ripe = &s->checkpoints[n++];
	err = ripe ? timeline_settle_to(s->timeline, ripe->row) : 0;
	if (!err && ripe)
		err = slices_settle(s->slices, ripe->newest_mark_ns);
	s->checkpoint_count -= n;
	memmove(s->checkpoints, s->checkpoints + n, s->checkpoint_count * sizeof(*s->checkpoints));
	if (s->checkpoint_count < CHECKPOINTS)
		s->checkpoints[s->checkpoint_count++] = (struct checkpoint){
			now_ns, timeline_newest(s->timeline), slices_newest(s->slices)};
	return err;
}

static int grow_past(struct frame_stream *s, size_t count)
{
	struct layer_past *past;

	if (count <= s->past_count)
		return 0;
	past = realloc(s->past, count * sizeof(*past));
	if (!past)
		return -ENOMEM;
	memset(past + s->past_count, 0, (count - s->past_count) * sizeof(*past));
	s->past = past;
	s->past_count = count;
	return 0;
}

static struct stream_layer *take_layer(struct frame_stream *s)
{
	if (s->taken_count == s->taken_capacity) {
		size_t capacity = s->taken_capacity ? s->taken_capacity * 2 : 16;
		struct stream_layer *taken = realloc(s->taken, capacity * sizeof(*taken));

		if (!taken)
			return NULL;
		s->taken = taken;
		s->taken_capacity = capacity;
	}
	s->taken[s->taken_count] = (struct stream_layer){.hist = histogram_new()};
	return s->taken[s->taken_count].hist ? &s->taken[s->taken_count++] : NULL;
}

/* Frames of one layer in present order, after those of the intervals before. */
static int add_steps(struct stream_layer *out, struct layer_past *past, struct frame *frames,
		     size_t count, struct period_window *window)
{
	bool unpredicted = out->layer->source != LAYER_TIMELINE;
	uint64_t duplicates = 0;
	int err = 0;

	count = frames_dedupe(frames, count, &duplicates);
	for (size_t i = 0; i < count && !err; i++) {
		int64_t period_ns = period_at(window, frames[i].present_ns);
		struct frame_step step;

		out->period_ns = period_ns;
		if (past->has_last && frames[i].present_ns <= past->last.present_ns)
			continue; /* was shown together with one that was counted before */
		out->shown++;
		if (past->has_last) {
			step = frame_step_of(&past->last, &frames[i], period_ns, unpredicted,
					     past->cadence_ns);
			out->dropped += step.dropped;
			out->active_ns += step.active_ns;
			out->intervals++;
			past->cadence_ns = past->cadence_ns && step.idle
						   ? past->cadence_ns
						   : (past->cadence_ns * 7 + step.interval_ns) /
							     (past->cadence_ns ? 8 : 1);
			err = histogram_add(out->hist, (uint64_t)step.interval_ns);
		}
		past->last = frames[i];
		past->has_last = true;
	}
	return err;
}

static int take_one(struct frame_stream *s, const struct layer *layer, struct layer_past *past,
		    struct frame *frames, size_t count, struct period_window *window)
{
	const struct layer before = past->counts;
	struct stream_layer *out;
	int err = 0;

	if (!count && layer->rows == before.rows)
		return 0;
	out = take_layer(s);
	if (!out)
		return -ENOMEM;
	out->layer = layer;
	out->period_ns = s->period_ns;
	if (count)
		err = add_steps(out, past, frames, count, window);
	out->janky = layer->janky - before.janky;
	out->app = layer->cause_app - before.cause_app;
	out->sf = layer->cause_sf - before.cause_sf;
	out->hw = layer->cause_hw - before.cause_hw;
	out->stuffing = layer->cause_stuffing - before.cause_stuffing;
	out->dropped_rows = layer->cause_dropped - before.cause_dropped;
	out->unknown = layer->cause_unknown - before.cause_unknown;
	past->counts = *layer;
	return err;
}

static void find_period(struct frame_stream *s, const int64_t *vsyncs, size_t count)
{
	int64_t period_ns = count > 4 ? period_global(vsyncs, count) : 0;

	if (!period_ns)
		period_ns = slices_period(s->slices);
	if (!period_ns)
		period_ns = s->period_ns ? s->period_ns : s->stated_period_ns;
	s->period_ns = period_ns ? period_ns : PERIOD_ASSUMED_NS;
}

/* Too many layers came and went: begin anew with what is alive. Rows in flight are lost. */
static int start_over(struct frame_stream *s)
{
	struct timeline *fresh = new_timeline();

	if (!fresh)
		return -ENOMEM;
	on_loss(s, "frame_streams_restarted", 1);
	timeline_free(s->timeline);
	s->timeline = fresh;
	s->past_count = 0;
	s->checkpoint_count = 0;
	return 0;
}

int frame_stream_take(struct frame_stream *s, const struct stream_layer **layers, size_t *count)
{
	size_t frame_count, layer_count, vsync_count, at = 0;
	struct period_window *window;
	struct frame *frames;
	struct layer *all;
	int64_t *vsyncs;
	int err;

	free_taken(s);
	*count = 0;
	*layers = s->taken;
	/* the layers that were given out last time are not looked at any more */
	timeline_layers(s->timeline, &layer_count);
	if (layer_count > MANY_LAYERS) {
		err = start_over(s);
		if (err)
			return err;
	}
	frames = timeline_frames(s->timeline, &frame_count);
	all = timeline_layers(s->timeline, &layer_count);
	vsyncs = timeline_vsyncs(s->timeline, &vsync_count);
	vsync_count = vsyncs ? period_sort(vsyncs, vsync_count) : 0;
	timeline_keep_vsyncs(s->timeline, vsync_count);
	find_period(s, vsyncs, vsync_count);
	err = grow_past(s, layer_count);
	window = err ? NULL : malloc(sizeof(*window));
	if (!window)
		return err ? err : -ENOMEM;
	sort_frames(frames, frame_count);
	for (size_t i = 0; i < layer_count && !err; i++) {
		size_t first = at;

		while (at < frame_count && frames[at].layer == i)
			at++;
		period_window_init(window, vsyncs, vsync_count, s->period_ns);
		err = take_one(s, &all[i], &s->past[i], frames ? frames + first : NULL, at - first,
			       window);
	}
	free(window);
	timeline_take(s->timeline, vsync_count ? vsyncs[vsync_count - 1] - KEEP_NS : 0);
	*layers = s->taken;
	*count = s->taken_count;
	return err;
}

struct name_table *frame_stream_names(struct frame_stream *s)
{
	return s->names;
}

void frame_stream_each_loss(struct frame_stream *s,
			    void (*visit)(void *ctx, const char *reason, uint64_t count), void *ctx)
{
	const struct timeline_counts *counts = timeline_counts(s->timeline);

	for (size_t i = 0; i < s->loss_count; i++)
		visit(ctx, s->losses[i].reason, s->losses[i].count);
	visit(ctx, "timeline_rejected", counts->rejected);
	visit(ctx, "timeline_unpaired", counts->unpaired + counts->unpaired_ends);
	visit(ctx, "layers_over_limit", counts->layers_lost);
}
