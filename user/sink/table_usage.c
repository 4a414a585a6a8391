/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary's lists: who used what, frames by layer, blocks by what they did. */
#include <string.h>

#include "record/telling.h"
#include "sink/table_private.h"
#include "util/units.h"

/* Rows of each list; --top asks for more, up to what the footer has. */
#define USAGE_ROWS 5
#define PATH_ROWS  8
#define PATH_WIDTH 36

static size_t rows_of(const struct table_sink *table, size_t count)
{
	size_t wanted = table->options.top > 15 ? table->options.top : USAGE_ROWS;

	return count < wanted ? count : wanted;
}

static void put_time(struct line *line, uint64_t cpu_ns, double dur_ns)
{
	double pct = table_core_pct(cpu_ns, dur_ns);

	line_put(line, pct < 9999.95 ? "%6.1f" : "%6.0f", pct);
	line_put(line, " %9.3f", (double)cpu_ns / 1e9);
}

static void head(struct table_sink *table, const char *numbers, const char *what)
{
	struct line line = table_line(table);

	line_style(&line, LINE_DIM);
	line_put(&line, "%s", numbers);
	line_put(&line, "%s", what);
	line_end(&line);
}

/* A name, and behind it what must not be cut off. */
static void put_name(struct line *line, const char *name, const char *behind)
{
	char text[TABLE_NAME];
	int room = line->width - line->column - 2 - text_columns(behind);

	line_put(line, "  %s%s", text_tail(text, sizeof(text), name, room < 8 ? 8 : room), behind);
}

/* Behind what a row is of that was dropped and made anew. */
#define AT_LEAST ", at least"

static void behind_row(char *text, size_t size, const struct footer_usage *row)
{
	int n = row->count > 1 ? snprintf(text, size, " x%llu", (unsigned long long)row->count)
		: row->tid     ? snprintf(text, size, " %d", row->tid)
			       : snprintf(text, size, " %d", row->pid);

	if (row->partial && n > 0)
		snprintf(text + n, size - (size_t)n, AT_LEAST);
}

static void print_rest(struct table_sink *table, uint64_t cpu_ns, double dur_ns, const char *what)
{
	struct line line = table_line(table);

	if (!cpu_ns)
		return;
	put_time(&line, cpu_ns, dur_ns);
	line_put(&line, "  %s", what);
	line_end(&line);
}

/* What is in no row: of others of the same kind, and what is not the target's. */
static void print_rests(struct table_sink *table, const struct footer_top *top, size_t shown,
			uint64_t strangers_ns, double dur_ns, const char *others)
{
	uint64_t rest_ns = top->other_ns;

	for (size_t i = shown; i < top->count; i++)
		rest_ns += top->rows[i].cpu_ns;
	rest_ns -= strangers_ns < rest_ns ? strangers_ns : rest_ns;
	print_rest(table, rest_ns, dur_ns, others);
	print_rest(table, strangers_ns, dur_ns, "not the target's");
}

static void print_processes(struct table_sink *table, const struct footer_top *top,
			    uint64_t strangers_ns, double dur_ns)
{
	size_t shown = rows_of(table, top->count);
	char name[TABLE_NAME], behind[80];

	if (!top->count)
		return;
	head(table, " %core     CPU s", "  PROCESS, PID");
	for (size_t i = 0; i < shown; i++) {
		const struct footer_usage *row = &top->rows[i];
		struct line line = table_line(table);

		put_time(&line, row->cpu_ns, dur_ns);
		behind_row(behind, sizeof(behind), row);
		put_name(&line, table_process(name, row->process, row->package, NULL), behind);
		line_end(&line);
	}
	print_rests(table, top, shown, strangers_ns, dur_ns, "in other processes");
}

/* Whether threads say more than their processes do. */
static bool threads_tell(const struct record_footer *footer)
{
	for (size_t i = 0; i < footer->processes.count; i++)
		if (footer->processes.rows[i].threads > 1)
			return true;
	return false;
}

