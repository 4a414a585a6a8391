/* SPDX-License-Identifier: BSD-2-Clause */
/* What ended tasks did in an interval that has too many of them for a row each: a sum for each
 * process, up to 1,024 of them, and one for all. */
#pragma once
#include <stdbool.h>
#include <uthash.h>

#include "jankscope/record.h"

struct folded_process {
	struct folded_key {
		uint64_t start_boot_ns;
		uint64_t pid;
	} key;
	struct record_task sum; /* pid, uid, process_start_boot_ns, cpu_ns, runnable_ns */
	unsigned threads;
	UT_hash_handle hh;
};

struct cpu_folded {
	struct folded_process *processes;
	uint64_t cpu_ns; /* of this interval, also of processes without room */
	uint64_t tasks;  /* since the start */
};

/* Add what a task did; first: it was not added before. */
void cpu_folded_add(struct cpu_folded *folded, const struct record_task *did, bool first);
/* The process after `before`, NULL: the first one; NULL: there is none. */
const struct folded_process *cpu_folded_next(const struct cpu_folded *folded,
					     const struct folded_process *before);
/* The interval is closed; or all is to be freed. */
void cpu_folded_clear(struct cpu_folded *folded);
