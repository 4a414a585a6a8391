/* SPDX-License-Identifier: BSD-2-Clause */
/* Who read and wrote most of a run, in bounded memory. */
#pragma once
#include "jankscope/record.h"

struct disk_runs;

/* Tasks that are kept; of these the footer lists the first. */
#define DISK_RUNS 256

/* NULL with ENOMEM. */
struct disk_runs *disk_runs_new(void);
void disk_runs_free(struct disk_runs *runs);
/* Add the rows of an interval. Where there is no room the lightest task that is not of this
 * interval makes it, or the row itself goes to the others. 0, -ENOMEM. */
int disk_runs_add(struct disk_runs *runs, const struct record_disk *disk);
/* Up to count tasks, heaviest first, and the sum of all others, into the footer; valid until the
 * next call. 0, -ENOMEM. */
int disk_runs_take(struct disk_runs *runs, size_t count, struct record_footer *footer);
