/* SPDX-License-Identifier: BSD-2-Clause */
/* Totals of where the targets' tasks ran: by cluster and by frequency, and by what their processes
 * were. */
#pragma once
#include "jankscope/record.h"
#include "summary/split.h"

/* Totals by cluster and frequency that there can be: a phone has some 70. Records may come from a
 * file that somebody made. */
#define CLUSTER_TOTALS 512

/* Which totals there are, and what PerfDog's normalised CPU is made of. Begins as all 0. */
struct cluster_sums {
	struct {
		uint32_t cluster;
		uint64_t khz; /* 0: not known; UINT64_MAX: the cluster's own */
	} keys[CLUSTER_TOTALS];
	size_t count;
	/* time by how far the CPUs were from their highest frequency, and time at frequencies that
	 * are not known */
	double slices_ns, unknown_ns;
};

/* Adds a value to the total of that key path. 0 or -ENOMEM. */
typedef int (*cluster_add_fn)(void *ctx, const char *key, double value);

/* Add the clusters of an interval: "targets.clusters.NUMBER.cpu_ns" and, of each frequency,
 * ".KHZ_khz_ns" or ".unknown_ns"; past CLUSTER_TOTALS of them, "targets.clusters.other_ns". 0 or
 * the add's error. */
int clusters_add(struct cluster_sums *sums, const struct record_cpu *cpu, cluster_add_fn add,
		 void *ctx);

/* What the process of a task was (enum split_state); -1: nobody knows that process. */
typedef int (*cluster_state_fn)(void *ctx, const struct record_task *task);

/* Add the same below each state ("foreground.clusters.NUMBER.cpu_ns") and its "fnorm_ns", by the
 * rows of the tasks: each total's parts are that total, and what is in no row of a process that is
 * known is unknown. The interval's clusters_add() comes first. 0, -ENOMEM or the add's error. */
int clusters_split(struct cluster_sums *sums, const struct record_cpu *cpu,
		   cluster_state_fn state_of, void *state_ctx, cluster_add_fn add, void *ctx);
