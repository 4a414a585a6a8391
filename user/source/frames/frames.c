/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"
#include "source/frames/frames.h"
#include "record/histogram.h"
#include "core/rights.h"
#include "summary/summary.h"
#include "jankscope/target.h"
#include "source/flight/flight.h"
#include "source/frames/input.h"
#include "source/frames/janks.h"
#include "source/frames/names.h"
#include "source/frames/owners.h"
#include "source/frames/sums.h"
#include "source/frames/told.h"
#include "util/clock.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKAGE_LEN 256
#define MAX_RETIRED 8 /* traces that ended within one interval */
/* Late frames are judged so often also where an interval is longer: the flight recorder's ring of a
 * busy thread reaches back some seconds only. */
#define TELL_NS       NSEC_PER_SEC
#define TELL_SLACK_NS (100 * NSEC_PER_MSEC)

struct frames_source {
	struct source source;
	struct frames_options options;
	const struct source_context *context;
	struct frame_stream *stream;
	struct frame_stream
		*retired[MAX_RETIRED];     /* of traces that ended: taken at the next sample */
	size_t retired_count, given_count; /* given: those whose layers were handed out */
	struct frames_input *input;
	struct frames_names *names; /* NULL: the pids are of another device */
	struct owners *owners;
	struct frames_told told;
	struct source *flight;      /* NULL: none runs */
	struct frames_janks *janks; /* NULL: no frame is judged */
	int janks_err;              /* that a callback could not return */
	uint64_t history_until_ns;  /* layers that settle until then are of the trace's past */
	struct record_layer *layers;
	size_t layer_count, layer_capacity;
	struct loss_sums losses;
	int timer;           /* -1: no frame is judged */
	uint64_t settled_ns; /* when frames were judged last */
	uint64_t shown, dropped, janky, rows;
	bool opened;
};

static struct frames_source *of(struct source *source)
{
	return (struct frames_source *)source;
}

static void on_lose(void *ctx, const char *reason, uint64_t count)
{
	loss_sums_add(&((struct frames_source *)ctx)->losses, reason, count);
}

