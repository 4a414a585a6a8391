/* SPDX-License-Identifier: BSD-2-Clause */
/* The flag of the power source; its fields are in fields.c, its losses in power.c. */
#include <errno.h>

#include "source/declarations.h"
#include "source/power/power.h"

struct power_flags {
	int mode; /* 0: auto, 1: off, 2: on */
};

_Static_assert(sizeof(struct power_flags) <= SOURCE_FLAGS_BYTES, "flags");

static const struct option_row rows[] = {
	{0, "power", "MODE",
	 "battery, temperatures, frequency limits and energy from /sys, at most once a second; on: "
	 "warn where there are none",
	 VERB_LIVE, OPTION_CHOICE, offsetof(struct power_flags, mode), "auto off on"},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct power_flags *flags = from;

	errno = 0;
	*needed = false;
	return flags->mode == 1 ? NULL : power_source_new(flags->mode == 2);
}

const struct source_declaration power_declaration = {
	.name = "power",
	.losses = &power_losses,
	.part = &power_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct power_flags),
	.make = make,
};
