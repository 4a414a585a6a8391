/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/stream.h"
#include "record/histogram.h"
#include "frames/flow.h"
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
#define MANY_VSYNCS 4096
#define MANY_FRAMES (1U << 18)    /* that wait: nothing tells their period */
#define NEAR_NS     500000000LL   /* predicted presents this far behind a frame tell its period */
#define QUIET_NS    6000000000ULL /* longer than perfetto waits between two writes */

/* What a layer was when it was last looked at. */
struct layer_past {
	struct layer counts;
	struct flow flow;
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
	int64_t handled_ns;     /* the markers up to there were handled */
	int64_t newest_mark_ns; /* when somebody last looked, as the next */
	uint64_t newest_row;
	uint64_t quiet_since_ns; /* nothing came since then */
	bool ended;              /* nothing more will come */
	bool quiet;              /* nothing came for QUIET_NS */
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
		.period_ns = slices_period(s->slices),
		.work_ns = TIMELINE_NONE,
		.flags = FRAME_PERIOD | (due ? FRAME_DUE : 0),
	};

	add_frame(s, pid, name, LAYER_BUFFER, &frame);
}

static void on_app_frame(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns)
{
	struct frame_stream *s = ctx;
	struct frame frame = {
		.present_ns = end_ns,
		.period_ns = slices_period(s->slices),
		.work_ns = end_ns - start_ns,
		.flags = FRAME_PERIOD,
	};

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
	s->handled_ns = INT64_MIN;
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

/* A trace that is written in pieces is silent between them; one that stays silent for longer is
 * taken for complete up to here. */
static void note_quiet(struct frame_stream *s, uint64_t now_ns)
{
	uint64_t row = timeline_newest(s->timeline);
	int64_t mark_ns = slices_newest(s->slices);

	if (row != s->newest_row || mark_ns != s->newest_mark_ns || !s->quiet_since_ns)
		s->quiet_since_ns = now_ns;
	s->newest_row = row;
	s->newest_mark_ns = mark_ns;
	s->quiet = now_ns - s->quiet_since_ns >= QUIET_NS;
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
		s->ended = true;
		return err ? err : slices_finish(s->slices);
	}
	note_quiet(s, now_ns);
	while (n < s->checkpoint_count && s->checkpoints[n].at_ns + window_ns <= now_ns)
		ripe = &s->checkpoints[n++];
	err = ripe ? timeline_settle_to(s->timeline, ripe->row) : 0;
	if (!err && ripe) {
		err = slices_settle(s->slices, ripe->newest_mark_ns);
		s->handled_ns = ripe->newest_mark_ns;
	}
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

static int add_step(void *ctx, const struct flow_step *step)
{
	struct stream_layer *out = ctx;

	out->period_ns = step->period_ns;
	if (!out->shown || step->frame->present_ns < out->first_shown_ns)
		out->first_shown_ns = step->frame->present_ns;
	out->shown++;
	if (!step->follows)
		return 0;
	out->dropped += step->dropped;
	out->active_ns += step->active_ns;
	out->intervals++;
	return histogram_add(out->hist, (uint64_t)step->interval_ns);
}

/* What a layer's frames add; *consumed of them are done, the others are looked at again. */
static int take_one(struct frame_stream *s, const struct layer *layer, struct layer_past *past,
		    const struct flow_input *input, size_t *consumed)
{
	const struct layer before = past->counts;
	struct flow_counts counts = {0};
	struct stream_layer *out;
	int err;

	*consumed = 0;
	if (!input->count && layer->rows == before.rows)
		return 0;
	out = take_layer(s);
	if (!out)
		return -ENOMEM;
	out->layer = layer;
	out->period_ns = s->period_ns;
	err = flow_feed(&past->flow, input, consumed, &counts, add_step, out);
	if (counts.late)
		on_loss(s, "frames_too_late", counts.late);
	if (!out->shown && layer->rows == before.rows) {
		/* all of them wait, or are another layer's */
		histogram_free(out->hist);
		s->taken_count--;
		return err;
	}
	out->rows = layer->rows - before.rows;
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
	s->handled_ns = INT64_MIN;
	return 0;
}

/* Take what is complete of each layer; the other frames move to the front. */
static int take_layers(struct frame_stream *s, struct flow_grid *grid,
		       const struct layer_covers *covers, size_t *kept)
{
	size_t frame_count, layer_count, vsync_count, at = 0;
	struct frame *frames = timeline_frames(s->timeline, &frame_count);
	struct layer *all = timeline_layers(s->timeline, &layer_count);
	const int64_t *vsyncs = timeline_vsyncs(s->timeline, &vsync_count);
	int64_t vsync_ns = vsync_count ? vsyncs[vsync_count - 1] : INT64_MIN;
	bool all_of_it = s->ended || s->quiet || frame_count > MANY_FRAMES;
	int err = 0;

	*kept = 0;
	sort_frames(frames, frame_count);
	for (size_t i = 0; i < layer_count && !err; i++) {
		bool predicted = all[i].source == LAYER_TIMELINE;
		int64_t known_ns = predicted ? vsync_ns - (vsync_count ? NEAR_NS : 0)
				   : s->handled_ns > INT64_MIN + FLOW_COVER_NS
					   ? s->handled_ns - FLOW_COVER_NS
					   : INT64_MIN;
		struct flow_input input = {
			.frames = frames ? frames + at : NULL,
			.grid = grid,
			.ready_ns = all_of_it ? INT64_MAX : known_ns,
			.covered_ns = layer_covered_from(covers, &all[i]),
			.unpredicted = !predicted,
		};
		size_t first = at, consumed;

		while (at < frame_count && frames[at].layer == i)
			at++;
		input.count = at - first;
		flow_grid_init(grid, vsyncs, vsync_count, grid->default_ns);
		err = take_one(s, &all[i], &s->past[i], &input, &consumed);
		if (consumed < input.count)
			memmove(frames + *kept, input.frames + consumed,
				(input.count - consumed) * sizeof(*frames));
		*kept += input.count - consumed;
	}
	return err;
}

/* Predicted presents that no frame needs any more: those that are neither among the last ones nor
 * near to a frame that waits. */
static size_t first_needed_vsync(struct frame_stream *s, size_t kept)
{
	size_t vsync_count, frame_count, first = 0;
	const int64_t *vsyncs = timeline_vsyncs(s->timeline, &vsync_count);
	const struct frame *frames = timeline_frames(s->timeline, &frame_count);
	int64_t oldest_ns = INT64_MAX;

	for (size_t i = 0; i < kept; i++) {
		if (frames[i].present_ns < oldest_ns)
			oldest_ns = frames[i].present_ns;
	}
	while (first + MANY_VSYNCS < vsync_count &&
	       (first + 2 * MANY_VSYNCS < vsync_count || oldest_ns == INT64_MAX ||
		vsyncs[first + FLOW_RECENT] + NEAR_NS < oldest_ns))
		first++;
	return first;
}

int frame_stream_take(struct frame_stream *s, const struct stream_layer **layers, size_t *count)
{
	size_t layer_count, vsync_count, kept = 0;
	struct layer_covers covers = {NULL};
	struct flow_grid *grid;
	int64_t *vsyncs;
	int err = 0;

	free_taken(s);
	*count = 0;
	/* the layers that were given out last time are not looked at any more */
	timeline_layers(s->timeline, &layer_count);
	if (layer_count > MANY_LAYERS) {
		err = start_over(s);
		if (err)
			return err;
	}
	vsyncs = timeline_vsyncs(s->timeline, &vsync_count);
	vsync_count = vsyncs ? period_sort(vsyncs, vsync_count) : 0;
	timeline_keep_vsyncs(s->timeline, vsync_count);
	find_period(s, vsyncs, vsync_count);
	err = grow_past(s, timeline_layers(s->timeline, &layer_count) ? layer_count : 0);
	if (!err)
		err = layer_covers_add(&covers, timeline_layers(s->timeline, &layer_count),
				       layer_count);
	grid = err ? NULL : malloc(sizeof(*grid));
	if (grid) {
		grid->default_ns = s->stated_period_ns ? s->stated_period_ns : PERIOD_ASSUMED_NS;
		err = take_layers(s, grid, &covers, &kept);
	} else {
		err = err ? err : -ENOMEM;
	}
	free(grid);
	layer_covers_free(&covers);
	timeline_take(s->timeline, kept, first_needed_vsync(s, kept));
	*layers = s->taken;
	*count = s->taken_count;
	return err;
}

bool frame_stream_shown(const struct frame_stream *s, int64_t *first_ns, int64_t *last_ns)
{
	return timeline_shown(s->timeline, first_ns, last_ns);
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