static void on_tell(void *ctx, const char *word, const char *text)
{
	struct frames_source *s = ctx;
	struct record_event event = {
		.event = word,
		.keys = {{.name = "source", .text = "frames"}, {.name = "reason", .text = text}},
		.key_count = 2,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	if (!strcmp(word, "degraded"))
		s->source.state = SOURCE_DEGRADED;
	else if (!strcmp(word, "recovered"))
		s->source.state = SOURCE_OK;
	snprintf(s->source.reason, sizeof(s->source.reason), "%s", text);
	/* before the header was written, the header says it */
	if (s->opened)
		s->context->emit(s->context->emit_ctx, &record);
}

static void on_gap(void *ctx, int64_t from_ns, int64_t until_ns, const char *text)
{
	struct frames_source *s = ctx;
	struct record_event event = {
		.event = "gap",
		.keys = {{"source", "frames", 0},
			 {"reason", text, 0},
			 {"from_boot_ns", NULL, from_ns},
			 {"until_boot_ns", NULL, until_ns}},
		.key_count = until_ns ? 4 : 3,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	s->context->emit(s->context->emit_ctx, &record);
}

static void on_stream_loss(void *ctx, const char *reason, uint64_t count)
{
	loss_sums_set(&((struct frames_source *)ctx)->losses, reason, count);
}

/* 0: at any time. Times of another device say nothing of pids here. */
static uint64_t time_of(const struct frames_source *s, int64_t at_ns)
{
	return s->names && at_ns > 0 ? (uint64_t)at_ns : 0;
}

/* SurfaceFlinger's counters carry its own pid; the layer's name says whose they are. */
static bool wanted(const struct frames_source *s, int32_t pid, int64_t at_ns, const char *package)
{
	return owners_have(s->owners, pid, time_of(s, at_ns)) ||
	       owners_are_called(s->owners, package);
}

/* Whose a layer was at that time. Its process may have ended, and its pid be another one's. */
static const char *package_of(struct frames_source *s, struct frame_stream *stream,
			      const struct layer *layer, int64_t at_ns, char buffer[PACKAGE_LEN])
{
	struct name_table *table = frame_stream_names(stream);
	int32_t pid = layer->source == LAYER_BUFFER ? -1 : layer->pid;
	const char *left = owners_left(s->owners, pid, time_of(s, at_ns));

	if (left) {
		snprintf(buffer, PACKAGE_LEN, "%s", left);
		buffer[strcspn(buffer, ":")] = 0;
		return buffer;
	}
	if (owners_began_later(s->owners, pid, time_of(s, at_ns)))
		pid = -1; /* only the layer's own name is of that time */
	else if (stream == s->stream && s->names)
		frames_names_look(s->names, table, layer->pid);
	return name_table_package_of(table, pid, layer->name, buffer, PACKAGE_LEN);
}

static void on_late(void *ctx, const struct layer *layer, const struct timeline_late *late)
{
	struct frames_source *s = ctx;
	struct name_table *table = frame_stream_names(s->stream);
	char buffer[PACKAGE_LEN];
	const char *package, *process;

	if (s->janks_err || late->machine)
		return;
	package = package_of(s, s->stream, layer, late->start_ns, buffer);
	if (!wanted(s, late->pid, late->start_ns, package))
		return;
	process = owners_name(s->owners, late->pid, time_of(s, late->start_ns));
	if (!process && !owners_began_later(s->owners, late->pid, time_of(s, late->start_ns)))
		process = name_table_process_name(table, late->pid);
	s->janks_err = frames_janks_take(s->janks, layer, package, process, late);
}

/* The trace is of this machine. */
static bool on_boot_of(void *ctx, int64_t mono_ns, int64_t *boot_ns)
{
	return frames_janks_boot_of(((struct frames_source *)ctx)->janks, mono_ns, boot_ns);
}

static void watch(struct frames_source *s)
{
	frames_told_watch(&s->told, s->stream, s->names);
	if (s->janks)
		frame_stream_watch_late(s->stream, on_late, on_boot_of, s);
}

static void tell_launches(struct frames_source *s, bool final)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	on_lose(s, "launches_over_limit",
		frames_told_emit(&s->told, now_ns, s->input->window_ns, final));
}

/* A trace is over: what its stream lost stays, and another one begins. */
static int on_restart(void *ctx)
{
	struct frames_source *s = ctx;
	struct frame_stream *fresh = frame_stream_new();
	int err;

	if (!fresh)
		return -ENOMEM;
	err = frame_stream_settle(s->stream, 0, 0, true);
	/* Its last frames are taken with the next sample: a launch that waits for one is told
	 * without. */
	tell_launches(s, true);
	frame_stream_watch(s->stream, NULL, NULL);
	frame_stream_watch_late(s->stream, NULL, NULL, NULL);
	if (s->names) {
		/* the names that were looked up are in the old stream's table */
		frames_names_free(s->names);
		s->names = frames_names_new();
	}
	frame_stream_each_loss(s->stream, on_stream_loss, s);
	loss_sums_end(&s->losses);
	if (s->retired_count < MAX_RETIRED) {
		s->retired[s->retired_count++] = s->stream;
	} else {
		on_lose(s, "traces_within_one_interval", 1);
		frame_stream_free(s->stream);
	}
	s->stream = s->input->stream = fresh;
	watch(s);
	return err;
}

/* Read what has come and settle what can no longer change, which judges its late frames. */
static int settle(struct frames_source *s, bool final)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int err = owners_look(s->owners, now_ns);

	if (err)
		return err;
	err = s->input->ops->poll(s->input, final);
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	s->settled_ns = now_ns;
	if (!err)
		err = frame_stream_error(s->stream);
	/* of a file as it was found the parts lie in any order: all of it comes before any of it
	 * is settled */
	if (!err && !s->input->in_history)
		err = frame_stream_settle(s->stream, now_ns, s->input->window_ns, final);
	/* Behind it: the last one of a run has no other behind it. */
	if (s->janks)
		frames_janks_turn(s->janks, on_lose, s);
	return err ?: s->janks_err;
}

static int on_timer(void *ctx, uint32_t events)
{
	struct frames_source *s = ctx;
	int err = 0;

	if (clock_now_ns(CLOCK_MONOTONIC) - s->settled_ns >= TELL_NS - 2 * TELL_SLACK_NS)
		err = settle(s, false);
	/* The interval tells of others. */
	return err == -ENOMEM ? err : 0;
}

static int begin_timer(struct frames_source *s, struct loop *loop)
{
	if (!s->janks)
		return 0;
	s->timer = loop_add_timer(loop, TELL_NS, TELL_NS, on_timer, s);
	return s->timer < 0 ? s->timer : loop_set_slack(loop, s->timer, TELL_SLACK_NS);
}

