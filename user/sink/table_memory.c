/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's rows of memory: of an interval, and of the run with its slopes. */
#include <stdlib.h>
#include <string.h>

#include "sink/table_private.h"
#include "util/units.h"

static const char *bytes_or_none(char *text, size_t size, struct opt_u64 bytes)
{
	if (!bytes.present)
		return "-";
	return format_bytes(text, size, bytes.value);
}

static void put_count(struct line *line, int width, struct opt_u64 count, const char *what)
{
	if (count.present)
		line_put(line, " %*llu %s", width, (unsigned long long)count.value, what);
	else
		line_put(line, " %*s %s", width, "-", what);
}

/* behind: columns that are wanted behind the name. */
static void put_name(struct line *line, const char *process, const char *package, size_t behind)
{
	char name[TABLE_NAME], shown[TABLE_NAME];
	int room = line->width - line->column - 1 - (int)behind;

	table_process(name, process, package, NULL);
	line_put(line, " %s", text_tail(shown, sizeof(shown), name, room < 8 ? 40 : room));
}

static void print_process(struct table_sink *table, const struct record_memory_process *process)
{
	struct line line = table_line(table);
	char text[32], reason[256];

	line_put(&line, "  mem %7d", process->pid);
	line_put(&line, " rss %10s", bytes_or_none(text, sizeof(text), process->rss_bytes));
	line_put(&line, " pss %10s", bytes_or_none(text, sizeof(text), process->pss_bytes));
	put_count(&line, 4, process->threads, "thr");
	put_count(&line, 4, process->fds, "fds");
	put_name(&line, process->process, process->package, 0);
	if (process->swap_bytes.present && process->swap_bytes.value)
		line_put(&line, "  swap %s",
			 format_bytes(text, sizeof(text), process->swap_bytes.value));
	if (process->hugetlb_bytes.value)
		line_put(&line, "  hugetlb %s",
			 format_bytes(text, sizeof(text), process->hugetlb_bytes.value));
	line_end(&line);
	for (size_t i = 0; i < process->missing.count; i++) {
		line_style(&line, LINE_WARN);
		line_put(&line, "      no %s:",
			 text_clean(reason, sizeof(reason), process->missing.items[i].key));
		reason[0] = ' ';
		text_clean(reason + 1, sizeof(reason) - 1, process->missing.items[i].reason);
		line_put_words(&line, reason);
		line_end(&line);
	}
}

static int larger(const void *a, const void *b)
{
	const struct record_memory_process *const *x = a, *const *y = b;

	if ((*x)->rss_bytes.value != (*y)->rss_bytes.value)
		return (*x)->rss_bytes.value < (*y)->rss_bytes.value ? 1 : -1;
	return (*x)->pid < (*y)->pid ? -1 : (*x)->pid > (*y)->pid;
}

void table_print_memory(struct table_sink *table, const struct record_memory *memory)
{
	const struct record_memory_system *system = &memory->system;
	const struct record_memory_process **rows =
		calloc(memory->process_count + 1, sizeof(*rows));
	/* Threads have the larger part of the screen; --top gives both more. */
	size_t top = table->options.top ? (table->options.top + 2) / 3 : SIZE_MAX;
	struct line line = table_line(table);
	uint64_t rest = 0;
	char text[32];

	for (size_t i = 0; rows && i < memory->process_count; i++)
		rows[i] = &memory->processes[i];
	if (rows)
		qsort(rows, memory->process_count, sizeof(*rows), larger);
	for (size_t i = 0; rows && i < memory->process_count; i++) {
		if (i < top)
			print_process(table, rows[i]);
		else
			rest += rows[i]->rss_bytes.value;
	}
	if (memory->process_count > top) {
		line_put(&line, "  mem %zu more", memory->process_count - top);
		line_put(&line, " rss %s in all", format_bytes(text, sizeof(text), rest));
		line_end(&line);
	}
	free(rows);
	if (!system->available_bytes.present)
		return;
	line_put(&line, "  mem available %s",
		 format_bytes(text, sizeof(text), system->available_bytes.value));
	if (system->total_bytes.present)
		line_put(&line, " of %s",
			 format_bytes(text, sizeof(text), system->total_bytes.value));
	if (system->swap_total_bytes.value > system->swap_free_bytes.value)
		line_put(&line, ", swapped out %s",
			 format_bytes(text, sizeof(text),
				      system->swap_total_bytes.value -
					      system->swap_free_bytes.value));
	if (system->pressure_some_ns.value)
		line_put(&line, ", waited for %.1f ms", table_ms(system->pressure_some_ns.value));
	line_end(&line);
}

/* ---- footer ---- */

/* With its sign: "+1.5", in MiB. */
static void put_slope(struct line *line, int width, struct opt_i64 slope)
{
	if (slope.present)
		line_put(line, " %+*.2f", width, (double)slope.value / 1048576);
	else
		line_put(line, " %*s", width, "-");
}

static void print_run(struct table_sink *table, const struct footer_memory *run)
{
	const struct record_spread *spread = run->has_pss ? &run->pss : &run->rss;
	struct line line = table_line(table);
	char text[32], marks[24];

	if (!run->has_pss && !run->has_rss)
		return;
	line_put(&line, "%10s", format_bytes(text, sizeof(text), (uint64_t)spread->mean));
	line_put(&line, " %10s", format_bytes(text, sizeof(text), spread->max));
	put_slope(&line, 9, run->has_pss ? run->pss_slope : run->rss_slope);
	put_slope(&line, 9, run->has_pss ? run->low : run->rss_low);
	put_slope(&line, 9, run->has_pss ? run->high : run->rss_high);
	line_put(&line, " %7d", run->pid);
	snprintf(marks, sizeof(marks), "%s%s", run->has_pss ? "" : " (rss)",
		 run->exited ? " (ended)" : "");
	put_name(&line, run->process, run->package, strlen(marks));
	line_put(&line, "%s", marks);
	line_end(&line);
}

static const struct record_distribution *available(const struct record_footer *footer)
{
	for (size_t i = 0; i < footer->distribution_count; i++)
		if (!strcmp(footer->distributions[i].name, "memory.available_bytes"))
			return &footer->distributions[i];
	return NULL;
}

void table_print_memory_runs(struct table_sink *table, const struct record_footer *footer)
{
	const struct record_distribution *left = available(footer);
	struct line line = table_line(table);
	char text[32];

	if (left) {
		line_put(&line, "  memory: %s available at the least",
			 format_bytes(text, sizeof(text), (uint64_t)left->min));
		line_put(&line, " of %s",
			 format_bytes(text, sizeof(text),
				      (uint64_t)table_total(footer, "memory.total_bytes")));
		if (table_total(footer, "memory.pressure_some_ns") > 0)
			line_put(&line, ", waited for %.3f s",
				 table_total(footer, "memory.pressure_some_ns") / 1e9);
		line_end(&line);
	}
	if (!footer->memory_count)
		return;
	line_style(&line, LINE_HEAD);
	line_put(&line, "%10s %10s %9s %9s %9s %7s %s", "PSS mean", "max", "MiB/h", "95 % from",
		 "to", "PID", "PROCESS");
	line_end(&line);
	for (size_t i = 0; i < footer->memory_count; i++)
		print_run(table, &footer->memory[i]);
	if (footer->other_memory) {
		line_put(&line, "  and %llu processes more",
			 (unsigned long long)footer->other_memory);
		line_end(&line);
	}
}
