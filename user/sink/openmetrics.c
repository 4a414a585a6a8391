/* SPDX-License-Identifier: BSD-2-Clause */
/* https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md */
#include "sink/openmetrics.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sink/text.h"

#define NAME_BYTES  160
#define LABEL_BYTES 256 /* of a label's value, before its escapes */
#define ROWS        20  /* of one kind in a footer, at most, that become series */

struct openmetrics {
	struct sink base;
	FILE *to;   /* the caller's */
	char *head; /* target_info of the last header */
	char *text; /* the families of the last footer */
	size_t head_size, text_size;
};

/* What is being written of one footer. */
struct page {
	FILE *out;
	size_t series;
	char (*families)[NAME_BYTES]; /* that are written; a name is there once */
	size_t family_count, family_room;
	bool failed;
};

/* ---- names and values ---- */

static const struct unit {
	const char *suffix, *name; /* of a key, and what Prometheus calls it */
	double factor;
} units[] = {
	{"_ns", "seconds", 1e-9}, {"_ms", "seconds", 1e-3}, {"_bytes", "bytes", 1},
	{"_pct", "ratio", 1e-2},  {"_ua", "amperes", 1e-6}, {"_uv", "volts", 1e-6},
	{"_uj", "joules", 1e-6},  {"_mc", "celsius", 1e-3},
};

static const struct unit no_unit = {"", NULL, 1};

static bool ends_in(const char *text, const char *suffix)
{
	size_t length = strlen(text), end = strlen(suffix);

	return length > end && !strcmp(text + length - end, suffix);
}

static const struct unit *unit_of(const char *key)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (ends_in(key, units[i].suffix))
			return &units[i];
	return &no_unit;
}

/* Whether a total is a sum over the run. Others are the last or the largest value, or a ratio. */
static bool is_sum(const char *key)
{
	static const char *const sums[] = {
		"intervals",
		"dur_ns",
		"busy_ns",
		"idle_ns",
		"other_ns",
		"overflow_ns",
		"online_ns",
		"irq_ns",
		"softirq_ns",
		"steal_ns",
		"iowait_ns",
		"tasks_exited",
		"cpu_ns",
		"runnable_ns",
		"rx_bytes",
		"tx_bytes",
		"rx_packets",
		"tx_packets",
		"shown",
		"dropped",
		"janky",
		"count",
		"total_ns",
		"pressure_some_ns",
		"pressure_full_ns",
		"stops",
	};
	const char *leaf = strrchr(key, '.');

	if (!strncmp(key, "frames.causes.", strlen("frames.causes.")))
		return true;
	leaf = leaf ? leaf + 1 : key;
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		if (!strcmp(leaf, sums[i]))
			return true;
	return false;
}

/* The shortest text that reads back as the same number. */
static void put_value(struct page *page, double value)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) < value || strtod(text, NULL) > value)
		snprintf(text, sizeof(text), "%.17g", value);
	fprintf(page->out, " %s\n", text);
}

/* "cpu.busy_ns" becomes jankscope_cpu_busy_seconds. */
static void name_family(char name[NAME_BYTES], const char *key, const struct unit *unit)
{
	snprintf(name, NAME_BYTES, "jankscope_%.*s%s%s", (int)(strlen(key) - strlen(unit->suffix)),
		 key, unit->name ? "_" : "", unit->name ? unit->name : "");
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
}

/* Text of another program, or of a file, between quotes. */
static void put_escaped(FILE *out, const char *text)
{
	char bounded[LABEL_BYTES], clean[LABEL_BYTES];

	snprintf(bounded, sizeof(bounded), "%s", text);
	text_clean(clean, sizeof(clean), bounded);
	putc('"', out);
	for (const char *c = clean; *c; c++) {
		if (*c == '"' || *c == '\\')
			putc('\\', out);
		putc(*c, out);
	}
	putc('"', out);
}

static void put_label(FILE *out, const char *key, const char *value, bool *any)
{
	if (!value)
		return;
	fprintf(out, "%s%s=", *any ? "," : "{", key);
	put_escaped(out, value);
	*any = true;
}

/* Begin a family with at least one of `series` samples. False: there is no room for it, or a family
 * of that name was written. */
static bool begin_family(struct page *page, const char *name, const char *type,
			 const struct unit *unit, const char *help, size_t series)
{
	char clean[LABEL_BYTES];
	void *more;

	if (page->failed || page->series + series > OPENMETRICS_SERIES)
		return false;
	for (size_t i = 0; i < page->family_count; i++)
		if (!strcmp(page->families[i], name))
			return false;
	if (page->family_count == page->family_room) {
		page->family_room = page->family_room ? 2 * page->family_room : 64;
		more = reallocarray(page->families, page->family_room, sizeof(*page->families));
		if (!more) {
			page->failed = true;
			return false;
		}
		page->families = more;
	}
	strcpy(page->families[page->family_count++], name);
	page->series += series;
	fprintf(page->out, "# TYPE %s %s\n", name, type);
	if (unit->name)
		fprintf(page->out, "# UNIT %s %s\n", name, unit->name);
	text_clean(clean, sizeof(clean), help);
	fprintf(page->out, "# HELP %s ", name);
	for (const char *c = clean; *c; c++) {
		if (*c == '"' || *c == '\\')
			putc('\\', page->out);
		putc(*c, page->out);
	}
	putc('\n', page->out);
	return true;
}

