/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames by cause. */
#include <stdio.h>

#include "record/fields.h"
#include "summary/summary_private.h"

/* "frames.causes.lock", "frames.causes.lock_ns". */
static const char *key_of(char key[64], int cause, const char *unit)
{
	snprintf(key, 64, "frames.causes.%s%s", record_jank_total((enum jank_cause)cause), unit);
	return key;
}

int summary_add_jank(struct summary *summary, const struct record_jank *jank)
{
	char key[64];
	int err;

	summary->judges_frames = true;
	scenes_select(summary->scenes, jank->window_start_ns, jank->window_end_ns);
	err = summary_add_to(summary, "frames.late", 1);
	if (!err)
		err = summary_add_to(summary, "frames.late_ns", (double)jank->late_ns);
	if (!err)
		err = split_jank(summary->split, jank);
	if (!err)
		err = summary_add_to(summary, key_of(key, jank->cause, ""), 1);
	if (!err)
		err = summary_add_to(summary, key_of(key, jank->cause, "_ns"),
				     (double)jank->late_ns);
	return err ? err : summary_add_losses(summary, &jank->lost);
}

int summary_set_janks(struct summary *summary)
{
	char key[64];
	int err = summary_ensure_total(summary, "frames.late");

	if (!err)
		err = summary_ensure_total(summary, "frames.late_ns");
	for (int cause = 0; cause < JANK_CAUSES && !err; cause++) {
		err = summary_ensure_total(summary, key_of(key, cause, ""));
		if (!err)
			err = summary_ensure_total(summary, key_of(key, cause, "_ns"));
	}
	return err;
}
