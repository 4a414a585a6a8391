/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/blocks_source.h"
#include "util/clock.h"

int64_t blocks_boot_minus_mono_ns(void)
{
	return (int64_t)(clock_now_ns(CLOCK_BOOTTIME) - clock_now_ns(CLOCK_MONOTONIC));
}

static const char *process_name(void *ctx, pid_t pid)
{
	struct blocks_source *blocks = ctx;

	return target_process_name(blocks->context.targets, pid, 0);
}

const char *blocks_detector_name(const struct blocks_source *blocks, uint32_t detector)
{
	switch (detector) {
	case LOOPER_BY_UPROBE:
		return looper_kernel_probe_name(blocks->kernel);
	case LOOPER_BY_SYSCALL:
		return "sys_enter";
	}
	return "switch";
}

static void emit_report(struct blocks_source *blocks, struct block_report *report)
{
	struct record record = {.type = RECORD_BLOCK, .block = &report->block};

	if (!report->drop)
		blocks->context.emit(blocks->context.emit_ctx, &record);
	block_report_free(report);
}

int blocks_on_reports(void *ctx, uint32_t events)
{
	struct blocks_source *blocks = ctx;
	struct block_report *report;

	while ((report = blocks_stacks_take(blocks->stacks)))
		emit_report(blocks, report);
	return 0;
}

static void send_report(struct blocks_source *blocks, struct block_report *report)
{
	if (blocks->stacks && (report->first || report->drop))
		blocks_stacks_push(blocks->stacks, report);
	else
		emit_report(blocks, report);
}

/* The strings of other processes may be gone when the record comes back from unwinding. */
static int keep_names(struct block_report *report)
{
	struct record_block *block = &report->block;
	const char **names[3 + LOOPER_PREEMPTORS + 1];
	size_t count = 0, room = 1;
	char *at;

	names[count++] = &block->waker.process;
	names[count++] = &block->owner.process;
	for (size_t i = 0; i < block->preemptor_count && i <= LOOPER_PREEMPTORS; i++)
		names[count++] = &block->preemptors[i].process;
	for (size_t i = 0; i < count; i++)
		room += *names[i] ? strlen(*names[i]) + 1 : 0;
	report->names = at = malloc(room);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		size_t length = *names[i] ? strlen(*names[i]) + 1 : 0;

		if (!length)
			continue;
		memcpy(at, *names[i], length);
		*names[i] = at;
		at += length;
	}
	return 0;
}

static void fill_load(struct blocks_source *blocks, const struct watched *watched,
		      const struct looper_period_event *period, struct record_block *block)
{
	struct watched_load now;

	if (!watched->tracking || !watched->load.mono_ns ||
	    watched->period != period->head.period) {
		missing_list_set(&block->missing, "app_cpu_ns", "the block was told when it ended");
		return;
	}
	now = blocks_watch_load(watched, blocks->sched);
	if (now.mono_ns <= watched->load.mono_ns)
		return;
	block->load_dur_ns = SOME_U64(now.mono_ns - watched->load.mono_ns);
	if (now.idle_ns.present && watched->load.idle_ns.present) {
		uint64_t all_ns = sched_kernel_cpu_count(blocks->sched) * block->load_dur_ns.value;
		uint64_t idle_ns = now.idle_ns.value > watched->load.idle_ns.value
					   ? now.idle_ns.value - watched->load.idle_ns.value
					   : 0;

		block->machine_busy_ns = SOME_U64(all_ns > idle_ns ? all_ns - idle_ns : 0);
	}
	if (now.cpu_ns.present && watched->load.cpu_ns.present)
		block->app_cpu_ns = SOME_U64(now.cpu_ns.value - watched->load.cpu_ns.value);
	block->app_rss_bytes = now.rss_bytes.present ? now.rss_bytes : watched->load.rss_bytes;
}

static void fill_owner(struct blocks_source *blocks, const struct watched *watched,
		       struct record_block *block)
{
	if (!watched->owner.tid)
		return;
	block->owner.present = true;
	block->owner.pid = watched->pid;
	block->owner.tid = watched->owner.tid;
	memcpy(block->owner.thread, watched->owner.thread, sizeof(block->owner.thread));
	block->owner.process = process_name(blocks, watched->pid);
}

/* A period that ended below the threshold: its samples wait for the unwinding thread to let go. */
int blocks_drop_samples(struct blocks_source *blocks, struct watched *watched)
{
	struct block_report *report;

	if (!watched->samples.first) {
		blocks_watch_end_period(watched);
		return 0;
	}
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	report->drop = report->last = true;
	report->first = watched->samples.first;
	report->sample_count = watched->samples.count;
	watched->samples = (struct block_samples){0};
	blocks_watch_end_period(watched);
	send_report(blocks, report);
	return 0;
}

