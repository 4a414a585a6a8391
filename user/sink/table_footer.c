/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's summary of a run. */
#include <stdio.h>
#include <string.h>

#include "record/fields.h"
#include "sink/table_private.h"
#include "why/line.h"

const struct summary_total *table_find_total(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return &footer->totals[i];
	return NULL;
}

double table_total(const struct record_footer *footer, const char *key)
{
	const struct summary_total *found = table_find_total(footer, key);

	return found ? found->value : 0;
}

/* What was lost of which whole; what was late or made good is told apart from it. */
static void print_losses(struct table_sink *table, const struct record_footer *footer)
{
	static const char prefix[] = "lost_pct_of.";
	struct line line = table_line(table);
	bool any = false;

	if (footer->lost.count)
		line_style(&line, LINE_BAD);
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
		line_put(&line, " (%.3g %%)", table_total(footer, "lost_pct"));
	line_end(&line);
	if (footer->late.count || footer->repaired.count) {
		table_put_counters(&line, "late", &footer->late);
		table_put_counters(&line, "repaired", &footer->repaired);
		line_end(&line);
	}
	if (table_total(footer, "tables_dropped") > 0) {
		line_put(&line, "  %.0f records were not printed: stdout was not read",
			 table_total(footer, "tables_dropped"));
		line_end(&line);
	}
}

static void print_blocks(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);

	line_put(&line, "  blocks: %.0f,", table_total(footer, "blocks.count"));
	line_put(&line, " %.3f s in all", table_total(footer, "blocks.total_ns") / 1e9);
	for (size_t i = 0; i < footer->distribution_count; i++)
		if (!strcmp(footer->distributions[i].name, "blocks.wall_ns"))
			line_put(&line, ", longest %.1f ms", footer->distributions[i].max / 1e6);
	line_end(&line);
}

/* Values that only the records have: that one is missing there is told with -v. */
static bool is_not_shown(const char *key)
{
	static const char *const keys[] = {"cpu.tasks.sleeping_ns",
					   "cpu.tasks.uninterruptible_ns",
					   "cpu.tasks.stopped_ns",
					   "cpu.stat.rest_ns",
					   "cpu.tasks.cpus",
					   "cpu.tasks.frequencies",
					   "cpu.capacity_ns",
					   "power",
					   "memory.system.gpu_bytes",
					   "memory.system.dmabuf_bytes",
					   "memory.system.pressure_some_ns",
					   "disk.uids"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

/* What FrameTimeline holds the late and dropped frames to be the fault of. */
static void print_causes(struct table_sink *table, const struct record_footer *footer)
{
	static const char *const words[] = {"app", "sf", "hw", "stuffing", "dropped", "unknown"};
	struct line line = table_line(table);
	const char *between = "    by FrameTimeline: ";
	char key[64];

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		snprintf(key, sizeof(key), "frames.causes.%s", words[i]);
		if (table_total(footer, key) <= 0)
			continue;
		line_put(&line, "%s%s", between, words[i]);
		line_put(&line, " %.0f", table_total(footer, key));
		between = ", ";
	}
	if (*between == ',')
		line_end(&line);
}

static void print_frames(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);

	line_put(&line, "  frames: %.0f shown,", table_total(footer, "frames.shown"));
	line_put(&line, " %.0f janky", table_total(footer, "frames.janky"));
	if (table_find_total(footer, "frames.jank_pct"))
		line_put(&line, " (%.1f %%)", table_total(footer, "frames.jank_pct"));
	line_put(&line, ", %.0f refreshes dropped", table_total(footer, "frames.dropped"));
	line_end(&line);
	print_causes(table, footer);
}

static void print_flight(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);

	line_put(&line, "  flight recorder: %.0f threads,", table_total(footer, "flight.threads"));
	line_put(&line, " %.1f MiB,", table_total(footer, "flight.bytes") / (1 << 20));
	if (table_find_total(footer, "flight.least_covered_ns"))
		line_put(&line, " at least the last %.1f s of each",
			 table_total(footer, "flight.least_covered_ns") / 1e9);
	else
		line_put(&line, " nothing was recorded");
	line_end(&line);
}

/* A total of a file may be any number. */
static uint64_t whole_total(const struct record_footer *footer, const char *key)
{
	double value = table_total(footer, key);

	return value > 0 && value < 1e18 ? (uint64_t)value : 0;
}

