/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of other tools (compat/README.md). */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "record/histogram.h"
#include "summary/memory.h"
#include "summary/percentages.h"
#include "summary/summary_private.h"
#include "util/hash.h"

#define SECOND_NS 1000000000ull
/* Frames that an interval tells of less than this are one second with the next interval's. */
#define SHORT_NS (SECOND_NS * 3 / 4)
/* How long after it was shown a frame may be told. */
#define UNTOLD_NS (5 * SECOND_NS)
/* Of a longer interval nothing is known about its seconds; one of a second may be late by 0.1 s. */
#define LONGEST_NS (SECOND_NS * 11 / 10)

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

/* The frames that were told before last until the first one of those told now. When they are told
 * says nothing: perfetto hands its rows over about once a second. */
static void end_frames(struct drop_layer *layer, uint64_t until_boot_ns)
{
	uint64_t span_ns = until_boot_ns - layer->first_boot_ns;
	uint64_t seconds = (span_ns + SECOND_NS / 2) / SECOND_NS;

	if (seconds <= 1 || 2 * layer->drawn_ns >= (double)span_ns) {
		compat_drop_fps_add(&layer->drop,
				    (double)layer->frames * SECOND_NS / (double)span_ns);
	} else {
		/* It came to rest: seconds with 0 frames. */
		compat_drop_fps_add(&layer->drop,
				    (double)layer->frames /
					    fmax(1, layer->drawn_ns / (double)SECOND_NS));
		compat_drop_fps_add(&layer->drop, 0);
		seconds--;
	}
	layer->drop.seconds += seconds > 1 ? seconds - 1 : 0;
}

static void follow_layer(struct drop_layer *place, const struct record_layer *layer)
{
	uint64_t first_ns = layer->first_shown_boot_ns.value;
	const struct histogram *times = layer->interval_hist;

	if (place->first_boot_ns && first_ns >= place->first_boot_ns + SHORT_NS) {
		end_frames(place, first_ns);
		place->first_boot_ns = 0;
	}
	if (!place->first_boot_ns) {
		place->first_boot_ns = first_ns;
		place->frames = 0;
		place->drawn_ns = 0;
	}
	place->frames += layer->shown;
	/* A recording may say anything. */
	if (times && histogram_count(times))
		place->drawn_ns = fmin(place->drawn_ns + (double)histogram_count(times) *
								 histogram_mean(times),
				       1e18);
}

void summary_follow_frames(struct summary *summary, const struct record_interval *interval)
{
	struct other_tools *tools = &summary->other_tools;
	/* Drop(FPS) is of seconds. */
	bool fine = interval->dur_ns <= LONGEST_NS && !interval->frames.history;

	if (!interval->frames.present)
		return;
	for (size_t i = 0; i < tools->layer_count && !fine; i++) {
		compat_drop_fps_gap(&tools->layers[i].drop);
		tools->layers[i].first_boot_ns = 0;
	}
	for (size_t i = 0; i < interval->frames.layer_count; i++) {
		const struct record_layer *layer = &interval->frames.layers[i];
		struct drop_layer *place = find_layer(tools, layer);

		if (!place)
			continue;
		place->shown += layer->shown;
		if (fine && layer->shown && layer->first_shown_boot_ns.present)
			follow_layer(place, layer);
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
	struct drop_layer last;
	uint64_t until_ns;

	for (size_t i = 0; i < tools->layer_count; i++)
		if (!most || tools->layers[i].shown > most->shown)
			most = &tools->layers[i];
	if (!most)
		return 0;
	last = *most;
	/* Of the seconds before the end not all frames are told. */
	until_ns = last.first_boot_ns + (uint64_t)last.drawn_ns;
	if (summary->end_boot_ns > until_ns + UNTOLD_NS)
		until_ns = summary->end_boot_ns;
	if (last.first_boot_ns && until_ns >= last.first_boot_ns + SHORT_NS)
		end_frames(&last, until_ns);
	return set(summary, "compat.perfdog.drop_fps_per_h", compat_drop_fps_per_hour(&last.drop));
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

/* Not where the frequency is unknown for more than 1 % of the time. */
static int set_normalised(struct summary *summary, uint64_t cpu_ns)
{
	const struct cluster_sums *clusters = &summary->other_tools.clusters;

	if (clusters->slices_ns <= 0 || clusters->unknown_ns > (double)cpu_ns / 100)
		return 0;
	return set(summary, "compat.perfdog.cpu_normalised_pct",
		   compat_perfdog_normalised_pct(clusters->slices_ns, (uint64_t)summary->dur_ns,
						 summary_get(summary, "cpu.online_ns") /
							 summary->dur_ns));
}

static int set_of_run(void *summary, const char *key, double value)
{
	return summary_set_total(summary, key, value);
}

int summary_set_percentages(struct summary *summary, struct opt_u64 targets_ns)
{
	int err = percentages_set(summary->footer.totals, summary->footer.total_count, set_of_run,
				  summary);

	if (!err)
		err = set_blocks(summary);
	if (!err)
		err = set_drop_fps(summary);
	if (!err)
		err = set_koom(summary);
	return err || !targets_ns.present || summary_get(summary, "cpu.online_ns") <= 0
		       ? err
		       : set_normalised(summary, targets_ns.value);
}
