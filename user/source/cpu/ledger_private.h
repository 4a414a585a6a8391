/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two files of the ledger share: ledger.c books readings, ledger_close.c closes an
 * interval. */
#pragma once
#include "source/cpu/folded.h"
#include "source/cpu/known.h"
#include "source/cpu/ledger.h"
#include "source/cpu/rows.h"
#include "source/cpu/sums.h"

struct cpu_ledger {
	uint64_t attach_boot_ns;
	uint64_t missed_seeds, told_ahead_ns;
	struct cpu_folded folded;
	uint64_t overflow_ns;
	uint64_t end_ns; /* of the last interval */
	uint32_t interval;
	struct known_tasks known;
	struct cpu_rows rows;
	/* Which tasks are to have rows where not all can, and how many such ended. */
	const struct cpu_ledger_names *wanted;
	size_t wanted_count;
	struct cpu_sums sums;
	size_t fold_rows;
};