/* Time that it was found frozen in was no sleep of its own. */
static void move_frozen(const struct watched *watched, struct looper_period_event *period)
{
	uint64_t frozen_ns = watched->frozen_ns;
	__u64 *from;

	from = period->sums.sleeping_ns >= period->sums.uninterruptible_ns
		       ? &period->sums.sleeping_ns
		       : &period->sums.uninterruptible_ns;
	if (frozen_ns > *from)
		frozen_ns = *from;
	*from -= frozen_ns;
	period->sums.stopped_ns += frozen_ns;
	period->sums.reason_ns[LOOPER_REASON_FROZEN] += frozen_ns;
	for (int i = 0; i < LOOPER_REASON_MAX && frozen_ns; i++) {
		__u64 *ns = &period->sums.reason_ns[i], part;

		if (i == LOOPER_REASON_FROZEN || i == LOOPER_REASON_STOPPED)
			continue;
		part = *ns < frozen_ns ? *ns : frozen_ns;
		*ns -= part;
		frozen_ns -= part;
	}
}

/* A process is met between fork and exec too, or before zygote's child took its name. */
static void refresh_names(struct blocks_source *blocks, struct watched *watched)
{
	const struct target_process *process =
		target_set_find(blocks->context.targets, watched->pid);

	if (!process || process->start_boot_ns != watched->start_boot_ns)
		return;
	snprintf(watched->process, sizeof(watched->process), "%s", process->process);
	snprintf(watched->package, sizeof(watched->package), "%s",
		 process->package ? process->package : "");
}

/* period tells all; the samples go with the last report of their period. */
int blocks_report(struct blocks_source *blocks, struct watched *watched,
		  const struct looper_period_event *told, enum block_state state,
		  uint64_t open_spell, uint64_t open_since_ns)
{
	struct looper_period_event copy = *told, *period = &copy;
	bool ours = watched->tracking && watched->period == period->head.period;
	bool last = state != BLOCK_OPEN;
	struct block_report *report = calloc(1, sizeof(*report));
	struct record_block *block;
	int err = -ENOMEM;

	if (!report)
		return -ENOMEM;
	/* Nobody has seen it thaw before the period ended. */
	if (ours && last && watched->frozen_seen_ns &&
	    period->head.end_ns > watched->frozen_seen_ns)
		watched->frozen_ns += period->head.end_ns - watched->frozen_seen_ns;
	if (ours && watched->frozen_ns) {
		move_frozen(watched, period);
		if (period->head.end_ns - period->head.begin_ns <
		    blocks->context.block_ns + period->sums.stopped_ns) {
			free(report);
			return blocks_drop_samples(blocks, watched);
		}
	}
	block = &report->block;
	report->last = last;
	refresh_names(blocks, watched);
	report->process = strdup(watched->process);
	report->package = watched->package[0] ? strdup(watched->package) : NULL;
	if (!report->process)
		goto fail;
	block->pid = block->tid = watched->pid;
	block->process = report->process;
	block->package = report->package;
	block->state = state;
	block->detector = blocks_detector_name(blocks, watched->detector);
	err = block_ledger_fill(block, period, ours ? &watched->spells : NULL,
				ours ? watched->boot_minus_mono_ns : blocks_boot_minus_mono_ns(),
				process_name, blocks);
	if (err)
		goto fail;
	if (last) {
		block->faults_minor = SOME_U64(period->faults_minor);
		block->faults_major = SOME_U64(period->faults_major);
	} else {
		missing_list_set(&block->missing, "faults_minor", "told when the block ends");
	}
	fill_load(blocks, watched, period, block);
	if (ours)
		fill_owner(blocks, watched, block);
	err = keep_names(report);
	if (err)
		goto fail;
	if (ours && watched->samples.count) {
		report->weights = calloc(watched->samples.count, sizeof(*report->weights));
		if (!report->weights) {
			err = -ENOMEM;
			goto fail;
		}
		report->first = watched->samples.first;
		report->sample_count = watched->samples.count;
		block->unsampled_ns = SOME_U64(block_sample_weights(
			&watched->samples, &watched->spells, period->head.begin_ns,
			period->head.end_ns, open_spell, open_since_ns, report->weights));
	} else if (blocks->stacks) {
		missing_list_set(&block->missing, "stacks", "no capture succeeded");
	} else {
		missing_list_set(&block->missing, "stacks",
				 blocks->options.stack == BLOCKS_STACK_OFF ? "--stack off"
									   : "no capture service");
	}
	if (last && ours)
		watched->samples = (struct block_samples){0};
	send_report(blocks, report);
	if (last && ours)
		blocks_watch_end_period(watched);
	return 0;
fail:
	report->last = false;
	block_report_free(report);
	return err;
}
