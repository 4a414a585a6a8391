/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the CPU source; its fields are in fields.c, its losses in cpu.c. */
#include <errno.h>

#include "abi/looper.h"
#include "source/cpu/cpu.h"
#include "source/declarations.h"

struct cpu_flags {
	uint64_t max_watched, task_slots, death_ring_bytes, overflow_uids;
	int mode; /* enum cpu_mode */
	bool hash;
};

_Static_assert(sizeof(struct cpu_flags) <= SOURCE_FLAGS_BYTES, "flags");

#define PLACE(member) offsetof(struct cpu_flags, member)

static const struct option_row rows[] = {
	{0, "cpu", "MODE",
	 "switch: hook every context switch; iter: walk the tasks once an interval", VERB_LIVE,
	 OPTION_CHOICE, PLACE(mode), "auto switch iter"},
	{0, "max-watched", "N",
	 "threads that may be watched at a time (default: twice the targets, at least 64, at most "
	 "4096)",
	 VERB_LIVE, OPTION_NUMBER, PLACE(max_watched), .min = 1},
	{0, "hash", NULL, "keep tasks in the hash of devices with a pid_max above 131072",
	 VERB_LIVE, OPTION_FLAG, PLACE(hash), .tune = true},
	{0, "task-slots", "N", "tasks that have room; the others go to the overflow rows",
	 VERB_LIVE, OPTION_NUMBER, PLACE(task_slots), .min = 1, .tune = true},
	{0, "death-ring", "SIZE", "ring of tasks that died, at least 4K", VERB_LIVE, OPTION_SIZE,
	 PLACE(death_ring_bytes), .tune = true},
	{0, "overflow-uids", "N", "overflow rows", VERB_LIVE, OPTION_NUMBER, PLACE(overflow_uids),
	 .min = 1, .tune = true},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct cpu_flags *flags = from;
	const struct cpu_options options = {
		.kernel = {.mode = (enum cpu_mode)flags->mode,
			   .variant = (enum program_variant)wishes->variant,
			   .btf_path = wishes->btf_path,
			   .max_watched = flags->max_watched < LOOPER_MAX_WATCHED
						  ? (uint32_t)flags->max_watched
						  : LOOPER_MAX_WATCHED,
			   .test_task_slots = (uint32_t)flags->task_slots,
			   .test_death_ring_bytes = (uint32_t)flags->death_ring_bytes,
			   .test_overflow_uids = (uint32_t)flags->overflow_uids,
			   .test_hash_slots = (uint32_t)flags->task_slots,
			   .test_hash = flags->hash},
		.top = wishes->top,
		.need_switch = wishes->targets,
	};

	*needed = true;
	return cpu_source_new(&options);
}

const struct source_declaration cpu_declaration = {
	.name = "cpu",
	.losses = &cpu_losses,
	.part = &cpu_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct cpu_flags),
	.make = make,
};
