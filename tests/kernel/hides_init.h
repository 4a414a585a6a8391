/* SPDX-License-Identifier: BSD-2-Clause */
/* A kernel that shows no tracepoint (nor perf event of one) while a thread of process 1 is current,
 * also none of the interrupts and of RCU's work that come then: so does the kernel of the sandbox
 * that this project is built in, to hide its agent. What no tracepoint shows the product cannot
 * count, and a test that has its truth from elsewhere leaves it out. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "init_truth.skel.h"

struct init_watch {
	struct init_truth_bpf *truth; /* NULL: not to be had here */
	uint64_t slices, forks;       /* that process 1 had run, and all had made, when it began */
	enum { HIDES_UNKNOWN, HIDES_NOT, HIDES_INIT } hides;
};

/* Slices that the threads of process 1 have run (the third word of their schedstat). */
static inline uint64_t init_slices(void)
{
	DIR *dir = opendir("/proc/1/task");
	struct dirent *entry;
	uint64_t sum = 0;

	while (dir && (entry = readdir(dir))) {
		unsigned long slices = 0;
		char path[300];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/1/task/%s/schedstat", entry->d_name);
		file = fopen(path, "r");
		if (file && fscanf(file, "%*u %*u %lu", &slices) == 1)
			sum += slices;
		if (file)
			fclose(file);
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* Tasks that were born since boot. */
static inline uint64_t all_forks(void)
{
	unsigned long forks = 0;
	char line[4096];
	FILE *file = fopen("/proc/stat", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "processes %lu", &forks) == 1)
			break;
	if (file)
		fclose(file);
	return forks;
}

/* Begins to look; hides_init() then says what was seen. */
static inline void watch_init(struct init_watch *watch)
{
	*watch = (struct init_watch){.slices = init_slices(), .forks = all_forks()};
	watch->truth = init_truth_bpf__open_and_load();
	if (watch->truth && init_truth_bpf__attach(watch->truth)) {
		init_truth_bpf__destroy(watch->truth);
		watch->truth = NULL;
	}
}

/* Whether this kernel is of that kind: process 1 ran, and none of its switches was shown. False
 * where it did not run in 2 s. */
static inline bool hides_init(struct init_watch *watch)
{
	for (int tries = 0; tries < 100 && watch->truth && watch->hides == HIDES_UNKNOWN; tries++) {
		if (watch->truth->bss->init_switches)
			watch->hides = HIDES_NOT;
		else if (init_slices() - watch->slices >= 10)
			watch->hides = HIDES_INIT;
		else
			usleep(20000);
	}
	return watch->hides == HIDES_INIT;
}

/* Births since the watch began that no tracepoint showed: with --cpu iter each of these tasks, when
 * it dies, hides one death that was not shown. */
static inline uint64_t hidden_births(const struct init_watch *watch)
{
	uint64_t shown = watch->truth ? watch->truth->bss->births : 0;
	uint64_t all = all_forks() - watch->forks;

	return watch->truth && all > shown ? all - shown : 0;
}

static inline void unwatch_init(struct init_watch *watch)
{
	init_truth_bpf__destroy(watch->truth);
	watch->truth = NULL;
}
