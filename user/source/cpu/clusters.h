/* SPDX-License-Identifier: BSD-2-Clause */
/* Which CPUs change their frequency together, which frequencies they have and how much they can do:
 * from /sys/devices/system/cpu. Nothing is guessed: what a file does not tell is not known. */
#pragma once
#include <stddef.h>

#include "jankscope/record.h"
#include "kernel/sched_time.h"

#define CLUSTERS_MAX     64
#define CLUSTER_CPU_TEXT 64

struct cpu_cluster {
	unsigned policy;             /* its number among /sys/devices/system/cpu/cpufreq/policy* */
	char cpus[CLUSTER_CPU_TEXT]; /* related_cpus, as ranges: "0-3" */
	uint32_t base;               /* its first word of a row */
	/* Ascending; khz[0] is of step 1. None: the driver lists none. */
	uint32_t khz[TIME_MAX_STEPS - 1];
	size_t count;
	uint32_t max_khz;      /* the highest that the hardware or the list has; 0: not known */
	uint32_t current_step; /* when it was read; 0: not one of the list */
	uint32_t capacity;     /* of each of its CPUs, 1024 is the strongest; 0: not known */
};

struct cpu_clusters {
	struct cpu_cluster items[CLUSTERS_MAX];
	size_t count;
	uint32_t capacities[SCHED_MAX_CPUS];
	uint8_t cluster_of[SCHED_MAX_CPUS]; /* index + 1; 0: none */
	struct sched_time_layout layout;    /* its steps are owned */
	char no_frequencies[160];           /* why time by frequency is absent; "": it is there */
	char no_capacity[160];              /* the same of capacities */
};

/* root: "" on a device, or the folder of a fixture that holds sys/. cpu_count: possible CPUs. 0 or
 * -ENOMEM. */
int cpu_clusters_read(struct cpu_clusters *clusters, const char *root, unsigned cpu_count);
void cpu_clusters_free(struct cpu_clusters *clusters);
/* Of a step: its frequency; 0 where it is not known. */
uint32_t cpu_cluster_khz(const struct cpu_cluster *cluster, uint32_t step);