static void print_why(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);
	struct why_totals totals = {whole_total(footer, "frames.late"),
				    whole_total(footer, "frames.late_ns"),
				    {{0, 0}}};
	char text[512], key[64];

	for (int cause = 0; cause < JANK_CAUSES; cause++) {
		const char *word = record_jank_total((enum jank_cause)cause);

		snprintf(key, sizeof(key), "frames.causes.%s", word);
		totals.causes[cause].frames = whole_total(footer, key);
		snprintf(key, sizeof(key), "frames.causes.%s_ns", word);
		totals.causes[cause].late_ns = whole_total(footer, key);
	}
	line_put(&line, "  ");
	line_put_words(&line, why_totals_line(&totals, text, sizeof(text)));
	line_end(&line);
	/* In the form of blocks; where no frame has a stack it would say nothing. */
	if (footer->late_path_count && (footer->late_paths[0].path || footer->late_path_count > 1))
		table_print_block_paths(
			table,
			&(struct record_footer){.block_paths = footer->late_paths,
						.block_path_count = footer->late_path_count,
						.other_block_paths = footer->other_late_paths});
}

static void print_interfaces(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);
	char name[TABLE_NAME];

	for (size_t i = 0; i < footer->interface_count && i < 8; i++) {
		const struct record_interface_net *row = &footer->interfaces[i];

		line_put(&line, "    by %s",
			 row->interface ? text_clean(name, sizeof(name), row->interface)
					: "others");
		if (row->netns)
			line_put(&line, " in namespace %llu", (unsigned long long)row->netns);
		line_put(&line, ": rx %llu B,", (unsigned long long)row->bytes.rx_bytes);
		line_put(&line, " tx %llu B", (unsigned long long)row->bytes.tx_bytes);
		line_end(&line);
	}
}

/* How far ours is from netd's. */
static void print_netd(struct table_sink *table, const struct record_footer *footer)
{
	struct line line = table_line(table);

	line_put(&line, "  netd's map: rx %.0f B", table_total(footer, "net.netd.rx_bytes"));
	line_put(&line, " (%+.0f),",
		 table_total(footer, "net.netd.rx_bytes") - table_total(footer, "net.rx_bytes"));
	line_put(&line, " tx %.0f B", table_total(footer, "net.netd.tx_bytes"));
	line_put(&line, " (%+.0f)",
		 table_total(footer, "net.netd.tx_bytes") - table_total(footer, "net.tx_bytes"));
	line_end(&line);
}

static void print_tcp(struct table_sink *table, const struct record_footer *footer)
{
	static const char *const failures[] = {"refused", "timed_out", "unreachable", "other",
					       "given_up"},
				 *const words[] = {"refused", "timed out", "unreachable",
						   "failed otherwise", "given up"};
	struct line line = table_line(table);
	char key[64];

	line_put(&line, "  TCP: %.0f connects,", table_total(footer, "tcp.connects"));
	line_put(&line, " %.0f accepts,", table_total(footer, "tcp.accepts"));
	line_put(&line, " %.0f segments sent again", table_total(footer, "tcp.retransmits"));
	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		snprintf(key, sizeof(key), "tcp.failed.%s", failures[i]);
		if (table_total(footer, key) <= 0)
			continue;
		line_put(&line, ", %.0f connects", table_total(footer, key));
		line_put(&line, " %s", words[i]);
	}
	for (size_t i = 0; i < footer->distribution_count; i++)
		if (!strcmp(footer->distributions[i].name, "tcp.rtt_ns")) {
			line_put(&line, "; round trip p50 %.1f,",
				 footer->distributions[i].p50 / 1e6);
			line_put(&line, " p95 %.1f ms", footer->distributions[i].p95 / 1e6);
		}
	line_end(&line);
}

