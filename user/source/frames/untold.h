/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames whose stacks are being unwound: each record goes out when they are there, in the
 * order of the frames, or without them when that takes too long. */
#pragma once
#include "jankscope/source.h"

struct frames_untold;

/* sampler: the source that has the samples of frames, borrowed. NULL with errno ENOMEM. */
struct frames_untold *frames_untold_new(const struct source_context *context,
					struct source *sampler);
/* Those that wait are not told. */
void frames_untold_free(struct frames_untold *untold);
/* Tell the record, now or later. What it owns is taken over, also on failure; its texts are copied.
 * 0 or -ENOMEM. */
int frames_untold_add(struct frames_untold *untold, struct record_jank *jank);
/* Tell all that wait, as they are. */
void frames_untold_flush(struct frames_untold *untold);