static int frames_open(struct source *source, const struct source_context *context)
{
	struct frames_source *s = of(source);
	char reason[sizeof(source->reason)] = "";
	bool local;
	int err;

	s->context = context;
	s->stream = frame_stream_new();
	local = !strcmp(s->options.mode, "perfetto") || !strcmp(s->options.mode, "live");
	s->names = local ? frames_names_new() : NULL;
	if (!strcmp(s->options.mode, "perfetto"))
		s->input = frames_input_perfetto();
	else if (local)
		s->input = frames_input_tracefs();
	else
		s->input = frames_input_follow();
	s->owners = owners_new(context->targets);
	if (!s->stream || !s->input || !s->owners || (local && !s->names)) {
		snprintf(source->reason, sizeof(source->reason), "out of memory");
		return -ENOMEM;
	}
	s->input->options = &s->options;
	s->input->warden = context->warden;
	s->input->stream = s->stream;
	if (owners_look(s->owners, clock_now_ns(CLOCK_MONOTONIC)))
		return -ENOMEM;
	s->told.context = context;
	s->told.owners = s->owners;
	/* Of another device's trace nothing was recorded here. */
	s->janks = local && s->flight ? frames_janks_new(context, s->flight) : NULL;
	if (local && s->flight && !s->janks)
		return -ENOMEM;
	s->told.janks = s->janks;
	watch(s);
	s->input->tell = on_tell;
	s->input->tell_gap = on_gap;
	s->input->lose = on_lose;
	s->input->restart = on_restart;
	s->input->ctx = s;
	source->variant = s->input->ops->variant;
	source->state = SOURCE_OK;
	err = s->input->ops->open(s->input, context->loop, reason, sizeof(reason));
	s->opened = !err;
	if (!err)
		return begin_timer(s, context->loop);
	snprintf(source->reason, sizeof(source->reason), "%s", reason);
	return err;
}

static void free_layers(struct frames_source *s)
{
	for (size_t i = 0; i < s->layer_count; i++)
		free((char *)s->layers[i].package);
	s->layer_count = 0;
}

static int add_layer(struct frames_source *s, struct frame_stream *stream,
		     const struct stream_layer *from)
{
	char buffer[PACKAGE_LEN];
	const char *package;
	struct record_layer *layer;

	package = package_of(s, stream, from->layer, from->first_shown_ns, buffer);
	if (!wanted(s, from->layer->pid, from->first_shown_ns, package))
		return 0;
	if (s->layer_count == s->layer_capacity) {
		size_t capacity = s->layer_capacity ? s->layer_capacity * 2 : 16;
		struct record_layer *layers = realloc(s->layers, capacity * sizeof(*layers));

		if (!layers)
			return -ENOMEM;
		s->layers = layers;
		s->layer_capacity = capacity;
	}
	layer = &s->layers[s->layer_count];
	*layer = (struct record_layer){
		.pid = from->layer->pid,
		.package = package ? strdup(package) : NULL,
		.layer = from->layer->name,
		.period_ns = SOME_U64((uint64_t)from->period_ns),
		.shown = from->shown,
		.dropped = from->dropped,
		.janky = from->janky,
		.judged = SOME_U64(from->rows),
		.interval_hist = histogram_count(from->hist) ? from->hist : NULL,
	};
	if (package && !layer->package)
		return -ENOMEM;
	s->layer_count++;
	if (s->janks && from->period_ns > 0)
		flight_source_set_period(s->flight, (uint64_t)from->period_ns);
	if (from->shown && from->first_shown_ns > 0)
		layer->first_shown_boot_ns = SOME_U64((uint64_t)from->first_shown_ns);
	if (from->active_ns > 0)
		layer->fps_active = 1e9 * (double)from->intervals / (double)from->active_ns;
	layer->jank.app = from->app;
	layer->jank.sf = from->sf;
	layer->jank.hw = from->hw;
	layer->jank.stuffing = from->stuffing;
	layer->jank.dropped = from->dropped_rows;
	layer->jank.unknown = from->unknown;
	s->shown += from->shown;
	s->dropped += from->dropped;
	s->janky += from->janky;
	s->rows += from->rows;
	return 0;
}

static int report_losses(struct frames_source *s, struct record_interval *interval)
{
	frame_stream_each_loss(s->stream, on_stream_loss, s);
	return loss_sums_report(&s->losses, interval);
}

static int take_stream(struct frames_source *s, struct frame_stream *stream)
{
	const struct stream_layer *layers;
	size_t count;
	int err = frame_stream_take(stream, &layers, &count);

	for (size_t i = 0; !err && i < count; i++)
		err = add_layer(s, stream, &layers[i]);
	return err;
}

