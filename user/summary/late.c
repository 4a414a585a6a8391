/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames by the stack that tells of each. */
#include "summary/blocks.h"
#include "summary/summary_private.h"

void summary_group_jank(struct summary *summary, const struct record_jank *jank)
{
	bool has_top = jank->top.present && jank->top.value < jank->stack_count;

	block_groups_add(summary->late, jank->late_ns,
			 has_top ? &jank->stacks[jank->top.value] : NULL);
}

int summary_set_late_paths(struct summary *summary)
{
	struct record_footer late = {0};
	int err = block_groups_take(summary->late, BLOCK_PATHS, &late);

	summary->footer.late_paths = late.block_paths;
	summary->footer.late_path_count = late.block_path_count;
	summary->footer.other_late_paths = late.other_block_paths;
	summary->footer.any_late = late.any_block;
	return err;
}
