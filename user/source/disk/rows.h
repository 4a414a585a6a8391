/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of an interval: tasks, and processes by their tasks and by their calls. */
#pragma once
#include <stddef.h>

#include "abi/disk.h"
#include "jankscope/record.h"
#include "source/disk/ledger.h"

struct disk_rows;
struct target_set;

/* NULL with ENOMEM. */
struct disk_rows *disk_rows_new(void);
void disk_rows_free(struct disk_rows *rows);
/* A process has these sums of calls since the beginning. baseline: they count from here. 0 or
 * -ENOMEM. */
int disk_rows_take_syncs(struct disk_rows *rows, const struct disk_process *process,
			 const struct disk_syncs *syncs, bool baseline);
/* The n-th process that has called nothing since many readings, NULL past the end. */
const struct disk_process *disk_rows_idle(struct disk_rows *rows, size_t n);
/* It is no more. */
void disk_rows_forget(struct disk_rows *rows, const struct disk_process *process);
/* Rows of the targets (or of all), heaviest first, top of them (0: all). What the record points to
 * is valid until the next call. 0 or -ENOMEM. */
int disk_rows_fill(struct disk_rows *rows, const struct disk_ledger *ledger,
		   struct target_set *targets, size_t top, struct record_disk *disk);
