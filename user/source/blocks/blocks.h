/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks source: long busy periods of the main threads of the targets. */
#pragma once
#include "jankscope/source.h"

/* Rows of --stack, in the order of its choices. */
enum blocks_stack {
	BLOCKS_STACK_AUTO = 0,
	BLOCKS_STACK_SNAPSHOT = 1,
	BLOCKS_STACK_PERF = 2,
	BLOCKS_STACK_PTRACE = 3,
	BLOCKS_STACK_OFF = 4,
};

struct blocks_options {
	int detector; /* enum looper_detector; 0: the best that works */
	enum blocks_stack stack;
	const char *btf_path;
	const char *thread;   /* glob of the thread to watch; NULL: main threads */
	bool test_one_by_one; /* tests only: uprobes as kernels before 6.6 have them */
};

/* The wait of a watched thread in its own loop. */
struct blocks_wait {
	pid_t tid;
	uint64_t since_mono_ns; /* when it left its CPU for it */
	bool exact;             /* false: it waited already when the watch began */
};

/* Whether the watched thread of the process waits in its own loop now. */
bool blocks_source_waits(struct source *source, pid_t pid, uint64_t start_boot_ns,
			 struct blocks_wait *wait);

struct looper_kernel;
/* The loaded kernel side, with its wake-ups hooked where that was possible; NULL before open. */
struct looper_kernel *blocks_source_kernel(struct source *source);
/* --thread; NULL: main threads are watched. */
const char *blocks_source_thread(struct source *source);

/* cpu: the CPU source, added to the session before this one with need_switch; borrowed. NULL with
 * errno ENOMEM. */
struct source *blocks_source_new(const struct blocks_options *options, struct source *cpu);
