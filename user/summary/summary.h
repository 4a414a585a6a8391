/* SPDX-License-Identifier: BSD-2-Clause */
/* What the footer says: totals, who used what, and distributions over a run, in bounded memory.
 * The summary sees the same records as the sinks. */
#pragma once
#include "jankscope/record.h"

struct loss_registry;

struct summary;

/* The registry (record/losses.h) says of what each counter is a share; borrowed, may be NULL. NULL
 * with ENOMEM. */
struct summary *summary_new(const struct loss_registry *registry);
void summary_free(struct summary *summary);
/* Count an interval, a block or an event. 0, -ENOMEM. */
int summary_add(struct summary *summary, const struct record *record);
/* The next interval began then: what was between the one before and this one is not counted. */
void summary_skip(struct summary *summary, uint64_t begin_boot_ns);
/* Count losses that no interval has; of all kinds, which the registry knows. 0, -ENOMEM. */
int summary_add_losses(struct summary *summary, const struct counter_list *list);
/* Whether a scene of that name is open (summary/scenes.h). */
bool summary_scene_is_open(const struct summary *summary, const char *name);
/* Add a total of a source's own under a key path, like "blocks.count"; the last value stands. */
int summary_set_total(struct summary *summary, const char *key, double value);
/* The footer as of now; owned by the summary, valid until the next call. NULL with ENOMEM. */
const struct record_footer *summary_footer(struct summary *summary);
/* Totals, distributions and losses as of now, no rows: unlike summary_footer() it settles nothing
 * that is still open, and may be called at any time. Valid until the next call. NULL with ENOMEM.
 */
const struct record_footer *summary_so_far(struct summary *summary);
/* The counters that the summary itself declares. */
extern const struct loss_table summary_losses;
/* How much of one whole was lost, in percent of what was told and what was lost of it. -1 if
 * nothing was told and nothing lost. */
double summary_lost_pct_of(const struct summary *summary, enum loss_of of);
/* The largest of them. */
double summary_lost_pct(const struct summary *summary);
/* Every share above the limit as text, "2.00 % of blocks, 1.50 % of bytes". False: there is none.
 */
bool summary_describe_losses(const struct summary *summary, double limit_pct, char *text,
			     size_t size);
