/* SPDX-License-Identifier: BSD-2-Clause */
/* What the footer says: totals and distributions over a run, in bounded memory. Sees the same
 * records as the sinks. */
#pragma once
#include "jankscope/record.h"

struct summary;

struct summary *summary_new(void);
void summary_free(struct summary *summary);
/* Count an interval, a block or an event. 0, -ENOMEM. */
int summary_add(struct summary *summary, const struct record *record);
/* Add a total of a source's own under a key path, like "blocks.count"; the last value stands. */
int summary_set_total(struct summary *summary, const char *key, double value);
/* The footer as of now; owned by the summary, valid until the next call. NULL with ENOMEM. */
const struct record_footer *summary_footer(struct summary *summary);
/* Share of what was lost in percent: the largest of CPU time without its task, deaths untold,
 * bytes without their uid for want of room, and intervals overrun. */
double summary_lost_pct(const struct summary *summary);
