/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of an interval: what was booked in the ledger becomes the rows, processes and uids of a
 * record, and the ledger starts the next interval. */
#include <errno.h>
#include <stdlib.h>

#include "source/cpu/ledger_private.h"

#define CLOCK_SKEW_NS 1000000

static int by_cpu_desc(const void *a, const void *b)
{
	const struct record_task *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* The identity of the row's process: a later owner of its pid is another one. */
static uint64_t start_of_process(const struct cpu_ledger *ledger, const struct record_task *task)
{
	const struct known_task *leader = known_tasks_find(&ledger->known, task->pid);

	if (task->process_start_boot_ns)
		return task->process_start_boot_ns;
	if (task->tid == task->pid)
		return task->start_boot_ns;
	return leader ? leader->start_boot_ns : 0;
}

/* Add the folded tasks to the processes of the record; no row of the record has their time. */
static int add_folded(struct cpu_ledger *ledger, const struct cpu_ledger_names *names,
		      struct record_cpu *cpu)
{
	const struct folded_process *process = NULL;
	int err = 0;

	cpu->busy_ns += ledger->folded.cpu_ns;
	cpu->other_ns += ledger->folded.cpu_ns;
	while (!err && (process = cpu_folded_next(&ledger->folded, process))) {
		struct record_task sum = process->sum;

		sum.process_start_boot_ns = start_of_process(ledger, &sum);
		if (!names->listed(names->ctx, &sum, 0))
			continue;
		sum.process = names->process(names->ctx, sum.pid, sum.process_start_boot_ns);
		sum.package = names->package(names->ctx, sum.uid);
		err = cpu_sums_add_process(&ledger->sums, &sum, process->threads);
	}
	return err;
}

/* Which rows are listed. */
static void decide_rows(struct cpu_ledger *ledger, const struct cpu_ledger_names *names,
			struct record_cpu *cpu)
{
	for (size_t i = 0; i < ledger->rows.count; i++) {
		struct ledger_row *row = &ledger->rows.rows[i];
		struct record_task *task = &row->task;

		cpu->busy_ns += task->cpu_ns;
		task->process_start_boot_ns = start_of_process(ledger, task);
		if (row->decided)
			continue;
		row->decided = true;
		row->listed = task->tid &&
			      names->listed(names->ctx, task, task->exited ? row->end_boot_ns : 0);
	}
}

/* For how long of an interval the machine was suspended. The two clocks by which it is told are not
 * read at one moment. */
static uint64_t suspended_in(const struct cpu_ledger *ledger, uint64_t end_boot_ns, uint64_t dur_ns)
{
	uint64_t passed_ns = end_boot_ns > ledger->end_ns ? end_boot_ns - ledger->end_ns : 0;

	return passed_ns > dur_ns + CLOCK_SKEW_NS ? passed_ns - dur_ns : 0;
}

int cpu_ledger_close(struct cpu_ledger *ledger, uint64_t end_boot_ns, uint64_t dur_ns, size_t top,
		     const struct cpu_ledger_names *names, struct record_cpu *cpu)
{
	uint64_t suspended_ns = suspended_in(ledger, end_boot_ns, dur_ns);
	int err;

	cpu->busy_ns = ledger->overflow_ns;
	cpu->overflow_ns = ledger->overflow_ns;
	decide_rows(ledger, names, cpu);
	cpu->other_ns = cpu_rows_merge(&ledger->rows);
	cpu->tasks = cpu_rows_hand_out(&ledger->rows, end_boot_ns, dur_ns, suspended_ns,
				       &cpu->task_count);
	for (size_t i = 0; i < cpu->task_count; i++) {
		struct record_task *task = &cpu->tasks[i];

		if (!task->process)
			task->process =
				names->process(names->ctx, task->pid, task->process_start_boot_ns);
		task->package = names->package(names->ctx, task->uid);
	}
	if (cpu->task_count)
		qsort(cpu->tasks, cpu->task_count, sizeof(*cpu->tasks), by_cpu_desc);
	err = add_folded(ledger, names, cpu);
	if (!err)
		err = cpu_sums_processes(&ledger->sums, cpu);
	if (!err)
		err = cpu_sums_uids(&ledger->sums, cpu);
	while (top && cpu->task_count > top) {
		cpu->other_ns += cpu->tasks[--cpu->task_count].cpu_ns;
		cpu->cut_count++;
	}
	cpu_folded_clear(&ledger->folded);
	ledger->wanted_count = 0;
	ledger->overflow_ns = 0;
	ledger->interval++;
	/* By the begin of this interval: of a task that departed in it the death may be told at the
	 * next read-out only, however long the intervals are. */
	known_tasks_forget(&ledger->known, ledger->end_ns);
	ledger->end_ns = end_boot_ns;
	return err;
}
