/* SPDX-License-Identifier: BSD-2-Clause */
/* The flag of the startup source. */
#include <errno.h>
#include <string.h>

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

static struct source *find(const struct source_wishes *wishes, const char *name)
{
	for (size_t i = 0; i < wishes->made_count; i++)
		if (!strcmp(wishes->made[i]->ops->name, name))
			return wishes->made[i];
	return NULL;
}

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct startup_flags *flags = from;

	errno = 0;
	*needed = true;
	return flags->startup ? startup_source_new(find(wishes, "cpu"), find(wishes, "blocks"),
						   find(wishes, "frames"))
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
