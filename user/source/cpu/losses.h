/* SPDX-License-Identifier: BSD-2-Clause */
/* What CPU accounting lost, told late or made good, interval by interval. */
#pragma once
#include "abi/sched.h"
#include "source/cpu/read_out.h"

struct counter_list;
struct cpu_ledger;
struct cpu_names;
struct sched_kernel;
struct target_set;

/* What counters stood at when they were told last. All of it begins as 0. */
struct cpu_losses_told {
	uint64_t missed_seeds, folded, names_dropped, told_ahead_ns;
	uint64_t kernel[SCHED_LOSS_MAX], missed_runs, torn_reads;
	struct cpu_reader_counts reader;
};

/* Whose counters they are; kernel may be NULL. */
struct cpu_losses_of {
	struct sched_kernel *kernel;
	struct cpu_ledger *ledger;
	struct cpu_reader *reader;
	const struct cpu_names *names;
	struct target_set *targets;
};

/* Adds to lost what grew since told, and brings told up to now. Where the name of a process was not
 * told the targets are looked for again. */
void cpu_losses_add(struct cpu_losses_told *told, const struct cpu_losses_of *of,
		    struct counter_list *lost);
