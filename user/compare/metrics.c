/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/metrics.h"

#include <string.h>

#define PER_HOUR (3600 * 1e9) /* of a quotient by nanoseconds */

const struct compare_metric_info compare_metrics[COMPARE_METRICS] = {
	[COMPARE_TARGETS_CPU] = {"target CPU, % of a core", "targets_cpu_pct", 100, true},
	[COMPARE_TARGETS_RUNNABLE] = {"waits for a CPU, %", "targets_runnable_pct", 100, true},
	[COMPARE_BUSY] = {"device busy, %", "busy_pct", 100, true},
	[COMPARE_JANK] = {"janky frames, %", "jank_pct", 100, true},
	[COMPARE_DROPPED] = {"dropped frames, %", "dropped_pct", 100, true},
	[COMPARE_LATE] = {"late frames an hour", "late_per_h", PER_HOUR, true},
	[COMPARE_LATE_TIME] = {"late, ms an hour", "late_ms_per_h", PER_HOUR / 1e6, true},
#define LATE(cause, word, key)                                                         \
	[COMPARE_LATE_CAUSE + (cause)] = {"  " word ", ms/h", "late_" key "_ms_per_h", \
					  PER_HOUR / 1e6, true}
	LATE(JANK_CAUSE_UNKNOWN, "unknown", "unexplained"),
	LATE(JANK_CAUSE_MAIN_CPU, "CPU-bound main", "main_cpu"),
	LATE(JANK_CAUSE_RENDER_CPU, "CPU-bound render", "render_cpu"),
	LATE(JANK_CAUSE_NO_CPU, "no CPU", "no_cpu"),
	LATE(JANK_CAUSE_BINDER, "binder", "binder"),
	LATE(JANK_CAUSE_LOCK, "lock", "lock"),
	LATE(JANK_CAUSE_IO, "I/O", "io"),
	LATE(JANK_CAUSE_PAGE_FAULT, "page faults", "page_fault"),
	LATE(JANK_CAUSE_GPU, "GPU wait", "gpu"),
	LATE(JANK_CAUSE_SURFACEFLINGER, "SurfaceFlinger", "surfaceflinger"),
	LATE(JANK_CAUSE_HWC, "display HAL", "hwc"),
	LATE(JANK_CAUSE_STUFFING, "buffer stuffing", "stuffed"),
	[COMPARE_BLOCKS] = {"blocks an hour", "blocks_per_h", PER_HOUR, true},
	[COMPARE_BLOCKED] = {"blocked, ms an hour", "blocked_ms_per_h", PER_HOUR / 1e6, true},
	[COMPARE_PSS] = {"target PSS, MiB", "pss_mib", 1.0 / (1 << 20), true},
	[COMPARE_RSS] = {"target RSS, MiB", "rss_mib", 1.0 / (1 << 20), true},
	[COMPARE_RX] = {"received by uids, KiB/s", "rx_kib_per_s", 1e9 / 1024, false},
	[COMPARE_TX] = {"sent by uids, KiB/s", "tx_kib_per_s", 1e9 / 1024, false},
	[COMPARE_DISK_READ] = {"read from disk, KiB/s", "disk_read_kib_per_s", 1e9 / 1024, false},
	[COMPARE_DISK_WRITE] = {"written to disk, KiB/s", "disk_write_kib_per_s", 1e9 / 1024,
				false},
};

static int add(struct compare_run *run, enum compare_metric metric, uint64_t over, uint64_t under)
{
	return series_add(&run->series[metric], (double)over, (double)under);
}

/* Processes of the record are those of the targets, the folded and cut ones too. */
static int add_cpu(struct compare_run *run, const struct record_interval *interval)
{
	const struct record_cpu *cpu = &interval->cpu;
	uint64_t cpu_ns = 0, runnable_ns = 0;
	bool waits = false;
	int err = 0;

	if (cpu->online_ns)
		err = add(run, COMPARE_BUSY, cpu->busy_ns, cpu->online_ns);
	if (err || !run->has_targets)
		return err;
	for (size_t i = 0; i < cpu->process_count; i++) {
		cpu_ns += cpu->processes[i].cpu_ns;
		runnable_ns += cpu->processes[i].runnable_ns.value;
		waits |= cpu->processes[i].runnable_ns.present;
	}
	err = add(run, COMPARE_TARGETS_CPU, cpu_ns, interval->dur_ns);
	if (!err && (waits || run->series[COMPARE_TARGETS_RUNNABLE].count))
		err = add(run, COMPARE_TARGETS_RUNNABLE, runnable_ns, interval->dur_ns);
	return err;
}

static int add_frames(struct compare_run *run, const struct record_frames *frames)
{
	uint64_t shown = 0, dropped = 0, janky = 0, judged = 0;
	int err;

	for (size_t i = 0; i < frames->layer_count; i++) {
		shown += frames->layers[i].shown;
		dropped += frames->layers[i].dropped;
		janky += frames->layers[i].janky;
		judged += record_layer_judged(&frames->layers[i]);
	}
	err = add(run, COMPARE_JANK, janky, judged);
	return err ? err : add(run, COMPARE_DROPPED, dropped, shown + dropped);
}