void table_print_footer(struct table_sink *table, const struct record_footer *footer)
{
	double dur_ns = table_total(footer, "dur_ns");
	struct line line = table_line(table);
	char text[256];

	line_style(&line, LINE_HEAD);
	line_put(&line, "summary: %.0f intervals,", table_total(footer, "intervals"));
	line_put(&line, " %.3f s", dur_ns / 1e9);
	line_end(&line);
	/* What no source measured has no total, and no 0 here. */
	if (table_find_total(footer, "cpu.busy_ns")) {
		line_put(&line, "  CPU: busy %.3f s", table_total(footer, "cpu.busy_ns") / 1e9);
		if (table_find_total(footer, "cpu.idle_ns"))
			line_put(&line, ", idle %.3f s", table_total(footer, "cpu.idle_ns") / 1e9);
		if (table_find_total(footer, "cpu.unaccounted_ns"))
			line_put(&line, ", unaccounted %.3f s",
				 table_total(footer, "cpu.unaccounted_ns") / 1e9);
		if (table_find_total(footer, "cpu.tasks_exited"))
			line_put(&line, "; %.0f tasks ended",
				 table_total(footer, "cpu.tasks_exited"));
		if (table_total(footer, "cpu.deaths_in_flight") > 0)
			line_put(&line, ", %.0f not freed yet",
				 table_total(footer, "cpu.deaths_in_flight"));
		line_end(&line);
	}
	if (table->has_targets && table_find_total(footer, "targets.cpu_ns")) {
		line_put(&line, "  target: %.3f s CPU,",
			 table_total(footer, "targets.cpu_ns") / 1e9);
		line_put(&line, " %.1f %% of a core",
			 table_core_pct((uint64_t)table_total(footer, "targets.cpu_ns"), dur_ns));
		if (table_find_total(footer, "targets.rx_bytes")) {
			line_put(&line, "; rx %.0f B,", table_total(footer, "targets.rx_bytes"));
			line_put(&line, " tx %.0f B", table_total(footer, "targets.tx_bytes"));
		}
		line_end(&line);
		table_print_cluster_totals(table, footer);
	}
	if (table_find_total(footer, "net.rx_bytes")) {
		line_put(&line, "  net: rx %.0f B,", table_total(footer, "net.rx_bytes"));
		line_put(&line, " tx %.0f B,", table_total(footer, "net.tx_bytes"));
		line_put(&line, " loopback %.0f B,",
			 table_total(footer, "net.loopback.rx_bytes") +
				 table_total(footer, "net.loopback.tx_bytes"));
		line_put(&line, " no uid %.0f B",
			 table_total(footer, "net.unattributed.rx_bytes") +
				 table_total(footer, "net.unattributed.tx_bytes"));
		line_end(&line);
	}
	print_interfaces(table, footer);
	if (table_find_total(footer, "net.netd.rx_bytes"))
		print_netd(table, footer);
	if (table_find_total(footer, "tcp.retransmits"))
		print_tcp(table, footer);
	if (table_find_total(footer, "frames.shown"))
		print_frames(table, footer);
	if (table_find_total(footer, "flight.threads"))
		print_flight(table, footer);
	if (table_total(footer, "frames.late") > 0)
		print_why(table, footer);
	table_print_power_totals(table, footer);
	if (table_total(footer, "blocks.count") > 0)
		print_blocks(table, footer);
	table_print_block_paths(table, footer);
	if (table_find_total(footer, "captures.snapshot")) {
		line_put(&line, "  captures: %.0f snapshot,",
			 table_total(footer, "captures.snapshot"));
		line_put(&line, " %.0f perf,", table_total(footer, "captures.perf"));
		line_put(&line, " %.0f ptrace,", table_total(footer, "captures.ptrace"));
		line_put(&line, " %.0f kernel;", table_total(footer, "captures.kernel"));
		line_put(&line, " %.0f stops", table_total(footer, "captures.stops"));
		if (table_total(footer, "captures.stops") > 0) {
			line_put(&line, " of p50 %.0f,",
				 table_total(footer, "captures.stop_p50_ns") / 1e3);
			line_put(&line, " p99 %.0f,",
				 table_total(footer, "captures.stop_p99_ns") / 1e3);
			line_put(&line, " max %.0f us",
				 table_total(footer, "captures.stop_max_ns") / 1e3);
		}
		line_put(&line, "; EINTR risk %.0f", table_total(footer, "captures.eintr_risk"));
		line_end(&line);
	}
	table_print_usage(table, footer, dur_ns);
	table_print_memory_runs(table, footer);
	table_print_disk_run(table, footer);
	table_print_scenes(table, footer);
	line_put(&line, "  self: %.1f ms CPU (%.3f %% of a core)",
		 table_total(footer, "self.cpu_ns") / 1e6,
		 dur_ns > 0 ? 100 * table_total(footer, "self.cpu_ns") / dur_ns : 0);
	if (table_find_total(footer, "self.memory_bytes"))
		line_put(&line, ", %.1f MiB", table_total(footer, "self.memory_bytes") / 1048576);
	line_put(&line, "; %.0f stops", table_total(footer, "self.stops"));
	line_end(&line);
	print_losses(table, footer);
	for (size_t i = 0; i < footer->missing.count; i++) {
		if (!table->options.verbose && is_not_shown(footer->missing.items[i].key))
			continue;
		line_put(&line, "  missing %s:",
			 text_clean(text, sizeof(text), footer->missing.items[i].key));
		text[0] = ' ';
		text_clean(text + 1, sizeof(text) - 1, footer->missing.items[i].reason);
		line_put_words(&line, text);
		line_end(&line);
	}
}
