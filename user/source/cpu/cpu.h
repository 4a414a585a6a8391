/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU source: exact time, run-queue wait and switches per task, process, uid and machine. */
#pragma once
#include "jankscope/source.h"
#include "kernel/sched_kernel.h"

struct cpu_options {
	struct sched_kernel_options
		kernel;   /* mode AUTO: iterator from 1 s on, else the switch hook */
	bool need_switch; /* blocks are watched: the hook runs anyway */
	size_t top;       /* tasks a record lists; 0: all */
	/* Rows of an interval from which on ended tasks are folded; 0: as the ledger has it. */
	size_t test_fold_rows;
	const char *test_sys_root; /* of a made-up /sys/devices/system/cpu; NULL: the real one */
};

/* NULL with errno ENOMEM. Options are copied; their strings must live as long as the source. */
struct source *cpu_source_new(const struct cpu_options *options);

/* Threads are to be recorded by kernel/flight_kernel.h; before the source is opened. */
void cpu_source_want_flight(struct source *source);

/* The loaded kernel side, for the blocks source that shares its task slots; NULL before open and
 * where only /proc is left. */
struct sched_kernel *cpu_source_kernel(struct source *source);