/* ---- totals and distributions ---- */

static void put_total(struct page *page, const char *key, double value)
{
	const struct unit *unit = unit_of(key);
	bool sum = is_sum(key) && value >= 0;
	char name[NAME_BYTES], help[LABEL_BYTES];

	if (!isfinite(value))
		return;
	name_family(name, key, unit);
	snprintf(help, sizeof(help), "%s of the run's summary", key);
	if (!begin_family(page, name, sum ? "counter" : "gauge", unit, help, 1))
		return;
	fprintf(page->out, "%s%s", name, sum ? "_total" : "");
	put_value(page, value * unit->factor);
}

static void put_distribution(struct page *page, const struct record_distribution *d)
{
	const struct {
		const char *quantile;
		double value;
	} quantiles[] = {{"0.5", d->p50},
			 {"0.9", d->p90},
			 {"0.95", d->p95},
			 {"0.99", d->p99},
			 {"1", d->max}};
	const size_t count = sizeof(quantiles) / sizeof(*quantiles);
	const struct unit *unit = unit_of(d->name);
	char name[NAME_BYTES], help[LABEL_BYTES];

	if (!isfinite(d->mean) || d->mean < 0)
		return;
	name_family(name, d->name, unit);
	snprintf(help, sizeof(help), "%s of the run's summary", d->name);
	if (!begin_family(page, name, "summary", unit, help, count + 2))
		return;
	for (size_t i = 0; i < count; i++) {
		fprintf(page->out, "%s{quantile=\"%s\"}", name, quantiles[i].quantile);
		put_value(page,
			  isfinite(quantiles[i].value) ? quantiles[i].value * unit->factor : NAN);
	}
	fprintf(page->out, "%s_sum", name);
	put_value(page, d->mean * (double)d->n * unit->factor);
	fprintf(page->out, "%s_count", name);
	put_value(page, (double)d->n);
}

/* ---- rows ---- */

/* A sample of a family of rows: what names it, and its values. */
struct row {
	const char *labels[4]; /* of the family's keys; NULL: this row has none */
	double values[3];
	bool present[3];
};

/* A kind of rows, one family with up to three samples a row. */
struct row_kind {
	const char *keys[4]; /* labels, ends in NULL */
	const char *by;      /* the label that tells the samples of a row apart; NULL: it has one */
	const char *values[3];
	size_t value_count;
};

static bool same_labels(const struct row *a, const struct row *b)
{
	for (size_t i = 0; i < 4; i++) {
		const char *x = a->labels[i] ? a->labels[i] : "";
		const char *y = b->labels[i] ? b->labels[i] : "";

		if (strcmp(x, y))
			return false;
	}
	return true;
}

static void add_values(struct row *to, const struct row *from)
{
	for (size_t i = 0; i < 3; i++) {
		to->values[i] += from->values[i];
		to->present[i] |= from->present[i];
	}
}

/* Rows without pids may be equal: they are one then. The last one stays the last: it is the rest.
 */
static size_t merge_rows(struct row *rows, size_t count)
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

static void put_row(struct page *page, const char *name, const char *type,
		    const struct row_kind *kind, const struct row *row)
{
	for (size_t i = 0; i < kind->value_count; i++) {
		bool any = false;

		if (!row->present[i])
			continue;
		fprintf(page->out, "%s%s", name, strcmp(type, "counter") ? "" : "_total");
		for (size_t k = 0; kind->keys[k]; k++)
			put_label(page->out, kind->keys[k], row->labels[k], &any);
		put_label(page->out, kind->by, kind->values[i], &any);
		fputs(any ? "}" : "", page->out);
		put_value(page, row->values[i]);
	}
}

/* Of `count` rows, heaviest first and with the rest as the last one, as many as there is room for
 * in `series`; the others go to the rest. */
static void put_rows(struct page *page, const char *name, const char *type, const char *unit_name,
		     const char *help, const struct row_kind *kind, struct row *rows, size_t count,
		     size_t series)
{
	const struct unit unit = {"", unit_name, 1};
	size_t room = series / kind->value_count, kept, samples = 0;

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
	for (size_t i = 0; i < kept; i++)
		for (size_t k = 0; k < kind->value_count; k++)
			samples += rows[i].present[k];
	if (!samples || !begin_family(page, name, type, &unit, help, samples))
		return;
	for (size_t i = 0; i < kept; i++)
		put_row(page, name, type, kind, &rows[i]);
}

