/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of processes over a run: how its sizes are distributed and how fast they grow, for each
 * process by itself, also for those that have ended, in bounded memory. */
#pragma once
#include "jankscope/record.h"

struct memory_runs;

/* Points that a series keeps. When it is full, each two neighbours become one, their mean: each
 * point is the mean of equally many readings (1, 2, 4 ...) from then on, at the mean of their
 * times. Readings that are too few for a point at the end count as one from half of that number on.
 */
#define MEMORY_POINTS 256
/* Processes that have a row; where one more comes, that with the least memory among those that have
 * ended goes, else it has none. */
#define MEMORY_RUNS 256
/* Those of these that have ended a minute ago, the heaviest; as many rows can be taken. */
#define MEMORY_SETTLED 64

/* NULL with ENOMEM. */
struct memory_runs *memory_runs_new(void);
void memory_runs_free(struct memory_runs *runs);
/* Add an interval that ended at end_boot_ns. 0 or -ENOMEM. */
int memory_runs_add(struct memory_runs *runs, const struct record_memory *memory,
		    uint64_t end_boot_ns);
/* PSS of all processes of that interval, which was added: each by its newest reading. Present where
 * each has been read since the last sum, because one is read after the other. */
struct opt_u64 memory_runs_sum_pss(struct memory_runs *runs, const struct record_memory *memory);
/* Processes that KOOM would have called short of descriptors or of threads (summary/koom.h); not
 * judged where no process has had three looks in a row. */
struct memory_koom {
	bool judged;
	uint64_t fd_processes, thread_processes;
};
struct memory_koom memory_runs_koom(const struct memory_runs *runs);
/* Fill in the footer's rows, `count` at most. They are owned by the runs and valid until the next
 * call. 0 or -ENOMEM. */
int memory_runs_take(struct memory_runs *runs, size_t count, struct record_footer *footer);
