/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's rows of disk: of an interval, and of the run. */
#include <stdio.h>
#include <string.h>

#include "sink/table_private.h"
#include "util/units.h"

static void put_bytes(struct line *line, const char *title, uint64_t bytes)
{
	char text[32];

	line_put(line, "%s %10s", title, format_bytes(text, sizeof(text), bytes));
}

static void put_sync(struct line *line, const char *name, const struct record_disk_sync *sync)
{
	if (!sync->count && !sync->failed)
		return;
	line_put(line, " %llu %s", (unsigned long long)(sync->count + sync->failed), name);
	line_put(line, " %.1f ms", table_ms(sync->time_ns));
	if (sync->failed)
		line_put(line, " (%llu failed)", (unsigned long long)sync->failed);
}

static void print_process(struct table_sink *table, const struct record_disk_process *process)
{
	struct line line = table_line(table);
	char name[TABLE_NAME], shown[TABLE_NAME];

	line_put(&line, "  disk %7d", process->pid);
	put_bytes(&line, " read", process->sums.read_bytes);
	put_bytes(&line, " write", process->sums.write_bytes);
	table_process(name, process->process, process->package, NULL);
	line_put(&line, " %s", text_tail(shown, sizeof(shown), name, 30));
	put_sync(&line, "fsync", &process->fsync);
	put_sync(&line, "fdatasync", &process->fdatasync);
	put_sync(&line, "msync", &process->msync);
	put_sync(&line, "sync_file_range", &process->sync_file_range);
	line_end(&line);
}

static bool tells(const struct record_disk_process *process)
{
	return process->sums.read_bytes || process->sums.write_bytes ||
	       process->sums.cancelled_write_bytes || process->has_fsync ||
	       process->has_fdatasync || process->has_msync || process->has_sync_file_range;
}

void table_print_disk(struct table_sink *table, const struct record_disk *disk)
{
	/* As of memory. */
	size_t top = table->options.top ? (table->options.top + 2) / 3 : SIZE_MAX;
	struct line line = table_line(table);
	size_t told = 0, more = 0;

	for (size_t i = 0; i < disk->process_count; i++) {
		/* What came from a cache or a pipe was no work of a disk: only records have it. */
		if (!tells(&disk->processes[i]))
			continue;
		if (told < top) {
			print_process(table, &disk->processes[i]);
			told++;
		} else {
			more++;
		}
	}
	if (more) {
		line_put(&line, "  disk %zu processes more", more);
		line_end(&line);
	}
	if (!disk->sums.read_bytes && !disk->sums.write_bytes)
		return;
	line_put(&line, "  disk all tasks");
	put_bytes(&line, " read", disk->sums.read_bytes);
	put_bytes(&line, " write", disk->sums.write_bytes);
	if (disk->sums.cancelled_write_bytes)
		put_bytes(&line, " cancelled", disk->sums.cancelled_write_bytes);
	line_end(&line);
}

static void print_run(struct table_sink *table, const struct footer_disk *run)
{
	struct line line = table_line(table);
	char text[32], name[TABLE_NAME], shown[TABLE_NAME];

	line_put(&line, "%10s", format_bytes(text, sizeof(text), run->sums.read_bytes));
	line_put(&line, " %10s", format_bytes(text, sizeof(text), run->sums.write_bytes));
	line_put(&line, " %10s", format_bytes(text, sizeof(text), run->sums.cancelled_write_bytes));
	line_put(&line, " %7d", run->tid);
	line_put(&line, " %-15s", text_clean(shown, sizeof(shown), run->thread ?: "-"));
	table_process(name, run->process, run->package, run->thread);
	line_put(&line, " %s", text_tail(shown, sizeof(shown), name, 22));
	line_end(&line);
}

void table_print_disk_run(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);
	char text[32];
	size_t rows = 0;

	if (!footer->any_disk)
		return;
	line_put(
		&line, "  disk: read %s,",
		format_bytes(text, sizeof(text), (uint64_t)table_total(footer, "disk.read_bytes")));
	line_put(&line, " written %s,",
		 format_bytes(text, sizeof(text),
			      (uint64_t)table_total(footer, "disk.write_bytes")));
	line_put(&line, " of this cancelled %s",
		 format_bytes(text, sizeof(text),
			      (uint64_t)table_total(footer, "disk.cancelled_write_bytes")));
	line_end(&line);
	if (table_find_total(footer, "targets.disk_read_bytes")) {
		line_put(&line, "  target: read %s,",
			 format_bytes(text, sizeof(text),
				      (uint64_t)table_total(footer, "targets.disk_read_bytes")));
		line_put(&line, " written %s",
			 format_bytes(text, sizeof(text),
				      (uint64_t)table_total(footer, "targets.disk_write_bytes")));
		if (table_find_total(footer, "targets.syncs"))
			line_put(&line, "; %.0f calls waited for storage, %.1f ms",
				 table_total(footer, "targets.syncs"),
				 table_total(footer, "targets.sync_ns") / 1e6);
		line_end(&line);
	}
	for (size_t i = 0; i < footer->disk_count; i++) {
		const struct record_disk_sums *sums = &footer->disks[i].sums;

		if (!sums->read_bytes && !sums->write_bytes && !sums->cancelled_write_bytes)
			continue;
		if (!rows++) {
			line_style(&line, LINE_HEAD);
			line_put(&line, "%10s %10s %10s %7s %-15s %s", "READ", "WRITTEN",
				 "CANCELLED", "TID", "THREAD", "PROCESS");
			line_end(&line);
		}
		if (!table->options.top || rows <= table->options.top)
			print_run(table, &footer->disks[i]);
	}
}
