/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the frames source; its fields are in fields.c, its losses in frames.c. */
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

const struct source_declaration frames_declaration = {
	.name = "frames",
	.losses = &frames_losses,
	.part = &frames_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct frames_flags),
	.make = make,
};
