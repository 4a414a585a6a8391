/* SPDX-License-Identifier: BSD-2-Clause */
/* What the blocks source says of its losses and of its captures. */
#include "summary/summary.h"
#include "source/blocks/source.h"

static const struct loss_info blocks_loss_items[] = {
	{"blocks_event_ring_full", LOSS_LOST, LOSS_OF_BLOCKS},
	/* told as open; their thread was not switched out for 5 s after its process had ended */
	{"blocks_end_unseen", LOSS_LOST, LOSS_OF_BLOCKS},
	{"blocks_not_watched", LOSS_LOST, LOSS_OF_NOTHING}, /* processes, whose blocks none knows */
	{"block_spells_dropped", LOSS_LOST, LOSS_OF_NOTHING}, /* parts of a block's ledger */
	/* of a block's sleep and its frozen time, so much may be the other */
	{"frozen_unsure_ns", LOSS_LATE, LOSS_OF_NOTHING},
	/* samples of a block's stacks; a block without any stack is counted by itself */
	{"samples_not_taken", LOSS_LOST, LOSS_OF_NOTHING},
	{"samples_late", LOSS_LOST, LOSS_OF_NOTHING},
	{"samples_held_up", LOSS_LOST, LOSS_OF_NOTHING},
	{"stacks_abandoned", LOSS_LOST, LOSS_OF_NOTHING},
	{"stacks_no_memory", LOSS_LOST, LOSS_OF_NOTHING},
	/* binder calls whose times are not known, because too many threads call or are called */
	{"binder_calls_not_followed", LOSS_LOST, LOSS_OF_NOTHING},
	/* threads that ended a long sleep and are told without their stack */
	{"wakers_without_stack", LOSS_LOST, LOSS_OF_NOTHING},
	/* waits for a CPU of which is not told who ran there: too many watched threads waited */
	{"blocks_waiters_untold", LOSS_LOST, LOSS_OF_NOTHING},
	{"probes_delayed", LOSS_LATE, LOSS_OF_NOTHING},
	{"probes_held_off", LOSS_LATE, LOSS_OF_NOTHING}, /* by a process that keeps its mmap_lock */
	/* the switch program sees what a probe did not */
	{"blocks_missed_entry", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"blocks_missed_exit", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"blocks_missed_switches", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"blocks_resynced", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"sampler_replaced", LOSS_REPAIRED, LOSS_OF_NOTHING},
};

const struct loss_table blocks_losses = {
	blocks_loss_items,
	sizeof(blocks_loss_items) / sizeof(*blocks_loss_items),
	&unwinder_losses,
};

static void add_delta(struct counter_list *lost, const char *name, uint64_t now, uint64_t *before)
{
	if (now > *before)
		counter_list_add(lost, name, now - *before);
	*before = now;
}

/* What the totals grew by since they were seen last, which they replace. */
static void add_growth(struct counter_list *lost, struct counter_list *now,
		       struct counter_list *before)
{
	for (size_t i = 0; i < now->count; i++) {
		const char *name = now->items[i].name;
		uint64_t was = counter_list_get(before, name);

		if (now->items[i].value > was)
			counter_list_add(lost, name, now->items[i].value - was);
	}
	counter_list_free(before);
	*before = *now;
}

static void add_kernel_losses(struct blocks_source *blocks, struct counter_list *lost)
{
	static const char *const names[LOOPER_LOSS_MAX] = {
		[LOOPER_LOSS_EVENT_RING_FULL] = "blocks_event_ring_full",
		[LOOPER_LOSS_MISSED_ENTRY] = "blocks_missed_entry",
		[LOOPER_LOSS_MISSED_SWITCH] = "blocks_missed_switches",
		[LOOPER_LOSS_MISSED_EXIT] = "blocks_missed_exit",
		[LOOPER_LOSS_WAKER_RING_FULL] = "wakers_without_stack",
		[LOOPER_LOSS_WAITER_UNPLACED] = "blocks_waiters_untold",
	};
	uint64_t losses[LOOPER_LOSS_MAX];

	if (looper_kernel_losses(blocks->kernel, losses))
		return;
	for (int i = 0; i < LOOPER_LOSS_MAX; i++)
		if (names[i])
			add_delta(lost, names[i], losses[i], &blocks->losses[i]);
}

