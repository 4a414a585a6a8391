/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's rows of processes and threads: the heaviest of both, threads below their process. */
#include <stdlib.h>
#include <string.h>

#include "sink/table_private.h"

/* Columns that are left out where the terminal is narrow. */
struct columns {
	bool switches, times, ids;
};

/* A process, or several short-lived ones of one name and uid. */
struct process_row {
	const struct record_process_cpu *process; /* the first of them */
	const struct record_task *only;           /* its one thread that ran; NULL: several */
	char *name;                               /* owned */
	bool brief;                               /* began or ended in this interval */
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	uint64_t count;
};

struct rows {
	struct process_row *processes;
	size_t count;
	size_t shown; /* of processes, the first ones */
	const struct record_task **threads;
	size_t thread_count;
};

static struct columns columns_of(const struct table_sink *table)
{
	unsigned width = table->options.width;

	return (struct columns){width >= 64, width >= 46, width >= 30};
}

/* Eight columns, in seconds where milliseconds are too many. */
static void put_ms(struct line *line, struct opt_u64 ns)
{
	if (!ns.present)
		line_put(line, " %8s", "-");
	else if (table_ms(ns.value) < 999999.95)
		line_put(line, " %8.1f", table_ms(ns.value));
	else
		line_put(line, " %7.0fs", (double)ns.value / 1e9);
}

/* Six columns, in thousands or millions where they are too many. */
static void put_count(struct line *line, struct opt_u64 count)
{
	unsigned long long value = count.value;

	if (!count.present)
		line_put(line, " %6s", "-");
	else if (value < 1000000)
		line_put(line, " %6llu", value);
	else if (value < 100000000)
		line_put(line, " %5lluk", value / 1000);
	else
		line_put(line, " %5lluM", value / 1000000 < 99999 ? value / 1000000 : 99999);
}

/* Six columns. */
static void put_core(struct line *line, double pct)
{
	if (pct < 9999.95)
		line_put(line, "%6.1f", pct);
	else
		line_put(line, "%6.0f", pct < 999999 ? pct : 999999);
}

/* What a row has before its name. id 0: a row of several. */
static void put_numbers(struct line *line, const struct columns *columns, uint64_t cpu_ns,
			double dur_ns, struct opt_u64 runnable_ns, const struct record_task *task,
			pid_t id)
{
	const struct opt_u64 none = {0};

	put_core(line, table_core_pct(cpu_ns, dur_ns));
	if (columns->times) {
		put_ms(line, SOME_U64(cpu_ns));
		put_ms(line, runnable_ns);
	}
	if (columns->switches) {
		put_count(line, task ? task->switches_voluntary : none);
		put_count(line, task ? task->switches_involuntary : none);
	}
	if (columns->ids && id)
		line_put(line, " %7d", id);
	else if (columns->ids)
		line_put(line, " %7s", "-");
}

static void print_heads(struct table_sink *table, const struct columns *columns)
{
	struct line line = table_line(table);

	line_style(&line, LINE_DIM);
	line_put(&line, "%6s", "%core");
	if (columns->times)
		line_put(&line, " %8s %8s", "CPU ms", "wait ms");
	if (columns->switches)
		line_put(&line, " %6s %6s", "vol", "invol");
	if (columns->ids)
		line_put(&line, " %7s", "PID/TID");
	line_put(&line, table->options.width >= 46 ? " PROCESS, THREAD" : " PROCESS");
	line_end(&line);
}

/* ---- which rows ---- */

static int by_name(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;
	int order;

	if (x->brief != y->brief)
		return x->brief ? -1 : 1;
	if (!x->brief)
		return 0;
	order = strcmp(x->name, y->name);
	if (order)
		return order;
	return x->process->uid < y->process->uid ? -1 : x->process->uid > y->process->uid;
}

static int by_cpu(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return x->process->pid < y->process->pid ? -1 : x->process->pid > y->process->pid;
}

static bool same_process(const struct record_process_cpu *process, const struct record_task *task)
{
	return process->pid == task->pid && process->start_boot_ns == task->process_start_boot_ns;
}

static int compare_owner(const void *a, const void *b)
{
	const struct record_task *const *x = a, *const *y = b;

	if ((*x)->pid != (*y)->pid)
		return (*x)->pid < (*y)->pid ? -1 : 1;
	if ((*x)->process_start_boot_ns != (*y)->process_start_boot_ns)
		return (*x)->process_start_boot_ns < (*y)->process_start_boot_ns ? -1 : 1;
	/* the first thread first */
	return ((*y)->tid == (*y)->pid) - ((*x)->tid == (*x)->pid);
}

