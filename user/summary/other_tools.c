/* SPDX-License-Identifier: BSD-2-Clause */
/* Percentages of CPU time, and the numbers of other tools (compat/README.md). */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "summary/memory.h"
#include "summary/summary_private.h"
#include "util/hash.h"

#define SECOND_NS 1000000000ull

static struct drop_layer *find_layer(struct other_tools *tools, const struct record_layer *layer)
{
	uint64_t name = layer->layer ? hash_bytes(layer->layer, strlen(layer->layer), 0) : 0;

	for (size_t i = 0; i < tools->layer_count; i++)
		if (tools->layers[i].pid == layer->pid && tools->layers[i].name == name)
			return &tools->layers[i];
	if (tools->layer_count == DROP_LAYERS)
		return NULL;
	tools->layers[tools->layer_count] = (struct drop_layer){.pid = layer->pid, .name = name};
	return &tools->layers[tools->layer_count++];
}

/* Drop(FPS) is of seconds: an interval is one when it differs by no more than a frame at 60 Hz. */
static bool is_second(uint64_t dur_ns)
{
	return dur_ns > SECOND_NS * 59 / 60 && dur_ns < SECOND_NS * 61 / 60;
}

void summary_follow_frames(struct summary *summary, const struct record_interval *interval)
{
	struct other_tools *tools = &summary->other_tools;
	bool second = is_second(interval->dur_ns) && !interval->frames.history;

	if (!interval->frames.present)
		return;
	for (size_t i = 0; i < tools->layer_count; i++)
		tools->layers[i].seen = false;
	for (size_t i = 0; i < interval->frames.layer_count; i++) {
		const struct record_layer *layer = &interval->frames.layers[i];
		struct drop_layer *place = find_layer(tools, layer);

		if (!place)
			continue;
		place->seen = true;
		place->shown += layer->shown;
		if (second)
			compat_drop_fps_add(&place->drop, (double)layer->shown);
		else
			compat_drop_fps_gap(&place->drop);
	}
	/* One that shows nothing has 0 frames in that second. */
	for (size_t i = 0; i < tools->layer_count; i++) {
		if (tools->layers[i].seen)
			continue;
		if (second)
			compat_drop_fps_add(&tools->layers[i].drop, 0);
		else
			compat_drop_fps_gap(&tools->layers[i].drop);
	}
}

void summary_follow_block(struct summary *summary, const struct record_block *block)
{
	struct other_tools *tools = &summary->other_tools;

	if (!compat_blockcanary_is_block(block->wall_ns, COMPAT_BLOCKCANARY_MS))
		return;
	tools->blocks++;
	tools->block_ms += compat_blockcanary_cost_ms(block->wall_ns);
	tools->thread_missing |= !block->cpu_ns.present;
	tools->block_thread_ms += compat_blockcanary_thread_ms(block->cpu_ns.value);
}

/* A value that there is none of has no total. */
static int set(struct summary *summary, const char *key, double value)
{
	return isfinite(value) ? summary_set_total(summary, key, value) : 0;
}

static int set_blocks(struct summary *summary)
{
	const struct other_tools *tools = &summary->other_tools;
	int err;

	if (!tools->block_ns || tools->block_ns > COMPAT_BLOCKCANARY_MS * 1000000ull)
		return 0;
	err = set(summary, "compat.blockcanary.blocks", (double)tools->blocks);
	if (!err)
		err = set(summary, "compat.blockcanary.cost_ms", (double)tools->block_ms);
	if (!err && !tools->thread_missing)
		err = set(summary, "compat.blockcanary.thread_time_ms",
			  (double)tools->block_thread_ms);
	return err;
}

static int set_drop_fps(struct summary *summary)
{
	const struct other_tools *tools = &summary->other_tools;
	const struct drop_layer *most = NULL;

	for (size_t i = 0; i < tools->layer_count; i++)
		if (!most || tools->layers[i].shown > most->shown)
			most = &tools->layers[i];
	return most ? set(summary, "compat.perfdog.drop_fps_per_h",
			  compat_drop_fps_per_hour(&most->drop))
		    : 0;
}

/* Not where the frequency is unknown for more than 1 % of the time. */
static int set_normalised(struct summary *summary, uint64_t cpu_ns, uint64_t dur_ns, double cpus)
{
	const struct other_tools *tools = &summary->other_tools;
	double capacity_ns = summary_get(summary, "cpu.capacity_ns");
	int err = 0;

	if (tools->clusters.slices_ns > 0 && tools->clusters.unknown_ns <= (double)cpu_ns / 100)
		err = set(summary, "compat.perfdog.cpu_normalised_pct",
			  compat_perfdog_normalised_pct(tools->clusters.slices_ns, dur_ns, cpus));
	if (!err && capacity_ns > 0)
		err = set(summary, "targets.device_fnorm_pct",
			  100 * summary_get(summary, "targets.fnorm_ns") / capacity_ns);
	return err;
}

static int set_koom(struct summary *summary)
{
	struct memory_koom koom = memory_runs_koom(summary->memory);
	int err = 0;

	if (koom.judged)
		err = set(summary, "compat.koom.fd_processes", (double)koom.fd_processes);
	if (koom.judged && !err)
		err = set(summary, "compat.koom.thread_processes", (double)koom.thread_processes);
	return err;
}

int summary_set_percentages(struct summary *summary, struct opt_u64 targets_ns)
{
	uint64_t dur_ns = (uint64_t)summary->dur_ns, cpu_ns = targets_ns.value;
	uint64_t online_ns = (uint64_t)summary_get(summary, "cpu.online_ns");
	uint64_t steal_ns = (uint64_t)summary_get(summary, "cpu.steal_ns");
	double cpus = dur_ns ? (double)online_ns / (double)dur_ns : 0;
	int err = online_ns ? set(summary, "cpu.device_pct",
				  100 * summary_get(summary, "cpu.busy_ns") / (double)online_ns)
			    : 0;

	if (!err)
		err = set_blocks(summary);
	if (!err)
		err = set_drop_fps(summary);
	if (!err)
		err = set_koom(summary);
	if (err || !targets_ns.present || !online_ns)
		return err;
	err = set(summary, "targets.core_pct", compat_top_cpu_pct(cpu_ns, dur_ns));
	if (!err)
		err = set(summary, "targets.device_pct", 100 * (double)cpu_ns / (double)online_ns);
	if (!err)
		err = set_normalised(summary, cpu_ns, dur_ns, cpus);
	if (!err)
		err = set(summary, "compat.top.cpu_pct", compat_top_cpu_pct(cpu_ns, dur_ns));
	if (!err)
		err = set(summary, "compat.dokit.cpu_pct",
			  compat_dokit_cpu_pct(cpu_ns, dur_ns, cpus));
	if (!err && steal_ns < online_ns)
		err = set(summary, "compat.gt.cpu_pct",
			  compat_gt_cpu_pct(cpu_ns, online_ns - steal_ns));
	if (!err)
		err = set(summary, "compat.matrix.jiffies_per_min",
			  compat_matrix_jiffies_per_min(cpu_ns, dur_ns));
	if (!err && dur_ns >= COMPAT_OVERHEAT_NS)
		err = set(summary, "compat.matrix.overheat",
			  compat_matrix_overheat(cpu_ns, dur_ns));
	return err;
}