/* Of all processes of the targets at one time, where it was read of each of them. */
static int add_memory(struct compare_run *run, const struct record_memory *memory)
{
	uint64_t rss_bytes = 0, pss_bytes = 0;
	size_t with_rss = 0, with_pss = 0;
	int err = 0;

	if (!run->has_targets || !memory->process_count)
		return 0;
	for (size_t i = 0; i < memory->process_count; i++) {
		const struct record_memory_process *process = &memory->processes[i];

		rss_bytes += process->rss_bytes.value;
		with_rss += process->rss_bytes.present;
		pss_bytes += process->pss_bytes.value;
		with_pss += process->pss_bytes.present;
	}
	if (with_rss == memory->process_count)
		err = add(run, COMPARE_RSS, rss_bytes, 1);
	if (!err && with_pss == memory->process_count)
		err = add(run, COMPARE_PSS, pss_bytes, 1);
	return err;
}

/* A record has the bytes of all uids, those of other programs too. */
static int add_net(struct compare_run *run, const struct record_interval *interval)
{
	uint64_t rx_bytes = 0, tx_bytes = 0;
	int err;

	for (size_t i = 0; i < interval->net.uid_count; i++) {
		rx_bytes += interval->net.uids[i].bytes.rx_bytes;
		tx_bytes += interval->net.uids[i].bytes.tx_bytes;
	}
	err = add(run, COMPARE_RX, rx_bytes, interval->dur_ns);
	return err ? err : add(run, COMPARE_TX, tx_bytes, interval->dur_ns);
}

static int add_disk(struct compare_run *run, const struct record_interval *interval)
{
	const struct record_disk_sums *sums = &interval->disk.targets;
	int err = add(run, COMPARE_DISK_READ, sums->read_bytes, interval->dur_ns);

	return err ? err : add(run, COMPARE_DISK_WRITE, sums->write_bytes, interval->dur_ns);
}

static int add_blocks(struct compare_run *run, const struct record_interval *interval)
{
	int err = add(run, COMPARE_BLOCKS, run->blocks, interval->dur_ns);

	if (!err)
		err = add(run, COMPARE_BLOCKED, run->blocked_ns, interval->dur_ns);
	run->blocks = run->blocked_ns = 0;
	return err;
}

/* What came since the last interval is of that one. */
static int add_late(struct compare_run *run)
{
	const struct compare_late *late = &run->late;
	int err = add(run, COMPARE_LATE, late->frames, late->dur_ns);

	if (!err)
		err = add(run, COMPARE_LATE_TIME, late->ns, late->dur_ns);
	for (int cause = 0; cause < JANK_CAUSES && !err; cause++)
		err = add(run, COMPARE_LATE_CAUSE + cause, late->by_cause_ns[cause], late->dur_ns);
	run->late = (struct compare_late){0};
	return err;
}

static void take_jank(struct compare_run *run, const struct record_jank *jank)
{
	run->judges_frames = run->any_judged = true;
	run->late.frames++;
	run->late.ns += jank->late_ns;
	run->late.by_cause_ns[jank->cause] += jank->late_ns;
}

static int turn_late(struct compare_run *run, const struct record_interval *interval)
{
	int err = run->late.dur_ns ? add_late(run) : 0;

	if (!run->judges_frames)
		return 0;
	run->late.dur_ns = interval->dur_ns;
	for (size_t i = 0; i < interval->frames.layer_count; i++)
		run->any_judged |= record_layer_judged(&interval->frames.layers[i]) > 0;
	return err;
}

int compare_run_end(struct compare_run *run)
{
	int err = run->late.dur_ns ? add_late(run) : 0;

	/* Where no frame was judged nothing is known of late ones. */
	if (!run->judges_frames || !run->any_judged)
		for (int metric = COMPARE_LATE; metric <= COMPARE_LATE_LAST; metric++)
			series_free(&run->series[metric]);
	return err;
}

static int add_interval(struct compare_run *run, const struct record_interval *interval)
{
	int err = 0;

	if (interval->cpu.present)
		err = add_cpu(run, interval);
	if (!err && interval->frames.present && !interval->frames.history)
		err = add_frames(run, &interval->frames);
	if (!err && interval->memory.present)
		err = add_memory(run, &interval->memory);
	if (!err && interval->net.present)
		err = add_net(run, interval);
	if (!err && interval->disk.present && interval->disk.has_targets)
		err = add_disk(run, interval);
	if (!err && run->has_blocks)
		err = add_blocks(run, interval);
	return err ? err : turn_late(run, interval);
}

static void read_header(struct compare_run *run, const struct record_header *header)
{
	run->has_targets |= header->target_count > 0;
	run->judges_frames |= record_header_judges_frames(header);
	for (size_t i = 0; i < header->source_count; i++)
		if (!strcmp(header->sources[i].name, "blocks") &&
		    strcmp(header->sources[i].state, "absent"))
			run->has_blocks = true;
}

int compare_run_add(struct compare_run *run, const struct record *record)
{
	switch (record->type) {
	case RECORD_HEADER:
		read_header(run, record->header);
		return 0;
	case RECORD_INTERVAL:
		return add_interval(run, record->interval);
	case RECORD_BLOCK:
		/* One that is open is told again when it ends. */
		if (record->block->state != BLOCK_OPEN) {
			run->blocks++;
			run->blocked_ns += record->block->wall_ns;
		}
		return 0;
	case RECORD_JANK:
		take_jank(run, record->jank);
		return 0;
	default:
		return 0;
	}
}

void compare_run_free(struct compare_run *run)
{
	for (size_t i = 0; i < COMPARE_METRICS; i++)
		series_free(&run->series[i]);
}
