/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the disk source; its fields are in fields.c, its losses in disk.c. */
#include <errno.h>

#include "source/declarations.h"
#include "source/disk/disk.h"

struct disk_flags {
	uint64_t ring_bytes;
	bool disk, tracepoints;
};

_Static_assert(sizeof(struct disk_flags) <= SOURCE_FLAGS_BYTES, "flags");

#define PLACE(member) offsetof(struct disk_flags, member)

static const struct option_row rows[] = {
	{0, "disk", NULL,
	 "bytes that tasks read and write, and how long fsync and its like took them", VERB_LIVE,
	 OPTION_FLAG, PLACE(disk)},
	{0, "disk-ring", "SIZE", "ring of tasks that ended, for the bytes that they read and wrote",
	 VERB_LIVE, OPTION_SIZE, PLACE(ring_bytes), .min = 4096, .tune = true},
	{0, "disk-tracepoints", NULL,
	 "fsync by the tracepoints of ext4 and f2fs, also where there are kprobes", VERB_LIVE,
	 OPTION_FLAG, PLACE(tracepoints), .tune = true},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct disk_flags *flags = from;
	const struct disk_options options = {
		.btf_path = wishes->btf_path,
		.top = wishes->top,
		.tracepoints = flags->tracepoints,
		.ring_bytes = flags->ring_bytes < 1u << 30 ? (uint32_t)flags->ring_bytes : 1u << 30,
	};

	errno = 0;
	/* What was asked for by name must be there. */
	*needed = true;
	return flags->disk ? disk_source_new(&options) : NULL;
}

const struct source_declaration disk_declaration = {
	.name = "disk",
	.losses = &disk_losses,
	.part = &disk_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct disk_flags),
	.make = make,
};
