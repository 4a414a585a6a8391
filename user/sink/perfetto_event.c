/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/perfetto_event.h"

#include <stdlib.h>
#include <string.h>

#include "record/folded.h"

static PerfettoTrace__DebugAnnotation *next_argument(struct perfetto_arguments *arguments,
						     const char *name)
{
	PerfettoTrace__DebugAnnotation *item;

	if (arguments->count == PERFETTO_ARGUMENTS)
		return NULL;
	item = &arguments->items[arguments->count];
	arguments->pointers[arguments->count++] = item;
	perfetto_trace__debug_annotation__init(item);
	item->name = (char *)(uintptr_t)name;
	return item;
}

void perfetto_add_number(struct perfetto_arguments *arguments, const char *name, uint64_t value)
{
	PerfettoTrace__DebugAnnotation *item = next_argument(arguments, name);

	if (!item)
		return;
	item->has_int_value = 1;
	item->int_value = (int64_t)value;
}

void perfetto_add_text(struct perfetto_arguments *arguments, const char *name, const char *text)
{
	PerfettoTrace__DebugAnnotation *item;
	char *copy = text ? strdup(perfetto_text(arguments->tracks, text)) : NULL;

	if (!copy)
		return;
	item = next_argument(arguments, name);
	if (!item) {
		free(copy);
		return;
	}
	item->string_value = copy;
	arguments->texts[arguments->text_count++] = copy;
}

void perfetto_add_thread(struct perfetto_arguments *arguments, const char *name, const char *thread,
			 pid_t tid, const char *process, pid_t pid)
{
	char text[160];

	snprintf(text, sizeof(text), "%.*s %d of %.100s %d", RECORD_COMM_LEN, thread, tid,
		 process ? process : "", pid);
	perfetto_add_text(arguments, name, text);
}

void perfetto_add_chain(struct perfetto_arguments *arguments, const struct block_link *chain,
			size_t count)
{
	static const char *const names[] = {"chain.0", "chain.1", "chain.2", "chain.3",
					    "chain.4", "chain.5", "chain.6", "chain.7"};

	for (size_t i = 0; i < count && i < sizeof(names) / sizeof(*names); i++) {
		const struct block_link *link = &chain[i];
		char text[256];

		snprintf(text, sizeof(text), "%s, %.60s: %.*s %d of %.60s %d",
			 link->how == LINK_BINDER ? "binder" : "lock", link->what ? link->what : "",
			 RECORD_COMM_LEN, link->thread, link->tid,
			 link->process ? link->process : "", link->pid);
		perfetto_add_text(arguments, names[i], text);
	}
}

void perfetto_add_stack(struct perfetto_arguments *arguments, const char *name,
			const struct record_stack *stack)
{
	char *line = stack ? stack_folded_line(stack) : NULL;
	char *end = line ? strrchr(line, ' ') : NULL;

	if (end)
		*end = 0; /* its weight */
	perfetto_add_text(arguments, name, line);
	free(line);
}

void perfetto_put_event(struct perfetto_tracks *tracks, PerfettoTrace__TrackEvent__Type type,
			uint64_t track, uint64_t t_boot_ns, const char *name,
			struct perfetto_arguments *arguments)
{
	PerfettoTrace__TracePacket packet = PERFETTO_TRACE__TRACE_PACKET__INIT;
	PerfettoTrace__TrackEvent event = PERFETTO_TRACE__TRACK_EVENT__INIT;
	char *category = "jankscope";

	event.has_type = event.has_track_uuid = 1;
	event.type = type;
	event.track_uuid = track;
	if (name) {
		event.name = perfetto_text(tracks, name);
		event.n_categories = 1;
		event.categories = &category;
	}
	if (arguments) {
		event.n_debug_annotations = arguments->count;
		event.debug_annotations = arguments->pointers;
		event.n_flow_ids = arguments->flow_count;
		event.flow_ids = arguments->flows;
		event.n_terminating_flow_ids = arguments->ending_flow != 0;
		event.terminating_flow_ids = &arguments->ending_flow;
	}
	packet.has_timestamp = 1;
	packet.timestamp = t_boot_ns;
	packet.track_event = &event;
	if (track)
		perfetto_put(tracks, &packet);
	for (size_t i = 0; arguments && i < arguments->text_count; i++)
		free(arguments->texts[i]);
}
