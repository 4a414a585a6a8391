/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the memory source; its fields are in fields.c, its losses in memory.c. */
#include <errno.h>

#include "source/declarations.h"
#include "source/memory/memory.h"
#include "util/clock.h"

struct memory_flags {
	uint64_t smaps_ns; /* 0: off */
};

_Static_assert(sizeof(struct memory_flags) <= SOURCE_FLAGS_BYTES, "flags");

static const struct option_row rows[] = {
	{0, "smaps", "DUR|off",
	 "how often PSS, private and swapped memory of each target are read, which takes its "
	 "mmap_lock (default 10s)",
	 VERB_LIVE, OPTION_DURATION, offsetof(struct memory_flags, smaps_ns), .min = 1,
	 .words = "off"},
};

static const struct memory_flags defaults = {.smaps_ns = 10 * NSEC_PER_SEC};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct memory_flags *flags = from;
	const struct memory_options options = {.smaps_ns = flags->smaps_ns};

	errno = 0;
	*needed = false;
	return memory_source_new(&options);
}

const struct source_declaration memory_declaration = {
	.name = "memory",
	.losses = &memory_losses,
	.part = &memory_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct memory_flags),
	.defaults = &defaults,
	.make = make,
};
