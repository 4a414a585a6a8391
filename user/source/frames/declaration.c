/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags and losses of the frames source; its fields are in fields.c. */
#include <errno.h>
#include <string.h>

#include "source/declarations.h"
#include "source/frames/frames.h"

struct frames_flags {
	const char *from; /* live, perfetto, off or a file; NULL: off */
	bool force;
};

_Static_assert(sizeof(struct frames_flags) <= SOURCE_FLAGS_BYTES, "flags");

#define PLACE(member) offsetof(struct frames_flags, member)

static const struct option_row rows[] = {
	{0, "frames", "MODE",
	 "frame timing from live (tracefs), perfetto, or a trace FILE that is being written",
	 VERB_LIVE, OPTION_TEXT, PLACE(from), .words = "live perfetto off", .file = true},
	{0, "frames-force", NULL, "live: take the trace buffer although something else traces",
	 VERB_LIVE, OPTION_FLAG, PLACE(force)},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct frames_flags *flags = from;
	const struct frames_options options = {.mode = flags->from, .force = flags->force};

	errno = 0;
	*needed = true;
	return flags->from && strcmp(flags->from, "off") ? frames_source_new(&options) : NULL;
}

static const struct loss_info frames_loss_items[] = {
	/* Each of these holds one event of a frame at the least. */
	{"frames.ftrace_lost_events", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.ftrace_bundles_with_loss", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.ftrace_bundles_without_clock", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.malformed_ftrace_bundles", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.malformed_markers", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.malformed_ring_pages", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.malformed_timeline_events", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.malformed_packets", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.damaged_compressed_packets", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.oversized_compressed_packets", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.oversized_packets", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.packets_dropped_by_writer", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.packets_without_state", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.truncated_packets", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.chunks_overwritten", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.writer_packet_loss", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.overlong_lines", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.frames_too_late", LOSS_LOST, LOSS_OF_FRAMES},
	{"frames.launches_over_limit", LOSS_LOST, LOSS_OF_NOTHING},
	/* late frames that come at once, beyond those that are judged then */
	{"frames.janks_not_judged", LOSS_LOST, LOSS_OF_FRAMES},
	/* late frames that are told although no ring has their main thread (any more) */
	{"frames.janks_not_recorded", LOSS_LOST, LOSS_OF_NOTHING},
	/* what had come of the trace before is counted */
	{"frames.trace_files_restarted", LOSS_REPAIRED, LOSS_OF_NOTHING},
};

const struct loss_table frames_losses = {
	frames_loss_items, sizeof(frames_loss_items) / sizeof(*frames_loss_items), NULL};

const struct source_declaration frames_declaration = {
	.name = "frames",
	.losses = &frames_losses,
	.part = &frames_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct frames_flags),
	.make = make,
};
