/* SPDX-License-Identifier: BSD-2-Clause */
/* Totals of where the targets' tasks ran: by cluster and by frequency. */
#pragma once
#include "jankscope/record.h"

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
