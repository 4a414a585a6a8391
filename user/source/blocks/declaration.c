/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the blocks source; its losses are in losses.c, its record in record/fields.c. */
#include <errno.h>
#include <string.h>

#include "source/blocks/blocks.h"
#include "source/declarations.h"

struct blocks_flags {
	const char *thread; /* NULL: main threads */
	int stack;          /* enum blocks_stack */
	int detector;       /* enum looper_detector; 0: the best */
	bool one_by_one;
};

_Static_assert(sizeof(struct blocks_flags) <= SOURCE_FLAGS_BYTES, "flags");

#define PLACE(member) offsetof(struct blocks_flags, member)

static const struct option_row rows[] = {
	{0, "stack", "HOW", "stacks of blocks: how they may be captured", VERB_LIVE, OPTION_CHOICE,
	 PLACE(stack), "auto snapshot perf ptrace off"},
	{0, "thread", "GLOB",
	 "watch the thread of this name instead of the main thread of each target", VERB_LIVE,
	 OPTION_TEXT, PLACE(thread)},
	{0, "detector", "HOW", "how blocks are found", VERB_LIVE, OPTION_CHOICE, PLACE(detector),
	 "auto uprobe syscall switch"},
	{0, "perf-uprobes", NULL, "attach one uprobe at a time, as kernels before 6.6 need it",
	 VERB_LIVE, OPTION_FLAG, PLACE(one_by_one), .tune = true},
};

/* Main threads are watched where somebody asked for certain programs. */
static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct blocks_flags *flags = from;
	const struct blocks_options options = {
		.detector = flags->detector,
		.stack = (enum blocks_stack)flags->stack,
		.thread = flags->thread,
		.test_one_by_one = flags->one_by_one,
		.btf_path = wishes->btf_path,
	};

	*needed = flags->detector != 0;
	errno = 0;
	if (!wishes->targets)
		return NULL;
	for (size_t i = 0; i < wishes->made_count; i++)
		if (!strcmp(wishes->made[i]->ops->name, "cpu"))
			return blocks_source_new(&options, wishes->made[i]);
	return NULL;
}

const struct source_declaration blocks_declaration = {
	.name = "blocks",
	.losses = &blocks_losses,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct blocks_flags),
	.make = make,
};