/* Streams whose layers were handed out with the interval before are not looked at any more. */
static void drop_given(struct frames_source *s)
{
	for (size_t i = 0; i < s->given_count; i++)
		frame_stream_free(s->retired[i]);
	s->retired_count -= s->given_count;
	memmove(s->retired, s->retired + s->given_count, s->retired_count * sizeof(s->retired[0]));
	s->given_count = 0;
}

/* Layers of the past are not of this interval: they are all told at once, and marked. What came
 * since then is settled a window later. */
static bool is_history(struct frames_source *s)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (s->input->past)
		s->history_until_ns = now_ns + s->input->window_ns;
	return now_ns < s->history_until_ns;
}

static int frames_sample(struct source *source, struct record_interval *interval)
{
	struct frames_source *s = of(source);
	bool history;
	int err;

	free_layers(s);
	drop_given(s);
	err = settle(s, interval->final);
	history = is_history(s);
	s->given_count = s->retired_count;
	for (size_t i = 0; !err && i < s->retired_count; i++)
		err = take_stream(s, s->retired[i]);
	if (!err && !s->input->in_history)
		err = take_stream(s, s->stream);
	if (!err && !s->input->in_history)
		tell_launches(s, interval->final);
	if (err == -ENOMEM)
		return err;
	if (err || (source->state == SOURCE_DEGRADED && !s->layer_count)) {
		err = missing_list_set(&interval->missing, "frames",
				       source->reason[0] ? source->reason : strerror(-err));
		return err ? err : report_losses(s, interval);
	}
	interval->frames.present = true;
	interval->frames.history = history && s->layer_count;
	interval->frames.layers = s->layers;
	interval->frames.layer_count = s->layer_count;
	return report_losses(s, interval);
}

static void frames_drop_target(struct source *source)
{
	struct frames_source *s = of(source);
	int err = owners_look_at_end(s->owners, clock_now_ns(CLOCK_MONOTONIC));

	s->janks_err = s->janks_err ?: err;
}

static bool frames_take_target(struct source *source, const struct target_process *process)
{
	struct frames_source *s = of(source);
	int err = owners_look(s->owners, clock_now_ns(CLOCK_MONOTONIC));

	s->janks_err = s->janks_err ?: err;
	return false;
}

static int frames_summarise(struct source *source, struct summary *summary)
{
	struct frames_source *s = of(source);
	int err;

	if (s->janks)
		frames_janks_flush(s->janks);
	err = summary_set_total(summary, "frames.shown", (double)s->shown);

	if (!err)
		err = summary_set_total(summary, "frames.dropped", (double)s->dropped);
	if (!err)
		err = summary_set_total(summary, "frames.janky", (double)s->janky);
	if (!err && s->told.count)
		err = summary_set_total(summary, "frames.launches", (double)s->told.count);
	/* of the frames that were to be shown, as far as FrameTimeline judged them */
	if (!err && s->rows)
		err = summary_set_total(summary, "frames.jank_pct",
					100.0 * (double)s->janky / (double)s->rows);
	return err;
}

static void frames_close(struct source *source)
{
	struct frames_source *s = of(source);

	if (s->timer >= 0)
		loop_remove_timer(s->context->loop, s->timer);
	if (s->input)
		s->input->ops->close(s->input);
	free_layers(s);
	free(s->layers);
	for (size_t i = 0; i < s->retired_count; i++)
		frame_stream_free(s->retired[i]);
	frames_names_free(s->names);
	owners_free(s->owners);
	frames_janks_free(s->janks);
	frame_stream_free(s->stream);
	free(s);
}

static const struct source_ops frames_ops = {
	.name = "frames",
	.losses = &frames_losses,
	.open = frames_open,
	.sample = frames_sample,
	.take_target = frames_take_target,
	.drop_target = frames_drop_target,
	.summarise = frames_summarise,
	.close = frames_close,
};

struct source *frames_source_new(const struct frames_options *options)
{
	struct frames_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->source.ops = &frames_ops;
	/* perfetto and setprop are started in the domains that the device's policy gives them */
	s->source.rights = strcmp(options->mode, "perfetto") && strcmp(options->mode, "live")
				   ? RIGHT_FILES
				   : RIGHT_EXEC | RIGHT_FILES;
	s->options = *options;
	s->timer = -1;
	return &s->source;
}

void frames_source_want_launches(struct source *source)
{
	of(source)->options.launches = true;
}

void frames_source_use_flight(struct source *source, struct source *flight)
{
	of(source)->flight = flight;
}