static int compare_process(const void *key, const void *element)
{
	const struct record_process_cpu *process = key;
	const struct record_task *task = *(const struct record_task *const *)element;

	if (process->pid != task->pid)
		return process->pid < task->pid ? -1 : 1;
	if (process->start_boot_ns != task->process_start_boot_ns)
		return process->start_boot_ns < task->process_start_boot_ns ? -1 : 1;
	return 0;
}

/* A process's threads, the first one first; its only one where there is one. */
static void find_threads(struct process_row *row, const struct record_task **tasks, size_t count,
			 const struct record_task **first)
{
	const struct record_task **found =
		bsearch(row->process, tasks, count, sizeof(*tasks), compare_process);

	*first = NULL;
	if (!found)
		return;
	while (found > tasks && same_process(row->process, found[-1]))
		found--;
	*first = *found;
	if (row->process->threads <= 1 && (*found)->tid == (*found)->pid)
		row->only = *found;
}

/* Those that began or ended in the interval and are called alike become one row. */
static void merge_brief(struct rows *rows)
{
	size_t kept = 0;

	qsort(rows->processes, rows->count, sizeof(*rows->processes), by_name);
	for (size_t i = 0; i < rows->count; i++) {
		struct process_row *row = &rows->processes[i], *last;

		last = kept ? &rows->processes[kept - 1] : NULL;
		if (last && row->brief && last->brief && !by_name(last, row)) {
			last->cpu_ns += row->cpu_ns;
			last->runnable_ns.value += row->runnable_ns.value;
			last->runnable_ns.present &= row->runnable_ns.present;
			last->only = NULL;
			last->count++;
			free(row->name);
			continue;
		}
		rows->processes[kept++] = *row;
	}
	rows->count = kept;
	qsort(rows->processes, rows->count, sizeof(*rows->processes), by_cpu);
}

static bool make_processes(struct rows *rows, const struct record_cpu *cpu, uint64_t begin_boot_ns)
{
	size_t task_count = cpu->task_count + cpu->cut_count;
	const struct record_task **tasks = calloc(task_count + 1, sizeof(*tasks));
	char name[TABLE_NAME];

	rows->processes = calloc(cpu->process_count + 1, sizeof(*rows->processes));
	for (size_t i = 0; tasks && i < task_count; i++)
		tasks[i] = &cpu->tasks[i];
	if (tasks)
		qsort(tasks, task_count, sizeof(*tasks), compare_owner);
	for (size_t i = 0; tasks && rows->processes && i < cpu->process_count; i++) {
		const struct record_process_cpu *process = &cpu->processes[i];
		struct process_row *row = &rows->processes[rows->count];
		const struct record_task *first;

		row->process = process;
		row->cpu_ns = process->cpu_ns;
		row->runnable_ns = process->runnable_ns;
		row->count = 1;
		row->brief = process->exited || process->start_boot_ns > begin_boot_ns;
		find_threads(row, tasks, task_count, &first);
		row->name = strdup(table_process(name, process->process, process->package,
						 first ? first->thread : NULL));
		if (!row->name)
			break;
		rows->count++;
	}
	free(tasks);
	return rows->processes && rows->count == cpu->process_count;
}

/* Of processes and of threads the heaviest, `top` of both together. A process has at least the time
 * of each of its threads, so it is taken before them. */
static bool pick(struct rows *rows, const struct record_cpu *cpu, size_t top)
{
	/* --top cuts the record's list by its own count: what it cut is still there. */
	size_t task_count = cpu->task_count + cpu->cut_count, next = 0;

	rows->threads = calloc((top < task_count ? top : task_count) + 1, sizeof(*rows->threads));
	if (!rows->threads)
		return false;
	while (rows->shown + rows->thread_count < top) {
		const struct record_task *task = next < task_count ? &cpu->tasks[next] : NULL;
		struct process_row *owner = NULL;

		if (rows->shown < rows->count &&
		    (!task || rows->processes[rows->shown].cpu_ns >= task->cpu_ns)) {
			rows->shown++;
			continue;
		}
		if (!task)
			break;
		next++;
		for (size_t i = 0; i < rows->shown && !owner; i++)
			if (same_process(rows->processes[i].process, task))
				owner = &rows->processes[i];
		if (owner && !owner->only && owner->count == 1)
			rows->threads[rows->thread_count++] = task;
	}
	return true;
}

