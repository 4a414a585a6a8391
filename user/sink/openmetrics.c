/* SPDX-License-Identifier: BSD-2-Clause */
/* The families of a footer. */
#include "sink/openmetrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/openmetrics_page.h"

#define ROWS 20 /* of one kind in a footer, at most, that become series */

struct openmetrics {
	struct sink base;
	FILE *to;   /* the caller's */
	char *head; /* target_info of the last header */
	char *text; /* the families of the last footer */
	size_t head_size, text_size;
};

/* ---- rows ---- */

/* As they are shown: names that differ in what is not shown are one, because a page with the same
 * series twice is refused as a whole. */
static bool same_labels(const struct metrics_row *a, const struct metrics_row *b)
{
	char x[METRICS_LABEL_BYTES], y[METRICS_LABEL_BYTES];

	for (size_t i = 0; i < 4; i++) {
		metrics_clean(x, a->labels[i] ? a->labels[i] : "");
		metrics_clean(y, b->labels[i] ? b->labels[i] : "");
		if (strcmp(x, y))
			return false;
	}
	return true;
}

static void add_values(struct metrics_row *to, const struct metrics_row *from)
{
	for (size_t i = 0; i < 3; i++) {
		to->values[i] += from->values[i];
		to->present[i] |= from->present[i];
	}
}

/* Rows without pids may be equal: they are one then. The last one stays the last: it is the rest.
 */
static size_t merge_rows(struct metrics_row *rows, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (k < kept && !same_labels(&rows[k], &rows[i]))
			k++;
		if (k < kept)
			add_values(&rows[k], &rows[i]);
		else
			rows[kept++] = rows[i];
	}
	return kept;
}

/* Of `count` rows, heaviest first and with the rest as the last one, as many as there is room for
 * in `series`; the others go to the rest. */
static void put_rows(struct metrics_page *page, const char *name, const char *type,
		     const char *unit_name, const char *help, const struct metrics_kind *kind,
		     struct metrics_row *rows, size_t count, size_t series)
{
	size_t room = series / kind->value_count, kept;

	count = merge_rows(rows, count);
	if (!count || !room)
		return;
	kept = count;
	while (kept > room) {
		/* The one before the rest becomes a part of it. */
		add_values(&rows[kept - 1], &rows[kept - 2]);
		rows[kept - 2] = rows[kept - 1];
		kept--;
	}
	metrics_put_family(page, name, type, unit_name, help, kind, rows, kept);
}

static void put_usage(struct metrics_page *page, const char *name, const char *help,
		      const struct metrics_kind *kind, const struct footer_top *top, size_t series)
{
	struct metrics_row rows[ROWS + 1] = {0};
	size_t count = top->count < ROWS ? top->count : ROWS, labels = 0;
	uint64_t other_ns = top->other_ns;

	while (kind->keys[labels])
		labels++;
	for (size_t i = 0; i < top->count; i++) {
		const struct footer_usage *usage = &top->rows[i];
		const char *const texts[] = {usage->package, usage->process, usage->thread};

		if (i >= count) {
			other_ns += usage->cpu_ns;
			continue;
		}
		for (size_t k = 0; k < labels; k++)
			rows[i].labels[k] = texts[k];
		rows[i].values[0] = (double)usage->cpu_ns * 1e-9;
		rows[i].present[0] = true;
	}
	rows[count].labels[labels - 1] = "_other";
	rows[count].values[0] = (double)other_ns * 1e-9;
	rows[count].present[0] = true;
	put_rows(page, name, "counter", "seconds", help, kind, rows, count + 1, series);
}