static void print_threads(struct table_sink *table, const struct footer_top *top,
			  uint64_t strangers_ns, double dur_ns)
{
	size_t shown = rows_of(table, top->count);
	char name[TABLE_NAME], thread[64], both[2 * TABLE_NAME], behind[80];

	if (!top->count)
		return;
	head(table, " %core     CPU s", "  THREAD of PROCESS, TID");
	for (size_t i = 0; i < shown; i++) {
		const struct footer_usage *row = &top->rows[i];
		struct line line = table_line(table);

		put_time(&line, row->cpu_ns, dur_ns);
		behind_row(behind, sizeof(behind), row);
		text_clean(thread, sizeof(thread),
			   row->thread && row->thread[0] ? row->thread : "-");
		table_process(name, row->process, row->package, row->thread);
		/* The kernel cuts a thread's name after 15 bytes. */
		if (!strncmp(name, thread, strlen(thread)) && strlen(thread) >= strnlen(name, 15))
			snprintf(both, sizeof(both), "%s", name);
		else
			snprintf(both, sizeof(both), "%s of %s", thread, name);
		put_name(&line, both, behind);
		line_end(&line);
	}
	print_rests(table, top, shown, strangers_ns, dur_ns, "in other threads");
}

static void put_bytes(struct line *line, struct opt_u64 bytes)
{
	char text[32];

	line_put(line, " %10s",
		 bytes.present ? format_bytes(text, sizeof(text), bytes.value) : "-");
}

static void print_uids(struct table_sink *table, const struct footer_top *top, double dur_ns)
{
	size_t shown = rows_of(table, top->count);
	uint64_t rest_ns = top->other_ns;
	struct opt_u64 rx = top->other_rx_bytes, tx = top->other_tx_bytes;
	struct line line = table_line(table);
	char name[TABLE_NAME], text[32];

	if (!top->count)
		return;
	head(table, " %core     CPU s         rx         tx", "  UID, PACKAGE");
	for (size_t i = 0; i < top->count; i++) {
		const struct footer_usage *row = &top->rows[i];

		/* Those with bytes follow behind those with time, and are shown, too. */
		if (i >= shown && i < shown + USAGE_ROWS &&
		    (row->rx_bytes.value || row->tx_bytes.value))
			;
		else if (i >= shown) {
			rest_ns += row->cpu_ns;
			rx.value += row->rx_bytes.value;
			tx.value += row->tx_bytes.value;
			continue;
		}
		put_time(&line, row->cpu_ns, dur_ns);
		put_bytes(&line, row->rx_bytes);
		put_bytes(&line, row->tx_bytes);
		snprintf(text, sizeof(text), "%u", row->uid);
		snprintf(name, sizeof(name), "%s%s%.*s", text, row->package ? " " : "", 200,
			 row->package ? row->package : "");
		put_name(&line, name, row->partial ? AT_LEAST : "");
		line_end(&line);
	}
	if (!rest_ns && !rx.value && !tx.value)
		return;
	put_time(&line, rest_ns, dur_ns);
	put_bytes(&line, rx);
	put_bytes(&line, tx);
	line_put(&line, "  other uids");
	line_end(&line);
}

static void print_layer(struct table_sink *table, const struct footer_layer *layer,
			const char *name)
{
	struct line line = table_line(table);
	char behind[40] = "";
	int n = 0;

	line_put(&line, "%7llu %6llu %6llu", (unsigned long long)layer->shown,
		 (unsigned long long)layer->janky, (unsigned long long)layer->dropped);
	if (layer->pid > 0)
		n = snprintf(behind, sizeof(behind), " %d", layer->pid);
	if (layer->partial)
		snprintf(behind + n, sizeof(behind) - (size_t)n, AT_LEAST);
	put_name(&line, name, behind);
	line_end(&line);
}

