/* SPDX-License-Identifier: BSD-2-Clause */
/* The flag of the startup source. */
#include <errno.h>

#include "source/declarations.h"
#include "source/startup/startup.h"

struct startup_flags {
	bool startup;
};

_Static_assert(sizeof(struct startup_flags) <= SOURCE_FLAGS_BYTES, "flags");

static const struct option_row rows[] = {
	{0, "startup", NULL,
	 "tell how long each start of a target took, to its first frame and to its first idle",
	 VERB_LIVE, OPTION_FLAG, offsetof(struct startup_flags, startup)},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct startup_flags *flags = from;

	errno = 0;
	*needed = true;
	return flags->startup ? startup_source_new(source_made(wishes, "cpu"),
						   source_made(wishes, "blocks"),
						   source_made(wishes, "frames"))
			      : NULL;
}

const struct source_declaration startup_declaration = {
	.name = "startup",
	.losses = &startup_losses,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct startup_flags),
	.make = make,
};