static void add_binder_losses(struct blocks_source *blocks, struct counter_list *lost)
{
	uint64_t losses[BINDER_LOSS_MAX], all = 0;

	if (!blocks->binder || binder_kernel_losses(blocks->binder, losses))
		return;
	for (int i = 0; i < BINDER_LOSS_MAX; i++)
		all += losses[i];
	add_delta(lost, "binder_calls_not_followed", all, &blocks->binder_losses_told);
}

static void add_sampler_losses(struct blocks_source *blocks, struct record_interval *interval)
{
	struct counter_list *lost = &interval->lost;
	struct blocks_sampler_losses now = blocks_sampler_losses(blocks->sampler);
	struct blocks_sampler_losses *told = &blocks->sampler_told;
	struct stack_stats stats;

	add_delta(lost, "sampler_replaced", now.replaced, &told->replaced);
	add_delta(lost, "samples_not_taken", now.not_taken, &told->not_taken);
	add_delta(lost, "samples_held_up", now.targets_stuck, &told->targets_stuck);
	blocks_sampler_stats(blocks->sampler, &stats);
	interval->self.stops += stats.stops - blocks->seen.stops;
	if (stats.stops > blocks->seen.stops && stats.stop_max_ns > interval->self.stop_max_ns)
		interval->self.stop_max_ns = stats.stop_max_ns;
	blocks->seen = stats;
}

void blocks_add_losses(struct blocks_source *blocks, struct record_interval *interval)
{
	struct counter_list *lost = &interval->lost;
	struct counter_list losses = {0};

	add_kernel_losses(blocks, lost);
	add_binder_losses(blocks, lost);
	add_delta(lost, "blocks_not_watched", blocks->unwatched, &blocks->unwatched_told);
	add_delta(lost, "probes_delayed", blocks->probes_delayed, &blocks->probes_delayed_told);
	add_delta(lost, "probes_held_off", blocks->probes_held_off, &blocks->probes_held_off_told);
	add_delta(lost, "wakers_without_stack", blocks->wakers_without_stack,
		  &blocks->wakers_without_stack_told);
	add_delta(lost, "blocks_end_unseen", blocks->ends_unseen, &blocks->ends_unseen_told);
	add_delta(lost, "samples_late", blocks->samples_late, &blocks->samples_late_told);
	/* Whoever reads a slot first makes it agree again: this process or the sampler. */
	add_delta(lost, "blocks_resynced",
		  looper_kernel_resynced(blocks->kernel) +
			  (blocks->sampler ? blocks_sampler_losses(blocks->sampler).resynced : 0),
		  &blocks->resynced_told);
	add_delta(lost, "stacks_abandoned", blocks->reports.stacks_abandoned,
		  &blocks->abandoned_told);
	if (blocks->sampler)
		add_sampler_losses(blocks, interval);
	if (!blocks->unwinder || unwinder_counters(blocks->unwinder, &losses)) {
		counter_list_free(&losses);
		return;
	}
	add_growth(lost, &losses, &blocks->stack_losses);
}

static void set(struct summary *summary, const char *key, uint64_t value)
{
	summary_set_total(summary, key, (double)value);
}

void blocks_set_totals(const struct blocks_source *blocks, struct summary *summary)
{
	struct stack_stats stats;

	set(summary, "blocks.stacks_followed", blocks->reports.stacks_late);
	set(summary, "blocks.unproved", blocks->unproved);
	if (!blocks->sampler)
		return;
	blocks_sampler_stats(blocks->sampler, &stats);
	blocks_sampler_percentiles(blocks->sampler, &stats);
	set(summary, "captures.snapshot", stats.captures[CAPTURE_SNAPSHOT]);
	set(summary, "captures.snapshot_p50_ns", stats.snapshot_p50_ns);
	set(summary, "captures.snapshot_p99_ns", stats.snapshot_p99_ns);
	set(summary, "captures.perf", stats.captures[CAPTURE_PERF]);
	set(summary, "captures.ptrace", stats.captures[CAPTURE_PTRACE]);
	set(summary, "captures.kernel", stats.captures[CAPTURE_KERNEL]);
	set(summary, "captures.stops", stats.stops);
	set(summary, "captures.stop_p50_ns", stats.stop_p50_ns);
	set(summary, "captures.stop_p99_ns", stats.stop_p99_ns);
	set(summary, "captures.stop_max_ns", stats.stop_max_ns);
	set(summary, "captures.eintr_risk", stats.eintr_risk);
	set(summary, "captures.workers_replaced", stats.workers_replaced);
}
