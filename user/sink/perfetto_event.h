/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of a Perfetto trace, with arguments and flows. */
#pragma once
#include "jankscope/record.h"
#include "sink/perfetto_tracks.h"

#define PERFETTO_BEGIN   PERFETTO_TRACE__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN
#define PERFETTO_END     PERFETTO_TRACE__TRACK_EVENT__TYPE__TYPE_SLICE_END
#define PERFETTO_INSTANT PERFETTO_TRACE__TRACK_EVENT__TYPE__TYPE_INSTANT

#define PERFETTO_ARGUMENTS 48
#define PERFETTO_FLOWS     64

/* What an event has beside its name. Begins zeroed but for .tracks; perfetto_put_event() ends it,
 * and frees its texts. Arguments beyond PERFETTO_ARGUMENTS are left out. */
struct perfetto_arguments {
	struct perfetto_tracks *tracks;
	PerfettoTrace__DebugAnnotation items[PERFETTO_ARGUMENTS], *pointers[PERFETTO_ARGUMENTS];
	char *texts[PERFETTO_ARGUMENTS];
	size_t count, text_count;
	uint64_t flows[PERFETTO_FLOWS]; /* that begin here */
	size_t flow_count;
	uint64_t ending_flow; /* that ends here; 0: none */
};

void perfetto_add_number(struct perfetto_arguments *arguments, const char *name, uint64_t value);
/* A copy of the text, as far as it is fit (perfetto_text()). NULL: nothing is added. */
void perfetto_add_text(struct perfetto_arguments *arguments, const char *name, const char *text);
/* "thread tid of process pid". */
void perfetto_add_thread(struct perfetto_arguments *arguments, const char *name, const char *thread,
			 pid_t tid, const char *process, pid_t pid);
/* "chain.0" to "chain.7". */
void perfetto_add_chain(struct perfetto_arguments *arguments, const struct block_link *chain,
			size_t count);
/* "stack" in the folded form; stack may be NULL. */
void perfetto_add_stack(struct perfetto_arguments *arguments, const char *name,
			const struct record_stack *stack);
/* track 0: nothing is written. name and arguments may be NULL. */
void perfetto_put_event(struct perfetto_tracks *tracks, PerfettoTrace__TrackEvent__Type type,
			uint64_t track, uint64_t t_boot_ns, const char *name,
			struct perfetto_arguments *arguments);
