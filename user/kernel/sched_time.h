/* SPDX-License-Identifier: BSD-2-Clause */
/* Time by CPU and frequency of the tasks of watched processes: the maps of bpf/sched_time.bpf.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/sched.h"

struct sched_kernel;

/* How the words of a row are laid out: those of the CPUs come first, then those of each cluster's
 * steps. */
struct sched_time_layout {
	uint32_t words, cpu_count;
	uint32_t base[SCHED_MAX_CPUS]; /* of the CPU's cluster; TIME_NO_STEPS: it has none */
	struct sched_step {
		struct frequency_key key;
		uint32_t step; /* from 1 */
	} * steps;
	size_t step_count;
};

/* A task's time since its row was made, copied whole: the words have it up to until_ns, and what it
 * ran from then to its next arrival (or to read_ns, of a task that does not run) was at `place`. */
struct sched_time {
	pid_t tid;
	uint64_t start_boot_ns, until_ns, unseen_ns, read_ns, left_ns;
	uint32_t place; /* with left_ns: as in struct task_time */
	bool dead;
	const uint64_t *words;
};

/* The kernel side was opened with a layout, and splits the time of what is watched. */
bool sched_kernel_splits_time(const struct sched_kernel *kernel);
/* Begin or end to watch a process; twice is once. 0, -E2BIG: as many as can be. */
int sched_kernel_time_watch(struct sched_kernel *kernel, pid_t pid);
void sched_kernel_time_unwatch(struct sched_kernel *kernel, pid_t pid);
/* The step of the CPU's frequency, and the frequency (0: not known), where no change of it was seen
 * since the attach. */
void sched_kernel_time_begin_step(struct sched_kernel *kernel, unsigned cpu, uint32_t step,
				  uint32_t khz);
/* A task has row `index`. */
bool sched_kernel_time_is_used(const struct sched_kernel *kernel, uint32_t index);
/* Copy row `index` into *out, whose words are of buffer (layout's `words` many). False: nobody has
 * the row, or it is being written. */
bool sched_kernel_time_read(struct sched_kernel *kernel, uint32_t index, uint64_t *buffer,
			    struct sched_time *out);
/* The row is told and its task dead: make it free for the next one. */
void sched_kernel_time_free(struct sched_kernel *kernel, uint32_t index);
/* Divide the present slice of a CPU, of so many ns, by the steps of its cluster: add to parts, of
 * TIME_MAX_STEPS. now_ns: CLOCK_MONOTONIC, when it had that length. */
void sched_kernel_time_parts(const struct sched_kernel *kernel, unsigned cpu, uint64_t slice_ns,
			     uint64_t now_ns, uint64_t parts[TIME_MAX_STEPS]);
/* For tests: the program on cpu_frequency; -1: there is none. */
int sched_kernel_time_program(const struct sched_kernel *kernel);
/* Changes so far to frequencies that no file lists. */
uint64_t sched_kernel_time_unlisted(const struct sched_kernel *kernel);
