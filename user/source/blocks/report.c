/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sched.h"
#include "source/blocks/source.h"

int64_t blocks_boot_minus_mono_ns(void)
{
	uint64_t mono_ns = clock_now_ns(CLOCK_MONOTONIC);

	/* In this order the difference is never below 0. */
	return (int64_t)(clock_now_ns(CLOCK_BOOTTIME) - mono_ns);
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

/* ---- on its way out ---- */

void blocks_emit(struct blocks_source *blocks, bool final)
{
	uint64_t next_ns =
		block_reports_emit(&blocks->reports, clock_now_ns(CLOCK_MONOTONIC), final,
				   blocks->context.emit, blocks->context.emit_ctx);

	if (next_ns)
		blocks_wake_at(blocks, next_ns);
}

/* ---- what is in it ---- */

/* The names of other processes may be gone when the record goes out. */
static int keep_names(struct block_report *report)
{
	struct record_block *block = &report->block;
	const char **names[3 + LOOPER_PREEMPTORS + 1 + SAMPLER_CHAIN];
	size_t count = 0, room = 1;
	char *at;

	names[count++] = &block->waker.process;
	names[count++] = &block->owner.process;
	for (size_t i = 0; i < block->preemptor_count && i <= LOOPER_PREEMPTORS; i++)
		names[count++] = &block->preemptors[i].process;
	for (size_t i = 0; i < report->chain.count; i++)
		names[count++] = &report->processes[i];
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

	if (!watched->period.tracking || !watched->period.load.mono_ns ||
	    watched->period.number != period->head.period) {
		missing_list_set(&block->missing, "app_cpu_ns", "the block was told when it ended");
		return;
	}
	now = blocks_load_now(blocks, watched->pid);
	if (now.mono_ns <= watched->period.load.mono_ns)
		return;
	block->load_dur_ns = SOME_U64(now.mono_ns - watched->period.load.mono_ns);
	if (now.idle_ns.present && watched->period.load.idle_ns.present) {
		uint64_t all_ns = sched_kernel_cpu_count(blocks->sched) * block->load_dur_ns.value;
		uint64_t idle_ns = now.idle_ns.value > watched->period.load.idle_ns.value
					   ? now.idle_ns.value - watched->period.load.idle_ns.value
					   : 0;

		block->machine_busy_ns = SOME_U64(all_ns > idle_ns ? all_ns - idle_ns : 0);
	}
	if (now.cpu_ns.present && watched->period.load.cpu_ns.present)
		block->app_cpu_ns = SOME_U64(now.cpu_ns.value - watched->period.load.cpu_ns.value);
	block->app_rss_bytes = watched->period.load.rss_bytes;
}

/* The chain that a record tells: of the sleep that the main thread is in, else of the longest of
 * those that were looked at. */
static const struct block_chain *chain_of(const struct watched *watched, uint64_t open_spell)
{
	const struct block_chain *last = &watched->period.chain,
				 *before = &watched->period.chain_before;

	return !(open_spell && last->spell == open_spell) &&
			       block_chain_outlasts(before, last, &watched->period.spells)
		       ? before
		       : last;
}

static void fill_owner(struct blocks_source *blocks, const struct watched *watched,
		       const struct block_chain *chain, struct record_block *block)
{
	const struct block_chain_link *owner = chain->links;

	if (!chain->count || owner->how != LINK_BY_LOCK || owner->lock == LOCK_JOIN)
		return;
	block->owner.present = true;
	block->owner.pid = watched->pid;
	block->owner.tid = owner->tid;
	memcpy(block->owner.thread, owner->thread, sizeof(block->owner.thread));
	block->owner.process = process_name(blocks, watched->pid);
}

/* The wake-up of the sleep that the record's waker ended, if it was told of. */
static void keep_wake(const struct blocks_source *blocks, const struct watched *watched,
		      struct block_report *report)
{
	const struct block_spell *longest = block_spells_longest(&watched->period.spells);
	const struct block_wake *wake = &watched->period.wake;

	report->block_ns = blocks->context.block_ns;
	if (!longest)
		return;
	report->longest_ns = longest->end_ns - longest->begin_ns - longest->wait_ns;
	if (wake->spell == longest->spell && wake->tid == (pid_t)longest->waker_tid)
		report->wake = *wake;
}

/* Two changes seen by looks that are 50 ms apart: what it is off by at the most. More is said. */
#define FROZEN_UNSURE_NS (50 * NSEC_PER_MSEC)

/* Time that it was found frozen in was no sleep of its own. */
static void move_frozen(const struct watched *watched, struct looper_period_event *period)
{
	uint64_t frozen_ns = watched->period.frozen_ns;
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

static const char *why_no_stacks(const struct blocks_source *blocks)
{
	if (blocks->thinned)
		return "thinned: the recorder is above its own limits";
	if (blocks->sampler)
		return NULL;
	return blocks->options.stack == BLOCKS_STACK_OFF ? "--stack off" : "no sampler process";
}

static int fill(struct blocks_source *blocks, struct watched *watched,
		const struct looper_period_event *period, enum block_state state,
		uint64_t open_spell, struct block_report *report)
{
	bool ours = watched->period.tracking && watched->period.number == period->head.period;
	struct record_block *block = &report->block;
	int err;

	refresh_names(blocks, watched);
	report->process = strdup(watched->process);
	report->package = watched->package[0] ? strdup(watched->package) : NULL;
	if (!report->process)
		return -ENOMEM;
	block->pid = watched->pid;
	block->tid = watched->tid;
	block->process = report->process;
	block->package = report->package;
	block->state = state;
	block->detector = blocks_detector_name(blocks, watched->detector);
	err = block_ledger_fill(block, period, ours ? &watched->period.spells : NULL,
				ours ? watched->period.boot_minus_mono_ns
				     : blocks_boot_minus_mono_ns(),
				process_name, blocks);
	if (err)
		return err;
	if (report->last) {
		block->faults_minor = SOME_U64(period->faults_minor);
		block->faults_major = SOME_U64(period->faults_major);
	} else {
		missing_list_set(&block->missing, "faults_minor", "told when the block ends");
	}
	fill_load(blocks, watched, period, block);
	if (ours && watched->period.frozen_unsure_ns > FROZEN_UNSURE_NS) {
		err = counter_list_add(&block->lost, "frozen_unsure_ns",
				       watched->period.frozen_unsure_ns);
		if (err)
			return err;
	}
	if (ours) {
		report->chain = *chain_of(watched, open_spell);
		blocks_refresh_calls(blocks, &report->chain, report->last);
		for (size_t i = 0; i < report->chain.count; i++)
			report->processes[i] = process_name(blocks, report->chain.links[i].pid);
		fill_owner(blocks, watched, &report->chain, block);
		keep_wake(blocks, watched, report);
	}
	return keep_names(report);
}

int blocks_report(struct blocks_source *blocks, struct watched *watched,
		  const struct looper_period_event *told, enum block_state state,
		  uint64_t open_spell, uint64_t open_since_ns)
{
	struct looper_period_event copy = *told, *period = &copy;
	bool ours = watched->period.tracking && watched->period.number == period->head.period;
	struct block_report *report;
	uint64_t unseen_ns;
	int err;

	/* Nobody has seen the thread thaw before the period ended. */
	if (ours && state != BLOCK_OPEN && watched->period.frozen_seen_ns &&
	    period->head.end_ns > watched->period.frozen_seen_ns) {
		unseen_ns = period->head.end_ns - watched->period.frozen_seen_ns;
		watched->period.frozen_ns += unseen_ns;
		watched->period.frozen_unsure_ns += unseen_ns;
	}
	if (ours && watched->period.frozen_ns) {
		move_frozen(watched, period);
		if (period->head.end_ns - period->head.begin_ns <
		    blocks->context.block_ns + period->sums.stopped_ns) {
			blocks_watch_end_period(watched);
			return 0;
		}
	}
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	report->last = state != BLOCK_OPEN;
	report->unknown = period->flags & LOOPER_EVENT_UNKNOWN_LOOP;
	report->early = report->unknown && !watched->is_loop;
	report->held = report->early && period->loop_kind != LOOPER_WAIT_EPOLL &&
		       period->loop_kind != LOOPER_WAIT_URING;
	if (report->last) {
		blocks_ask_waiters(blocks, watched, period->loop_kind, period->loop_fd,
				   clock_now_ns(CLOCK_MONOTONIC));
		report->doubted = blocks_own_pending(watched, clock_now_ns(CLOCK_MONOTONIC));
	}
	report->slot_id = watched->slot_id;
	report->period = period->head.period;
	report->begin_ns = period->head.begin_ns;
	report->end_ns = period->head.end_ns;
	report->created_ns = clock_now_ns(CLOCK_MONOTONIC);
	report->no_stacks = why_no_stacks(blocks);
	report->failed = ours ? watched->period.failed : 0;
	report->failure = ours ? watched->period.failure : STACK_OK;
	err = fill(blocks, watched, period, state, open_spell, report);
	if (!err && ours)
		err = block_report_weigh(report, &watched->period.samples, &watched->period.spells,
					 open_spell, open_since_ns);
	if (err) {
		block_report_free(report);
		return err;
	}
	if (report->last && ours) {
		report->list = watched->period.samples;
		report->spells = watched->period.spells;
		watched->period.samples = (struct block_samples){0};
		watched->period.spells = (struct block_spells){0};
		blocks_watch_end_period(watched);
	}
	/* A later one may be followed already. */
	if (report->last && watched->period.number < report->period) {
		blocks_watch_end_period(watched);
		watched->period.number = report->period;
	}
	block_reports_add(&blocks->reports, report);
	blocks_emit(blocks, false);
	return 0;
}

static bool spell_is_open(const struct looper_slot *slot, uint64_t *since_ns)
{
	*since_ns = slot->off_ns;
	return !slot->on_cpu && slot->off_state != OFF_CPU_RUNNABLE && slot->off_ns;
}

int blocks_report_open(struct blocks_source *blocks, struct watched *watched,
		       const struct looper_slot *slot, uint64_t now_ns)
{
	struct looper_period_event period;
	uint64_t since_ns;
	bool open = spell_is_open(slot, &since_ns);

	block_period_now(slot, now_ns, &period);
	return blocks_report(blocks, watched, &period, BLOCK_OPEN, open ? slot->spell : 0,
			     open ? since_ns : 0);
}