static void put_uids(struct metrics_page *page, const struct footer_top *top, bool bytes,
		     size_t series)
{
	static const struct metrics_kind cpu_kind = {{"package", "uid"}, NULL, {NULL}, 1},
					 net_kind = {{"package", "uid"},
						     "direction",
						     {"receive", "transmit"},
						     2};
	struct metrics_row rows[ROWS + 1] = {0};
	char numbers[ROWS][16];
	size_t count = top->count < ROWS ? top->count : ROWS;
	struct metrics_row *rest = &rows[count];

	rest->labels[1] = "_other";
	rest->values[0] = bytes ? (double)top->other_rx_bytes.value : (double)top->other_ns * 1e-9;
	rest->values[1] = (double)top->other_tx_bytes.value;
	rest->present[0] = !bytes || top->other_rx_bytes.present;
	rest->present[1] = bytes && top->other_tx_bytes.present;
	for (size_t i = 0; i < top->count; i++) {
		const struct footer_usage *usage = &top->rows[i];
		struct metrics_row row = {
			.values = {bytes ? (double)usage->rx_bytes.value
					 : (double)usage->cpu_ns * 1e-9,
				   (double)usage->tx_bytes.value},
			.present = {!bytes || usage->rx_bytes.present,
				    bytes && usage->tx_bytes.present},
		};

		if (i >= count) {
			add_values(rest, &row);
			continue;
		}
		snprintf(numbers[i], sizeof(numbers[i]), "%u", usage->uid);
		row.labels[0] = usage->package;
		row.labels[1] = numbers[i];
		rows[i] = row;
	}
	if (bytes)
		put_rows(page, "jankscope_uid_network_bytes", "counter", "bytes",
			 "bytes over the network, as net.uids", &net_kind, rows, count + 1, series);
	else
		put_rows(page, "jankscope_uid_cpu_seconds", "counter", "seconds",
			 "CPU time, as cpu.uids", &cpu_kind, rows, count + 1, series);
}

static void set_layer(struct metrics_row *row, const struct footer_layer *layer)
{
	row->values[0] = (double)layer->shown;
	row->values[1] = (double)layer->dropped;
	row->values[2] = (double)layer->janky;
	for (size_t i = 0; i < 3; i++)
		row->present[i] = true;
}

static void put_layers(struct metrics_page *page, const struct record_footer *footer, size_t series)
{
	static const struct metrics_kind kind = {
		{"package", "layer"}, "outcome", {"shown", "dropped", "janky"}, 3};
	struct metrics_row rows[ROWS + 1] = {0};
	size_t count = footer->layer_count < ROWS ? footer->layer_count : ROWS;

	if (!footer->any_layer)
		return;
	rows[count].labels[1] = "_other";
	set_layer(&rows[count], &footer->other_layers);
	for (size_t i = 0; i < footer->layer_count; i++) {
		struct metrics_row row = {
			.labels = {footer->layers[i].package, footer->layers[i].layer}};

		set_layer(&row, &footer->layers[i]);
		if (i < count)
			rows[i] = row;
		else
			add_values(&rows[count], &row);
	}
	put_rows(page, "jankscope_layer_frames", "counter", NULL,
		 "frames of a layer, as frames.layers; janky ones were late or not shown", &kind,
		 rows, count + 1, series);
}

static void put_memory(struct metrics_page *page, const struct record_footer *footer, size_t series)
{
	static const struct metrics_kind kind = {{"package", "process"}, "kind", {"pss", "rss"}, 2};
	struct metrics_row rows[ROWS] = {0};
	size_t count = footer->memory_count < ROWS ? footer->memory_count : ROWS;

	for (size_t i = 0; i < count; i++) {
		const struct footer_memory *memory = &footer->memory[i];

		rows[i] = (struct metrics_row){
			.labels = {memory->package, memory->process},
			.values = {(double)memory->pss.mean, (double)memory->rss.mean},
			.present = {memory->has_pss, memory->has_rss},
		};
	}
	/* There is no rest of processes that were not measured: who does not fit is left out. */
	if (count > series / kind.value_count)
		count = series / kind.value_count;
	put_rows(page, "jankscope_process_memory_bytes", "gauge", "bytes",
		 "mean over the run, as memory.processes; of processes of one name the sum", &kind,
		 rows, count, series);
}

