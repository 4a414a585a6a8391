/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/clusters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Add to the total of that frequency (NULL: of the whole cluster) below a word. */
static int add_below(struct cluster_sums *sums, const char *word, uint32_t cluster,
		     const struct record_frequency_time *at, uint64_t value, cluster_add_fn add,
		     void *ctx)
{
	char key[80];
	int n = snprintf(key, sizeof(key), "%s.clusters.", word);
	size_t left = sizeof(key) - (size_t)n;

	if (at && !has_room(sums, cluster, at->khz.present ? at->khz.value : 0))
		snprintf(key + n, left, "other_ns");
	else if (at && at->khz.present)
		snprintf(key + n, left, "%u.%" PRIu64 "_khz_ns", cluster, at->khz.value);
	else
		snprintf(key + n, left, "%u.%s_ns", cluster, at ? "unknown" : "cpu");
	return add(ctx, key, (double)value);
}

static int add_frequency(struct cluster_sums *sums, const struct record_cluster *cluster,
			 const struct record_frequency_time *at, cluster_add_fn add, void *ctx)
{
	if (at->khz.present && cluster->max_khz.present)
		sums->slices_ns +=
			compat_perfdog_slice_ns(at->cpu_ns, at->khz.value, cluster->max_khz.value);
	else
		sums->unknown_ns += (double)at->cpu_ns;
	return add_below(sums, "targets", cluster->cluster, at, at->cpu_ns, add, ctx);
}

int clusters_add(struct cluster_sums *sums, const struct record_cpu *cpu, cluster_add_fn add,
		 void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < cpu->cluster_count && !err; i++) {
		const struct record_cluster *cluster = &cpu->clusters[i];

		if (!has_room(sums, cluster->cluster, OF_CLUSTER))
			continue;
		err = add_below(sums, "targets", cluster->cluster, NULL, cluster->targets_ns, add,
				ctx);
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

/* ---- by what the processes were ---- */

/* One total of the interval, in its parts. */
struct cell {
	uint64_t left, parts[SPLIT_STATES];
};

static void take(struct cell *cell, int state, uint64_t value)
{
	value = value < cell->left ? value : cell->left;
	cell->left -= value;
	cell->parts[state] += value;
}

/* Cells are fnorm_ns, then each cluster with its frequencies behind it. */
static struct cell *make_cells(const struct record_cpu *cpu)
{
	struct cell *cells, *cell;
	size_t count = 1;

	for (size_t i = 0; i < cpu->cluster_count; i++)
		count += 1 + cpu->clusters[i].frequency_count;
	cells = calloc(count, sizeof(*cells));
	if (!cells)
		return NULL;
	if (cpu->targets_fnorm_ns.present && cpu->capacity_ns.present)
		cells->left = cpu->targets_fnorm_ns.value;
	cell = cells + 1;
	for (size_t i = 0; i < cpu->cluster_count; i++) {
		const struct record_cluster *cluster = &cpu->clusters[i];

		cell++->left = cluster->targets_ns;
		for (size_t k = 0; k < cluster->frequency_count; k++)
			cell++->left = cluster->frequencies[k].cpu_ns;
	}
	return cells;
}

static void take_frequency(struct cell *cell, const struct record_cpu *cpu, int state,
			   const struct record_frequency_time *at)
{
	const struct record_cluster *cluster = cpu->clusters;
	size_t left = cpu->cluster_count;

	for (; left && cluster->cluster != at->cluster; left--)
		cell += 1 + cluster++->frequency_count;
	if (!left)
		return;
	take(cell++, state, at->cpu_ns);
	for (size_t k = 0; k < cluster->frequency_count; k++)
		if (cluster->frequencies[k].khz.present == at->khz.present &&
		    cluster->frequencies[k].khz.value == at->khz.value) {
			take(&cell[k], state, at->cpu_ns);
			return;
		}
}

/* Of a cell the part of that state, with what is left of it where nobody knows whose it is. */
static uint64_t part(const struct cell *cell, int state)
{
	return cell->parts[state] + (state == SPLIT_UNKNOWN ? cell->left : 0);
}

static int add_cells(struct cluster_sums *sums, const struct record_cpu *cpu,
		     const struct cell *cell, int state, cluster_add_fn add, void *ctx)
{
	const char *word = split_state_names[state];
	char key[32];
	int err = 0;

	snprintf(key, sizeof(key), "%s.fnorm_ns", word);
	if (part(cell, state))
		err = add(ctx, key, (double)part(cell, state));
	cell++;
	for (size_t i = 0; i < cpu->cluster_count && !err; i++) {
		const struct record_cluster *cluster = &cpu->clusters[i];
		bool told = has_room(sums, cluster->cluster, OF_CLUSTER);

		for (size_t k = 0; k <= cluster->frequency_count && !err; k++, cell++)
			if (told && part(cell, state))
				err = add_below(sums, word, cluster->cluster,
						k ? &cluster->frequencies[k - 1] : NULL,
						part(cell, state), add, ctx);
	}
	return err;
}

int clusters_split(struct cluster_sums *sums, const struct record_cpu *cpu,
		   cluster_state_fn state_of, void *state_ctx, cluster_add_fn add, void *ctx)
{
	struct cell *cells = make_cells(cpu);
	int err = cells ? 0 : -ENOMEM;

	for (size_t i = 0; i < cpu->task_count && !err; i++) {
		const struct record_task *task = &cpu->tasks[i];
		int state = state_of(state_ctx, task);

		if (state < 0)
			continue;
		for (size_t k = 0; k < task->frequency_count; k++)
			take_frequency(cells + 1, cpu, state, &task->frequencies[k]);
		if (task->fnorm_ns.present)
			take(cells, state, task->fnorm_ns.value);
	}
	for (int state = 0; state < SPLIT_STATES && !err; state++)
		err = add_cells(sums, cpu, cells, state, add, ctx);
	free(cells);
	return err;
}
