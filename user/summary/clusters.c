/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/clusters.h"

#include <inttypes.h>
#include <stdio.h>

#include "compat/compat.h"

#define OF_CLUSTER UINT64_MAX

/* There is a total of that key, or room for one. */
static bool has_room(struct cluster_sums *sums, uint32_t cluster, uint64_t khz)
{
	for (size_t i = 0; i < sums->count; i++)
		if (sums->keys[i].cluster == cluster && sums->keys[i].khz == khz)
			return true;
	if (sums->count == CLUSTER_TOTALS)
		return false;
	sums->keys[sums->count].cluster = cluster;
	sums->keys[sums->count++].khz = khz;
	return true;
}

static int add_frequency(struct cluster_sums *sums, const struct record_cluster *cluster,
			 const struct record_frequency_time *at, cluster_add_fn add, void *ctx)
{
	char key[80];

	if (at->khz.present && cluster->max_khz.present)
		sums->slices_ns +=
			compat_perfdog_slice_ns(at->cpu_ns, at->khz.value, cluster->max_khz.value);
	else
		sums->unknown_ns += (double)at->cpu_ns;
	if (!has_room(sums, cluster->cluster, at->khz.present ? at->khz.value : 0))
		return add(ctx, "targets.clusters.other_ns", (double)at->cpu_ns);
	if (at->khz.present)
		snprintf(key, sizeof(key), "targets.clusters.%u.%" PRIu64 "_khz_ns",
			 cluster->cluster, at->khz.value);
	else
		snprintf(key, sizeof(key), "targets.clusters.%u.unknown_ns", cluster->cluster);
	return add(ctx, key, (double)at->cpu_ns);
}

int clusters_add(struct cluster_sums *sums, const struct record_cpu *cpu, cluster_add_fn add,
		 void *ctx)
{
	char key[64];
	int err = 0;

	for (size_t i = 0; i < cpu->cluster_count && !err; i++) {
		const struct record_cluster *cluster = &cpu->clusters[i];

		if (!has_room(sums, cluster->cluster, OF_CLUSTER))
			continue;
		snprintf(key, sizeof(key), "targets.clusters.%u.cpu_ns", cluster->cluster);
		err = add(ctx, key, (double)cluster->targets_ns);
		for (size_t k = 0; k < cluster->frequency_count && !err; k++)
			err = add_frequency(sums, cluster, &cluster->frequencies[k], add, ctx);
	}
	/* The quotient is of intervals that have both. */
	if (!err && cpu->targets_fnorm_ns.present && cpu->capacity_ns.present) {
		err = add(ctx, "targets.fnorm_ns", (double)cpu->targets_fnorm_ns.value);
		if (!err)
			err = add(ctx, "cpu.capacity_ns", (double)cpu->capacity_ns.value);
	}
	return err;
}
