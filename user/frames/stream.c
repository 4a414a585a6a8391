/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/stream_private.h"
#include "frames/launches.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 8192
#define QUIET_NS   6000000000ULL /* longer than perfetto waits between two writes */

void stream_lose(struct frame_stream *s, const char *reason, uint64_t count)
{
	for (size_t i = 0; i < s->loss_count; i++) {
		if (!strcmp(s->losses[i].reason, reason)) {
			s->losses[i].count += count;
			return;
		}
	}
	if (count && s->loss_count < STREAM_LOSSES)
		s->losses[s->loss_count++] = (struct stream_loss){reason, count};
}

static void on_loss(void *ctx, const char *reason, uint64_t count)
{
	stream_lose(ctx, reason, count);
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

static bool on_boot_of(void *ctx, int64_t mono_ns, int64_t *boot_ns)
{
	struct frame_stream *s = ctx;

	return s->boot_of && s->boot_of(s->late_ctx, mono_ns, boot_ns);
}

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct frame_stream *s = ctx;

	if (s->err)
		return;
	s->err = slices_add(s->slices, mark);
	launches_mark(s->launches, mark);
}

static void on_process(void *ctx, int32_t pid, int64_t uid, const char *name, size_t size)
{
	struct frame_stream *s = ctx;

	if (!s->err)
		s->err = name_table_process(s->names, pid, uid, name, size);
}

static void on_thread(void *ctx, int32_t tid, int32_t tgid, const char *name, size_t size)
{
	struct frame_stream *s = ctx;

	if (!s->err)
		s->err = name_table_thread(s->names, tid, tgid, name, size);
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
		.boot_of = on_boot_of,
		.mark = on_mark,
		.process = on_process,
		.thread = on_thread,
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

static void on_late(void *ctx, const struct timeline_late *late)
{
	struct frame_stream *s = ctx;
	size_t count;
	const struct layer *layers = timeline_layers(s->timeline, &count);

	if (s->late && late->layer < count)
		s->late(s->late_ctx, &layers[late->layer], late);
}

/* Where FrameTimeline knows the frames, it knows them better. */
static void tell_long(struct frame_stream *s, int32_t pid, int64_t start_ns, int64_t end_ns,
		      uint32_t layer)
{
	int64_t period_ns = slices_rate_period(s->slices);
	struct timeline_late late = timeline_late_doframe(start_ns, end_ns, period_ns, pid, layer);

	if (end_ns - start_ns > period_ns && !timeline_counts(s->timeline)->actual)
		on_late(s, &late);
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

	frame.layer = UINT32_MAX;
	add_frame(s, pid, "Choreographer#doFrame", LAYER_CHOREOGRAPHER, &frame);
	tell_long(s, pid, start_ns, end_ns, frame.layer);
}

struct timeline *stream_new_timeline(struct frame_stream *s)
{
	const struct timeline_options options = {
		.max_layers = MAX_LAYERS, .late = on_late, .ctx = s};

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
	s->timeline = stream_new_timeline(s);
	s->slices = slices_new(&ops, s);
	s->launches = launches_new();
	s->names = name_table_new();
	if (!s->timeline || !s->slices || !s->names || !s->launches) {
		frame_stream_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void frame_stream_free(struct frame_stream *s)
{
	if (!s)
		return;
	stream_free_taken(s);
	free(s->taken);
	free(s->past);
	timeline_free(s->timeline);
	slices_free(s->slices);
	launches_free(s->launches);
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
	const struct stream_checkpoint *ripe = NULL;
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
	if (s->checkpoint_count < STREAM_CHECKPOINTS)
		s->checkpoints[s->checkpoint_count++] = (struct stream_checkpoint){
			now_ns, timeline_newest(s->timeline), slices_newest(s->slices)};
	return err;
}

bool frame_stream_shown(const struct frame_stream *s, int64_t *first_ns, int64_t *last_ns)
{
	return timeline_shown(s->timeline, first_ns, last_ns);
}

void frame_stream_watch(struct frame_stream *s, stream_shown shown, void *ctx)
{
	s->shown = shown;
	s->shown_ctx = ctx;
}

void frame_stream_watch_late(struct frame_stream *s, stream_late late, stream_clock boot_of,
			     void *ctx)
{
	s->late = late;
	s->boot_of = boot_of;
	s->late_ctx = ctx;
}

struct launches *frame_stream_launches(struct frame_stream *s)
{
	return s->launches;
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
