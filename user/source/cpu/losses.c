/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/losses.h"

#include "jankscope/target.h"
#include "kernel/sched_kernel.h"
#include "source/cpu/ledger.h"
#include "source/cpu/names.h"
#include "source/declarations.h"

static const char *const loss_names[SCHED_LOSS_MAX] = {
	[SCHED_LOSS_TASK_MAP_FULL] = "cpu_task_map_full",
	[SCHED_LOSS_DEATH_RING_FULL] = "cpu_death_ring_full",
	[SCHED_LOSS_SLOT_REUSED] = "cpu_dead_slot_reused",
	[SCHED_LOSS_OVERFLOW_MAP_FULL] = "cpu_overflow_map_full_ns",
	[SCHED_LOSS_MISSED_SWITCH] = "cpu_missed_switches",
	[SCHED_LOSS_UNTOLD_NS] = "cpu_untold_at_most_ns",
	[SCHED_LOSS_UID_UNSPLIT] = "cpu_uid_changes_unsplit",
	[SCHED_LOSS_EXEC_UNTOLD] = "cpu_execs_untold",
	[SCHED_LOSS_BIRTH_UNTOLD] = "target_births_untold",
	[SCHED_LOSS_NAME_UNTOLD] = "target_names_untold",
	[SCHED_LOSS_ARGV_UNREAD] = "target_argv_unread",
	[SCHED_LOSS_TIME_ROWS_FULL] = "cpu_time_rows_full",
};

static const struct loss_info cpu_loss_items[] = {
	{"cpu_task_map_full", LOSS_LOST, LOSS_OF_NOTHING}, /* its time is cpu.overflow_ns */
	/* The task's slot tells of its death; --cpu iter: its time is ..._at_most_ns. */
	{"cpu_death_ring_full", LOSS_LATE, LOSS_OF_NOTHING},
	{"cpu_dead_slot_reused", LOSS_LOST, LOSS_OF_NOTHING}, /* its time is cpu.overflow_ns */
	{"cpu_overflow_map_full_ns", LOSS_LOST, LOSS_OF_CPU_TIME},
	{"cpu_untold_at_most_ns", LOSS_LOST, LOSS_OF_CPU_TIME},
	{"cpu_deaths_untold", LOSS_LOST, LOSS_OF_NOTHING}, /* its time is ..._at_most_ns */
	{"cpu_unreadable_tasks", LOSS_LOST, LOSS_OF_NOTHING},
	{"cpu_missed_seeds", LOSS_LOST, LOSS_OF_NOTHING},
	/* Rows of tasks that ended; their time is with their processes and uids. */
	{"cpu_tasks_folded", LOSS_LOST, LOSS_OF_NOTHING},
	{"cpu_names_dropped", LOSS_LATE, LOSS_OF_NOTHING}, /* the name comes with a scan */
	/* What the task ran since the last interval is the new uid's. */
	{"cpu_uid_changes_unsplit", LOSS_LOST, LOSS_OF_NOTHING},
	{"cpu_execs_untold", LOSS_LATE, LOSS_OF_NOTHING}, /* the name comes with a scan */
	/* Time of a target may be among cpu.other_ns. */
	{"target_births_untold", LOSS_LOST, LOSS_OF_NOTHING},
	{"target_names_untold", LOSS_LOST, LOSS_OF_NOTHING},
	{"target_argv_unread", LOSS_LOST, LOSS_OF_NOTHING}, /* its comm decides */
	{"target_isolated_unnamed", LOSS_LOST, LOSS_OF_NOTHING},
	{"cpu_time_rows_full", LOSS_LOST, LOSS_OF_NOTHING}, /* its time is in unplaced_ns */
	{"cpu_walks_skipped", LOSS_LATE, LOSS_OF_NOTHING},
	/* Nothing is missing: the sums are too high by this (README.md, "What it cannot tell"). */
	{"cpu_told_ahead_ns", LOSS_LATE, LOSS_OF_NOTHING},
	{"cpu_torn_reads", LOSS_LATE, LOSS_OF_NOTHING},
	{"cpu_missed_switches", LOSS_REPAIRED, LOSS_OF_NOTHING},
	{"cpu_missed_runs", LOSS_REPAIRED, LOSS_OF_NOTHING},
};

const struct loss_table cpu_losses = {cpu_loss_items,
				      sizeof(cpu_loss_items) / sizeof(*cpu_loss_items), NULL};

static void add_delta(struct counter_list *lost, const char *name, uint64_t now, uint64_t *before)
{
	if (now > *before)
		counter_list_add(lost, name, now - *before);
	*before = now;
}

static void add_kernel_losses(struct cpu_losses_told *told, const struct cpu_losses_of *of,
			      struct counter_list *lost)
{
	const struct cpu_reader_counts *counts = cpu_reader_counts(of->reader);
	uint64_t losses[SCHED_LOSS_MAX], missed_runs, torn_reads;

	if (sched_kernel_losses(of->kernel, losses, &missed_runs, &torn_reads))
		return;
	/* Whose name was not told and who still lives is found in /proc. */
	if (losses[SCHED_LOSS_BIRTH_UNTOLD] > told->kernel[SCHED_LOSS_BIRTH_UNTOLD] ||
	    losses[SCHED_LOSS_NAME_UNTOLD] > told->kernel[SCHED_LOSS_NAME_UNTOLD] ||
	    losses[SCHED_LOSS_ARGV_UNREAD] > told->kernel[SCHED_LOSS_ARGV_UNREAD])
		target_set_look_again(of->targets);
	for (int i = 0; i < SCHED_LOSS_MAX; i++)
		if (loss_names[i])
			add_delta(lost, loss_names[i], losses[i], &told->kernel[i]);
	add_delta(lost, "cpu_deaths_untold", counts->deaths_untold, &told->reader.deaths_untold);
	add_delta(lost, "cpu_walks_skipped", counts->walks_skipped, &told->reader.walks_skipped);
	add_delta(lost, "cpu_missed_runs", missed_runs, &told->missed_runs);
	add_delta(lost, "cpu_torn_reads", torn_reads, &told->torn_reads);
}

void cpu_losses_add(struct cpu_losses_told *told, const struct cpu_losses_of *of,
		    struct counter_list *lost)
{
	uint64_t unnamed = target_set_take_unnamed(of->targets);

	add_delta(lost, "cpu_missed_seeds", cpu_ledger_missed_seeds(of->ledger),
		  &told->missed_seeds);
	add_delta(lost, "cpu_told_ahead_ns", cpu_ledger_told_ahead_ns(of->ledger),
		  &told->told_ahead_ns);
	add_delta(lost, "cpu_tasks_folded", cpu_ledger_folded(of->ledger), &told->folded);
	add_delta(lost, "cpu_names_dropped", of->names->dropped, &told->names_dropped);
	if (unnamed)
		counter_list_add(lost, "target_isolated_unnamed", unnamed);
	add_delta(lost, "cpu_unreadable_tasks", cpu_reader_counts(of->reader)->unreadable,
		  &told->reader.unreadable);
	if (of->kernel)
		add_kernel_losses(told, of, lost);
}
