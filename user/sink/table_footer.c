/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's summary of a run. */
#include <string.h>

#include "sink/table_private.h"

/* Of the summary's paths: how many, and how much of each. */
#define TABLE_PATHS       5
#define TABLE_PATH_FRAMES 4

static const struct summary_total *find_total(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return &footer->totals[i];
	return NULL;
}

static double total(const struct record_footer *footer, const char *key)
{
	const struct summary_total *found = find_total(footer, key);

	return found ? found->value : 0;
}

/* The innermost functions of a folded path tell what was done, so they come first. */
static void print_path(struct table_sink *table, const struct footer_path *path)
{
	const char *end = path->path + strlen(path->path);
	struct line line = table_line(table);
	char name[256], text[256];

	line_put(&line, "  %9.1f ms in %llu: ", table_ms(path->weight_ns),
		 (unsigned long long)path->blocks);
	for (int i = 0; i < TABLE_PATH_FRAMES && end > path->path; i++) {
		const char *begin = end;
		size_t length;

		while (begin > path->path && begin[-1] != ';')
			begin--;
		length = (size_t)(end - begin);
		if (length > sizeof(name) - 1)
			length = sizeof(name) - 1;
		memcpy(name, begin, length);
		name[length] = 0;
		/* Without the arguments, which C++ names have too many of. */
		if (name[0] != '(')
			name[strcspn(name, "(")] = 0;
		line_put(&line, "%s%s", i ? " < " : "", text_tail(text, sizeof(text), name, 36));
		if (begin == path->path)
			break;
		end = begin - 1;
	}
	line_end(&line);
}

/* What was lost of which whole; what was late or made good is told apart from it. */
static void print_losses(struct table_sink *table, const struct record_footer *footer)
{
	static const char prefix[] = "lost_pct_of.";
	struct line line = table_line(table);
	bool any = false;

	if (footer->lost.count)
		table_put_counters(&line, "LOST", &footer->lost);
	else
		line_put(&line, "  lost: none");
	for (size_t i = 0; i < footer->total_count; i++) {
		const struct summary_total *share = &footer->totals[i];

		if (strncmp(share->key, prefix, sizeof(prefix) - 1) || share->value <= 0)
			continue;
		line_put(&line, "%s%.3g %% of %s", any ? ", " : " (", share->value,
			 share->key + sizeof(prefix) - 1);
		any = true;
	}
	if (any)
		line_put(&line, ")");
	else
		line_put(&line, " (%.3g %%)", total(footer, "lost_pct"));
	line_end(&line);
	if (footer->late.count || footer->repaired.count) {
		table_put_counters(&line, "late", &footer->late);
		table_put_counters(&line, "repaired", &footer->repaired);
		line_end(&line);
	}
	if (total(footer, "tables_dropped") > 0) {
		line_put(&line, "  %.0f records were not printed: stdout was not read",
			 total(footer, "tables_dropped"));
		line_end(&line);
	}
}

void table_print_footer(struct table_sink *table, const struct record_footer *footer)
{
	double dur_ns = total(footer, "dur_ns");
	struct line line = table_line(table);
	char text[256];

	fprintf(table->out, "summary: %.0f intervals, %.3f s\n", total(footer, "intervals"),
		dur_ns / 1e9);
	/* What no source measured has no total, and no 0 here. */
	if (find_total(footer, "cpu.busy_ns")) {
		line_put(&line, "  CPU: busy %.3f s", total(footer, "cpu.busy_ns") / 1e9);
		if (find_total(footer, "cpu.idle_ns"))
			line_put(&line, ", idle %.3f s", total(footer, "cpu.idle_ns") / 1e9);
		if (find_total(footer, "cpu.unaccounted_ns"))
			line_put(&line, ", unaccounted %.3f s",
				 total(footer, "cpu.unaccounted_ns") / 1e9);
		if (find_total(footer, "cpu.tasks_exited"))
			line_put(&line, "; %.0f tasks ended", total(footer, "cpu.tasks_exited"));
		line_end(&line);
	}
	if (find_total(footer, "net.rx_bytes")) {
		line_put(&line, "  net: rx %.0f B,", total(footer, "net.rx_bytes"));
		line_put(&line, " tx %.0f B,", total(footer, "net.tx_bytes"));
		line_put(&line, " loopback %.0f B,",
			 total(footer, "net.loopback.rx_bytes") +
				 total(footer, "net.loopback.tx_bytes"));
		line_put(&line, " no uid %.0f B",
			 total(footer, "net.unattributed.rx_bytes") +
				 total(footer, "net.unattributed.tx_bytes"));
		line_end(&line);
	}
	if (total(footer, "blocks.count") > 0)
		fprintf(table->out, "  blocks: %.0f, %.3f s in all\n",
			total(footer, "blocks.count"), total(footer, "blocks.total_ns") / 1e9);
	for (size_t i = 0; i < footer->path_count && i < TABLE_PATHS; i++)
		print_path(table, &footer->paths[i]);
	if (find_total(footer, "captures.snapshot")) {
		line_put(&line, "  captures: %.0f snapshot,", total(footer, "captures.snapshot"));
		line_put(&line, " %.0f perf,", total(footer, "captures.perf"));
		line_put(&line, " %.0f ptrace,", total(footer, "captures.ptrace"));
		line_put(&line, " %.0f kernel;", total(footer, "captures.kernel"));
		line_put(&line, " %.0f stops", total(footer, "captures.stops"));
		if (total(footer, "captures.stops") > 0) {
			line_put(&line, " of p50 %.0f,",
				 total(footer, "captures.stop_p50_ns") / 1e3);
			line_put(&line, " p99 %.0f,", total(footer, "captures.stop_p99_ns") / 1e3);
			line_put(&line, " max %.0f us",
				 total(footer, "captures.stop_max_ns") / 1e3);
		}
		line_put(&line, "; EINTR risk %.0f", total(footer, "captures.eintr_risk"));
		line_end(&line);
	}
	line_put(&line, "  self: %.1f ms CPU (%.3f %% of a core)",
		 total(footer, "self.cpu_ns") / 1e6,
		 dur_ns > 0 ? 100 * total(footer, "self.cpu_ns") / dur_ns : 0);
	if (find_total(footer, "self.memory_bytes"))
		line_put(&line, ", %.1f MiB", total(footer, "self.memory_bytes") / 1048576);
	line_put(&line, "; %.0f stops", total(footer, "self.stops"));
	line_end(&line);
	print_losses(table, footer);
	for (size_t i = 0; i < footer->missing.count; i++) {
		line_put(&line, "  missing %s:", footer->missing.items[i].key);
		text[0] = ' ';
		text_clean(text + 1, sizeof(text) - 1, footer->missing.items[i].reason);
		line_put_words(&line, text);
		line_end(&line);
	}
}