static void print_layers(struct table_sink *table, const struct record_footer *footer)
{
	size_t shown = rows_of(table, footer->layer_count);
	struct footer_layer rest = footer->other_layers;

	if (!footer->layer_count)
		return;
	head(table, "  SHOWN  JANKY   DROP", "  LAYER, PID");
	for (size_t i = 0; i < footer->layer_count; i++) {
		const struct footer_layer *layer = &footer->layers[i];

		if (i < shown) {
			print_layer(table, layer, layer->layer ? layer->layer : "-");
			continue;
		}
		rest.shown += layer->shown;
		rest.janky += layer->janky;
		rest.dropped += layer->dropped;
	}
	if (rest.shown || rest.janky || rest.dropped)
		print_layer(table, &rest, "other layers");
}

/* ---- blocks ---- */

/* "function < caller < ...", of a folded path. */
static void short_path(char *text, size_t size, const char *path)
{
	const char *end = path + strlen(path);
	char symbol[TABLE_NAME], name[TABLE_NAME];
	size_t n = 0;

	*text = 0;
	while (end > path && n + 1 < size) {
		const char *begin = end;

		while (begin > path && begin[-1] != ';')
			begin--;
		snprintf(symbol, sizeof(symbol), "%.*s", (int)(end - begin), begin);
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? "\n" : "",
				      table_function(name, symbol, PATH_WIDTH));
		if (begin == path)
			break;
		end = begin - 1;
	}
}

struct path_line {
	char text[4 * TABLE_NAME];
	struct footer_block_path sums;
};

static void merge_path(struct footer_block_path *to, const struct footer_block_path *from)
{
	to->count += from->count;
	to->total_ns += from->total_ns;
	to->partial |= from->partial;
	if (from->longest_ns > to->longest_ns)
		to->longest_ns = from->longest_ns;
}

static void print_path(struct table_sink *table, const struct footer_block_path *sums,
		       const char *text)
{
	struct line line = table_line(table);
	char part[TABLE_NAME];

	line_put(&line, "%5llu x %9.1f ms", (unsigned long long)sums->count,
		 table_ms(sums->total_ns));
	line_put(&line, "%s, longest %.1f:", sums->partial ? AT_LEAST : "",
		 table_ms(sums->longest_ns));
	for (bool first = true; *text; first = false) {
		size_t length = strcspn(text, "\n");

		snprintf(part, sizeof(part), "%.*s", (int)length, text);
		line_put(&line, "%s%s", first ? " " : " < ", part);
		text += length + (text[length] == '\n');
	}
	line_end(&line);
}

/* Paths that are the same in short are one row. */
void table_print_block_paths(struct table_sink *table, const struct record_footer *footer)
{
	struct path_line rows[PATH_ROWS];
	struct footer_block_path rest = footer->other_block_paths;
	size_t count = 0;

	for (size_t i = 0; i < footer->block_path_count; i++) {
		const struct footer_block_path *from = &footer->block_paths[i];
		char text[4 * TABLE_NAME] = "no stack";
		size_t at = 0;

		if (from->path)
			short_path(text, sizeof(text), from->path);
		while (at < count && strcmp(rows[at].text, text))
			at++;
		if (at < count) {
			merge_path(&rows[at].sums, from);
		} else if (count < PATH_ROWS) {
			rows[count].sums = *from;
			strcpy(rows[count++].text, text);
		} else {
			merge_path(&rest, from);
		}
	}
	for (size_t i = 0; i < count; i++)
		print_path(table, &rows[i].sums, rows[i].text);
	if (rest.count)
		print_path(table, &rest, "others");
}

void table_print_usage(struct table_sink *table, const struct record_footer *footer, double dur_ns)
{
	uint64_t busy_ns = (uint64_t)table_total(footer, "cpu.busy_ns");
	uint64_t targets_ns = (uint64_t)table_total(footer, "targets.cpu_ns");
	/* Rows and rest of a list are all time that any task used: what is not the target's is
	 * told apart from it. */
	uint64_t strangers_ns =
		table->has_targets && busy_ns > targets_ns ? busy_ns - targets_ns : 0;

	print_processes(table, &footer->processes, strangers_ns, dur_ns);
	if (threads_tell(footer))
		print_threads(table, &footer->threads, strangers_ns, dur_ns);
	print_uids(table, &footer->uids, dur_ns);
	print_layers(table, footer);
}
