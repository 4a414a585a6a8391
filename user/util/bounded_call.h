/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that another process can hold up. Who reads a process's memory, maps, cmdline or system
 * call, or puts a probe into it, waits for its mmap_lock or exec_update_lock; if the thread that
 * holds it gets no CPU, that lasts (9 s seen, for a process of nice 15 on a busy machine), and
 * whoever waits cannot be interrupted. So helper threads make such calls, and the caller waits for
 * them no longer than BOUNDED_CALL_NS. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BOUNDED_CALL_NS 10000000ull
/* Helpers that may be held up at a time, each by another process. */
#define BOUNDED_HELPERS 16

struct bounded_calls;

/* Starts no thread yet. NULL with errno. */
struct bounded_calls *bounded_calls_new(void);
/* Helpers that are held up still are left behind, with their jobs and the pool: their threads end
 * with the process. */
void bounded_calls_free(struct bounded_calls *calls);

/* Have run(job) called, about process pid. 0: it was, and job is the caller's again. -ETIMEDOUT: it
 * goes on, and drop(job) is called when it is done. -EBUSY: not called, the job is the caller's; a
 * helper is held up by this process already, or all are, or none got a CPU. calls NULL: run(job) is
 * called here. */
int bounded_call(struct bounded_calls *calls, pid_t pid, void (*run)(void *job),
		 void (*drop)(void *job), void *job);

/* Whether a job that was not waited for still runs: what it refers to must stay. */
bool bounded_calls_held_up(struct bounded_calls *calls);

/* Calls that were not made or not waited for. */
uint64_t bounded_calls_given_up(struct bounded_calls *calls);
