/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/stream_private.h"
#include "record/histogram.h"
#include "frames/period.h"
#include "frames/sort.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MANY_LAYERS 4096 /* then start over: layers of days ago are gone by now */
#define MANY_VSYNCS 4096
#define MANY_FRAMES (1U << 18)  /* that wait: nothing tells their period */
#define NEAR_NS     500000000LL /* predicted presents this far behind a frame tell its period */

void stream_free_taken(struct frame_stream *s)
{
	for (size_t i = 0; i < s->taken_count; i++)
		histogram_free(s->taken[i].hist);
	s->taken_count = 0;
}

static int grow_past(struct frame_stream *s, size_t count)
{
	struct stream_past *past;

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

struct taking {
	const struct frame_stream *stream;
	struct stream_layer *out;
};

static int add_step(void *ctx, const struct flow_step *step)
{
	const struct taking *taking = ctx;
	struct stream_layer *out = taking->out;

	if (taking->stream->shown)
		taking->stream->shown(taking->stream->shown_ctx, out->layer,
				      step->frame->present_ns);
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
static int take_one(struct frame_stream *s, const struct layer *layer, struct stream_past *past,
		    const struct flow_input *input, size_t *consumed)
{
	const struct layer before = past->counts;
	struct flow_counts counts = {0};
	struct taking taking = {.stream = s};
	struct stream_layer *out;
	int err;

	*consumed = 0;
	if (!input->count && layer->rows == before.rows)
		return 0;
	out = take_layer(s);
	if (!out)
		return -ENOMEM;
	taking.out = out;
	out->layer = layer;
	out->period_ns = s->period_ns;
	err = flow_feed(&past->flow, input, consumed, &counts, add_step, &taking);
	if (counts.late)
		stream_lose(s, "frames_too_late", counts.late);
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
	struct timeline *fresh = stream_new_timeline(s);

	if (!fresh)
		return -ENOMEM;
	stream_lose(s, "frame_streams_restarted", 1);
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

	stream_free_taken(s);
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