static void put_losses(struct metrics_page *page, const struct record_footer *footer, size_t series)
{
	static const struct metrics_kind kind = {{"kind", "reason"}, NULL, {NULL}, 1};
	const struct {
		const char *name;
		const struct counter_list *list;
	} kinds[] = {
		{"lost", &footer->lost}, {"late", &footer->late}, {"repaired", &footer->repaired}};
	size_t all = footer->lost.count + footer->late.count + footer->repaired.count, count = 0;
	struct metrics_row *rows = calloc(all + 1, sizeof(*rows));

	if (!rows) {
		page->failed = true;
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (size_t k = 0; k < kinds[i].list->count; k++)
			rows[count++] = (struct metrics_row){
				.labels = {kinds[i].name, kinds[i].list->items[k].name},
				.values = {(double)kinds[i].list->items[k].value},
				.present = {true},
			};
	rows[count++] = (struct metrics_row){.labels = {"lost", "_other"}, .present = {true}};
	put_rows(page, "jankscope_losses", "counter", NULL,
		 "what is lost, late or repaired, in the unit of its reason", &kind, rows, count,
		 series);
	free(rows);
}

/* ---- the page ---- */

static void put_families(struct metrics_page *page, const struct record_footer *footer)
{
	static const struct metrics_kind threads = {{"package", "process", "thread"},
						    NULL,
						    {NULL},
						    1},
					 processes = {{"package", "process"}, NULL, {NULL}, 1};

	/* So many samples of each kind that there is room for the totals behind them. */
	put_losses(page, footer, 24);
	if (footer->top_present) {
		put_usage(page, "jankscope_task_cpu_seconds", "CPU time by thread name", &threads,
			  &footer->threads, 16);
		put_usage(page, "jankscope_process_cpu_seconds", "CPU time by process name",
			  &processes, &footer->processes, 12);
		put_uids(page, &footer->uids, false, 8);
		put_uids(page, &footer->uids, true, 16);
	}
	put_layers(page, footer, 12);
	put_memory(page, footer, 12);
	metrics_put_summary(page, footer);
}

static int take_footer(struct openmetrics *metrics, const struct record_footer *footer)
{
	struct metrics_page page = {.series = 1}; /* target_info */
	char *text = NULL;
	size_t size = 0;

	page.out = open_memstream(&text, &size);
	if (!page.out)
		return -errno;
	put_families(&page, footer);
	free(page.families);
	if (fclose(page.out) || page.failed) {
		free(text);
		return -ENOMEM;
	}
	free(metrics->text);
	metrics->text = text;
	metrics->text_size = size;
	return 0;
}

static int take_header(struct openmetrics *metrics, const struct record_header *header)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -errno;
	metrics_put_target(out, header);
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	free(metrics->head);
	free(metrics->text);
	metrics->head = text;
	metrics->head_size = size;
	metrics->text = NULL;
	metrics->text_size = 0;
	return 0;
}

/* ---- the sink ---- */

static int openmetrics_write(struct sink *sink, const struct record *record)
{
	struct openmetrics *metrics = (struct openmetrics *)sink;

	if (record->type == RECORD_HEADER)
		return take_header(metrics, record->header);
	if (record->type == RECORD_FOOTER)
		return take_footer(metrics, record->footer);
	return 0;
}

static int openmetrics_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct openmetrics *metrics = (struct openmetrics *)sink;

	errno = 0;
	fwrite(metrics->head, 1, metrics->head_size, metrics->to);
	fwrite(metrics->text, 1, metrics->text_size, metrics->to);
	fputs("# EOF\n", metrics->to);
	if (!ferror(metrics->to))
		return 0;
	return errno ? -errno : -EIO;
}

static void openmetrics_close(struct sink *sink)
{
	struct openmetrics *metrics = (struct openmetrics *)sink;

	free(metrics->head);
	free(metrics->text);
	free(metrics);
}

struct sink *openmetrics_sink_new(FILE *to)
{
	static const struct sink_ops ops = {.name = "openmetrics",
					    .write = openmetrics_write,
					    .finish = openmetrics_finish,
					    .close = openmetrics_close};
	struct openmetrics *metrics = calloc(1, sizeof(*metrics));

	if (!metrics)
		return NULL;
	metrics->base.ops = &ops;
	metrics->to = to;
	return &metrics->base;
}