static void put_usage(struct page *page, const char *name, const char *help,
		      const struct row_kind *kind, const struct footer_top *top, size_t series)
{
	struct row rows[ROWS + 1] = {0};
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

static void put_uids(struct page *page, const struct footer_top *top, bool bytes, size_t series)
{
	static const struct row_kind cpu_kind = {{"package", "uid"}, NULL, {NULL}, 1},
				     net_kind = {{"package", "uid"},
						 "direction",
						 {"receive", "transmit"},
						 2};
	struct row rows[ROWS + 1] = {0};
	char numbers[ROWS][16];
	size_t count = top->count < ROWS ? top->count : ROWS;
	struct row *rest = &rows[count];

	rest->labels[1] = "_other";
	rest->values[0] = bytes ? (double)top->other_rx_bytes.value : (double)top->other_ns * 1e-9;
	rest->values[1] = (double)top->other_tx_bytes.value;
	rest->present[0] = !bytes || top->other_rx_bytes.present;
	rest->present[1] = bytes && top->other_tx_bytes.present;
	for (size_t i = 0; i < top->count; i++) {
		const struct footer_usage *usage = &top->rows[i];
		struct row row = {
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

static void set_layer(struct row *row, const struct footer_layer *layer)
{
	row->values[0] = (double)layer->shown;
	row->values[1] = (double)layer->dropped;
	row->values[2] = (double)layer->janky;
	for (size_t i = 0; i < 3; i++)
		row->present[i] = true;
}

static void put_layers(struct page *page, const struct record_footer *footer, size_t series)
{
	static const struct row_kind kind = {
		{"package", "layer"}, "outcome", {"shown", "dropped", "janky"}, 3};
	struct row rows[ROWS + 1] = {0};
	size_t count = footer->layer_count < ROWS ? footer->layer_count : ROWS;

	if (!footer->any_layer)
		return;
	rows[count].labels[1] = "_other";
	set_layer(&rows[count], &footer->other_layers);
	for (size_t i = 0; i < footer->layer_count; i++) {
		struct row row = {.labels = {footer->layers[i].package, footer->layers[i].layer}};

		set_layer(&row, &footer->layers[i]);
		if (i < count)
			rows[i] = row;
		else
			add_values(&rows[count], &row);
	}
	put_rows(page, "jankscope_layer_frames", "counter", NULL,
		 "frames of a layer, as frames.layers; janky ones are among those shown", &kind,
		 rows, count + 1, series);
}

static void put_memory(struct page *page, const struct record_footer *footer, size_t series)
{
	static const struct row_kind kind = {{"package", "process"}, "kind", {"pss", "rss"}, 2};
	struct row rows[ROWS] = {0};
	size_t count = footer->memory_count < ROWS ? footer->memory_count : ROWS;

	for (size_t i = 0; i < count; i++) {
		const struct footer_memory *memory = &footer->memory[i];

		rows[i] = (struct row){
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

static void put_losses(struct page *page, const struct record_footer *footer, size_t series)
{
	static const struct row_kind kind = {{"kind", "reason"}, NULL, {NULL}, 1};
	const struct {
		const char *name;
		const struct counter_list *list;
	} kinds[] = {
		{"lost", &footer->lost}, {"late", &footer->late}, {"repaired", &footer->repaired}};
	size_t all = footer->lost.count + footer->late.count + footer->repaired.count, count = 0;
	struct row *rows = calloc(all + 1, sizeof(*rows));

	if (!rows) {
		page->failed = true;
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (size_t k = 0; k < kinds[i].list->count; k++)
			rows[count++] = (struct row){
				.labels = {kinds[i].name, kinds[i].list->items[k].name},
				.values = {(double)kinds[i].list->items[k].value},
				.present = {true},
			};
	rows[count++] = (struct row){.labels = {"lost", "_other"}, .present = {true}};
	put_rows(page, "jankscope_losses", "counter", NULL,
		 "what is lost, late or repaired, in the unit of its reason", &kind, rows, count,
		 series);
	free(rows);
}

/* ---- the page ---- */

static void put_families(struct page *page, const struct record_footer *footer)
{
	static const struct row_kind threads = {{"package", "process", "thread"}, NULL, {NULL}, 1},
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
	for (size_t i = 0; i < footer->total_count; i++)
		put_total(page, footer->totals[i].key, footer->totals[i].value);
	for (size_t i = 0; i < footer->distribution_count; i++)
		put_distribution(page, &footer->distributions[i]);
}

static int take_footer(struct openmetrics *metrics, const struct record_footer *footer)
{
	struct page page = {.series = 1}; /* target_info */
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
	bool any = false;

	if (!out)
		return -errno;
	/* A gauge, because promtool and the older text format know no type `info`. */
	fputs("# TYPE target_info gauge\n# HELP target_info the device, and the run\ntarget_info",
	      out);
	put_label(out, "session", header->session, &any);
	put_label(out, "device", header->device, &any);
	put_label(out, "build", header->android.fingerprint, &any);
	put_label(out, "kernel", header->kernel, &any);
	put_label(out, "arch", header->arch, &any);
	put_label(out, "version", JANKSCOPE_VERSION, &any);
	fputs("} 1\n", out);
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
