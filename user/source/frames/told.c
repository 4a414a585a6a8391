/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/told.h"

#include <string.h>

#include "frames/launches.h"
#include "jankscope/target.h"
#include "source/frames/janks.h"
#include "source/frames/names.h"
#include "source/frames/owners.h"
#include "why/cut.h"

static void on_shown(void *ctx, const struct layer *layer, int64_t present_ns)
{
	const struct frames_told *told = ctx;
	struct launches *launches = frame_stream_launches(told->stream);
	struct name_table *table = frame_stream_names(told->stream);
	char buffer[256];
	const char *package;

	if (!launches_want_frame(launches, present_ns))
		return;
	if (told->names)
		frames_names_look(told->names, table, layer->pid);
	/* The counters of buffers carry SurfaceFlinger's pid. */
	package = name_table_package_of(table, layer->source == LAYER_BUFFER ? -1 : layer->pid,
					layer->name, buffer, sizeof(buffer));
	if (package)
		launches_frame(launches, package, present_ns);
}

void frames_told_watch(struct frames_told *told, struct frame_stream *stream,
		       struct frames_names *names)
{
	told->stream = stream;
	told->names = names;
	told->lost = 0;
	frame_stream_watch(stream, on_shown, told);
}

static const char *process_name(void *ctx, int32_t pid)
{
	const struct frames_told *told = ctx;
	struct name_table *table = frame_stream_names(told->stream);

	if (told->names)
		frames_names_look(told->names, table, pid);
	return name_table_process_name(table, pid);
}

static void emit(const struct frames_told *told, const struct record_event *event)
{
	struct record record = {.type = RECORD_EVENT, .event = event};

	told->context->emit(told->context->emit_ctx, &record);
}

/* What the main thread did until the first frame, else until the windows were drawn. */
static void add_ledger(const struct frames_told *told, const struct launch *launch,
		       struct record_event *event)
{
	static const struct {
		const char *name;
		enum spell_state state;
	} parts[] = {{"running_ns", SPELL_RUNNING},
		     {"runnable_ns", SPELL_RUNNABLE},
		     {"sleeping_ns", SPELL_SLEEPING},
		     {"uninterruptible_ns", SPELL_UNINTERRUPTIBLE},
		     {"stopped_ns", SPELL_STOPPED}};
	const struct target_process *process;
	struct why_ledger ledger;
	size_t i = 0;

	/* Others of the package are called "package:name". */
	while ((process = target_set_at(told->context->targets, i)) &&
	       strcmp(process->process, launch->package))
		i++;
	if (!process || !frames_janks_ledger(told->janks, process->pid, launch->start_ns,
					     launch->first_frame_ns ?: launch->end_ns, &ledger)) {
		event->keys[event->key_count++] = (struct event_key){
			.name = "no_ledger", .text = "not all of that time was recorded"};
		return;
	}
	event->keys[event->key_count++] = (struct event_key){.name = "pid", .value = process->pid};
	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		event->keys[event->key_count++] = (struct event_key){
			.name = parts[i].name, .value = ledger.ns[parts[i].state]};
}

static void emit_launch(const struct frames_told *told, const struct launch *launch,
			const char *no_frame)
{
	struct record_event event = {
		.event = "launch",
		.keys = {{.name = "number", .value = (int64_t)launch->number},
			 {.name = "package", .text = launch->package},
			 {.name = "kind", .text = launch_kind_name(launch->kind)},
			 {.name = "start_boot_ns", .value = launch->start_ns},
			 {.name = "drawn_ns", .value = launch->end_ns - launch->start_ns}},
		.key_count = 5,
	};

	event.keys[event.key_count++] =
		launch->first_frame_ns
			? (struct event_key){.name = "first_frame_ns",
					     .value = launch->first_frame_ns - launch->start_ns}
			: (struct event_key){.name = "no_first_frame", .text = no_frame};
	if (told->janks && told->context->targets)
		add_ledger(told, launch, &event);
	emit(told, &event);
}

uint64_t frames_told_emit(struct frames_told *told, uint64_t now_ns, uint64_t window_ns, bool final)
{
	struct launches *launches = frame_stream_launches(told->stream);
	struct launch launch;
	struct focus focus;
	uint64_t lost;

	while (launches_take(launches, process_name, told, now_ns, window_ns, final, &launch)) {
		if (!owners_are_called(told->owners, launch.package))
			continue;
		told->count++;
		emit_launch(told, &launch,
			    final ? "the trace ended before" : "none of it was seen by then");
	}
	while (launches_take_focus(launches, process_name, told, &focus)) {
		const struct record_event event = {
			.event = "focus",
			.keys = {{.name = "activity", .text = focus.activity},
				 {.name = "since_boot_ns", .value = focus.since_ns}},
			.key_count = 2,
		};

		emit(told, &event);
	}
	lost = launches_lost(launches) - told->lost;
	told->lost += lost;
	return lost;
}