/* ---- printing ---- */

static void put_name(struct line *line, const char *name, const char *behind)
{
	char text[TABLE_NAME];
	int room = line->width - line->column - 1 - text_columns(behind);

	/* On a narrow terminal what a process is called goes before what became of it. */
	if (room < 8) {
		room = line->width - line->column - 1;
		behind = "";
	}
	line_put(line, " %s%s", text_tail(text, sizeof(text), name, room), behind);
}

static void print_process(struct table_sink *table, const struct columns *columns,
			  const struct process_row *row, double dur_ns)
{
	struct line line = table_line(table);
	char behind[64] = "";

	if (row->count > 1)
		snprintf(behind, sizeof(behind), " x%llu", (unsigned long long)row->count);
	else if (!row->only && row->process->threads > 1)
		snprintf(behind, sizeof(behind), " (%u threads)%s", row->process->threads,
			 row->process->exited ? " ended" : "");
	else if (row->process->exited)
		snprintf(behind, sizeof(behind), " ended");
	if (table_core_pct(row->cpu_ns, dur_ns) >= 50)
		line_style(&line, LINE_WARN);
	put_numbers(&line, columns, row->cpu_ns, dur_ns, row->runnable_ns, row->only,
		    row->count > 1 ? 0 : row->process->pid);
	put_name(&line, row->name, behind);
	line_end(&line);
}

static void print_thread(struct table_sink *table, const struct columns *columns,
			 const struct record_task *task, double dur_ns)
{
	struct line line = table_line(table);
	char text[TABLE_NAME], name[TABLE_NAME + 4];

	line_style(&line, LINE_DIM);
	put_numbers(&line, columns, task->cpu_ns, dur_ns, task->runnable_ns, task, task->tid);
	snprintf(name, sizeof(name), "  %s",
		 text_clean(text, sizeof(text), task->thread[0] ? task->thread : "-"));
	put_name(&line, name, task->exited ? " ended" : "");
	line_end(&line);
}

static void print_rest(struct table_sink *table, const struct columns *columns, uint64_t cpu_ns,
		       double dur_ns, const char *what)
{
	struct line line = table_line(table);

	put_core(&line, table_core_pct(cpu_ns, dur_ns));
	if (columns->times)
		put_ms(&line, SOME_U64(cpu_ns));
	line_put(&line, "  %s", what);
	line_end(&line);
}

void table_print_cpu(struct table_sink *table, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	const struct record_cpu *cpu = &interval->cpu;
	const struct columns columns = columns_of(table);
	double dur_ns = (double)interval->dur_ns;
	uint64_t begin_ns = record->t_boot_ns - interval->dur_ns, listed_ns = 0, shown_ns = 0;
	struct rows rows = {0};
	char text[64];

	if (!make_processes(&rows, cpu, begin_ns))
		goto out;
	merge_brief(&rows);
	if (!pick(&rows, cpu, table->options.top ? table->options.top : SIZE_MAX))
		goto out;
	if (rows.shown)
		print_heads(table, &columns);
	for (size_t i = 0; i < rows.shown; i++) {
		const struct process_row *row = &rows.processes[i];

		print_process(table, &columns, row, dur_ns);
		for (size_t t = 0; t < rows.thread_count; t++)
			if (row->count == 1 && same_process(row->process, rows.threads[t]))
				print_thread(table, &columns, rows.threads[t], dur_ns);
		shown_ns += row->cpu_ns;
	}
	for (size_t i = 0; i < cpu->process_count; i++)
		listed_ns += cpu->processes[i].cpu_ns;
	if (rows.count > rows.shown) {
		uint64_t others = 0;

		for (size_t i = rows.shown; i < rows.count; i++)
			others += rows.processes[i].count;
		snprintf(text, sizeof(text), "in %llu other process%s", (unsigned long long)others,
			 others == 1 ? "" : "es");
		print_rest(table, &columns, listed_ns - shown_ns, dur_ns, text);
	}
	if (cpu->busy_ns > listed_ns + cpu->overflow_ns)
		print_rest(table, &columns, cpu->busy_ns - listed_ns - cpu->overflow_ns, dur_ns,
			   table->has_targets ? "not the target's" : "in other tasks");
	if (cpu->overflow_ns)
		print_rest(table, &columns, cpu->overflow_ns, dur_ns,
			   "in tasks that found no room in the map");
out:
	for (size_t i = 0; i < rows.count; i++)
		free(rows.processes[i].name);
	free(rows.processes);
	free(rows.threads);
}
