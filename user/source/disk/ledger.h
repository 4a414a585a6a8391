/* SPDX-License-Identifier: BSD-2-Clause */
/* What each task read and wrote in the current interval, from readings of its sums since its birth.
 * A task is the address of its task_struct until that is freed, so that a reading that comes twice,
 * late or after a loss counts nothing twice. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/disk.h"

struct disk_ledger;

/* A task that read or wrote in this interval. */
struct disk_task {
	uint32_t tid, tgid, uid;
	uint64_t start_boot_ns, process_start_boot_ns;
	uint64_t end_boot_ns; /* 0: it lives */
	char comm[DISK_COMM_LEN];
	struct disk_sums now, part; /* since its birth; in this interval */
};

/* NULL with ENOMEM. */
struct disk_ledger *disk_ledger_new(void);
void disk_ledger_free(struct disk_ledger *ledger);
/* Until disk_ledger_begin a line only says from where a task counts. Tasks that are there at
 * at_boot_ns have lines by then; of one that is older, ended before and had none nothing counts. */
void disk_ledger_begin(struct disk_ledger *ledger, uint64_t at_boot_ns);
/* 0, -ENOMEM. */
int disk_ledger_take(struct disk_ledger *ledger, const struct disk_line *line);
/* The tasks of the interval, in no order; valid until disk_ledger_turn. */
size_t disk_ledger_count(const struct disk_ledger *ledger);
const struct disk_task *disk_ledger_at(const struct disk_ledger *ledger, size_t n);
/* The interval is over. */
void disk_ledger_turn(struct disk_ledger *ledger);
/* Tasks that are known; for tests and for what it costs. */
size_t disk_ledger_known(const struct disk_ledger *ledger);
