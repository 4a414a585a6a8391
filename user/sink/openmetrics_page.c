/* SPDX-License-Identifier: BSD-2-Clause */
/* https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md */
#include "sink/openmetrics_page.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "sink/openmetrics.h"
#include "sink/text.h"

#define CAUSES_PREFIX "frames.causes."

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

	if (!strncmp(key, CAUSES_PREFIX, strlen(CAUSES_PREFIX)))
		return true;
	leaf = leaf ? leaf + 1 : key;
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		if (!strcmp(leaf, sums[i]))
			return true;
	return false;
}

/* The shortest text that reads back as the same number. */
static void put_value(struct metrics_page *page, double value)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) < value || strtod(text, NULL) > value)
		snprintf(text, sizeof(text), "%.17g", value);
	fprintf(page->out, " %s\n", text);
}

/* "cpu.busy_ns" becomes jankscope_cpu_busy_seconds; an hour is written out, as Prometheus has it.
 */
static void name_family(char name[METRICS_NAME_BYTES], const char *key, const struct unit *unit)
{
	snprintf(name, METRICS_NAME_BYTES, "jankscope_%.*s%s%s",
		 (int)(strlen(key) - strlen(unit->suffix)), key, unit->name ? "_" : "",
		 unit->name               ? unit->name
		 : ends_in(key, "_per_h") ? "our"
					  : "");
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
}

char *metrics_clean(char to[METRICS_LABEL_BYTES], const char *value)
{
	char bounded[METRICS_LABEL_BYTES];

	snprintf(bounded, sizeof(bounded), "%s", value);
	text_clean(to, METRICS_LABEL_BYTES, bounded);
	return to;
}

/* Text of another program, or of a file, between quotes. */
static void put_escaped(FILE *out, const char *text)
{
	char clean[METRICS_LABEL_BYTES];

	metrics_clean(clean, text);
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
static bool begin_family(struct metrics_page *page, const char *name, const char *type,
			 const struct unit *unit, const char *help, size_t series)
{
	char clean[METRICS_LABEL_BYTES];
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

static void put_total(struct metrics_page *page, const char *key, double value)
{
	const struct unit *unit = unit_of(key);
	bool sum = is_sum(key) && value >= 0;
	char name[METRICS_NAME_BYTES], help[METRICS_LABEL_BYTES];

	if (!isfinite(value))
		return;
	name_family(name, key, unit);
	snprintf(help, sizeof(help), "%s of the run's summary", key);
	if (!begin_family(page, name, sum ? "counter" : "gauge", unit, help, 1))
		return;
	fprintf(page->out, "%s%s", name, sum ? "_total" : "");
	put_value(page, value * unit->factor);
}

static void put_distribution(struct metrics_page *page, const struct record_distribution *d)
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
	char name[METRICS_NAME_BYTES], help[METRICS_LABEL_BYTES];

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
	/* All values are whole, and so is their sum: by no rounding it may shrink. */
	fprintf(page->out, "%s_sum", name);
	put_value(page, rint(d->mean * (double)d->n) * unit->factor);
	fprintf(page->out, "%s_count", name);
	put_value(page, (double)d->n);
}

/* ---- rows ---- */

static void put_row(struct metrics_page *page, const char *name, const char *type,
		    const struct metrics_kind *kind, const struct metrics_row *row)
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

void metrics_put_family(struct metrics_page *page, const char *name, const char *type,
			const char *unit_name, const char *help, const struct metrics_kind *kind,
			const struct metrics_row *rows, size_t count)
{
	const struct unit unit = {"", unit_name, 1};
	size_t samples = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < kind->value_count; k++)
			samples += rows[i].present[k];
	if (!samples || !begin_family(page, name, type, &unit, help, samples))
		return;
	for (size_t i = 0; i < count; i++)
		put_row(page, name, type, kind, &rows[i]);
}

/* ---- the summary ---- */

/* The cause that a total is of: "frames.causes.lock", "frames.causes.lock_ns"; JANK_CAUSES: it is
 * of none, as those of FrameTimeline. */
static int cause_of(const char *key, bool *is_time)
{
	const size_t prefix = strlen(CAUSES_PREFIX);

	if (strncmp(key, CAUSES_PREFIX, prefix) != 0)
		return JANK_CAUSES;
	key += prefix;
	for (int cause = 0; cause < JANK_CAUSES; cause++) {
		const char *word = record_jank_total((enum jank_cause)cause);
		size_t length = strlen(word);

		if (strncmp(key, word, length) != 0)
			continue;
		*is_time = !strcmp(key + length, "_ns");
		if (*is_time || !key[length])
			return cause;
	}
	return JANK_CAUSES;
}

/* One series a cause, so that a query can sum them up; the total of all is their sum. */
static void put_causes(struct metrics_page *page, const struct record_footer *footer)
{
	static const struct metrics_kind kind = {{"cause"}, NULL, {NULL}, 1};
	struct metrics_row rows[2][JANK_CAUSES] = {0};

	for (size_t i = 0; i < footer->total_count; i++) {
		double value = footer->totals[i].value;
		bool is_time;
		int cause = cause_of(footer->totals[i].key, &is_time);

		if (cause < JANK_CAUSES && isfinite(value) && value >= 0)
			rows[is_time][cause] =
				(struct metrics_row){{record_jank_causes[cause]},
						     {is_time ? value * 1e-9 : value},
						     {true}};
	}
	metrics_put_family(page, "jankscope_late_frames", "counter", NULL,
			   "late and dropped frames by cause, as frames.causes", &kind, rows[0],
			   JANK_CAUSES);
	metrics_put_family(page, "jankscope_late_frames_delay_seconds", "counter", "seconds",
			   "how late they were, by cause", &kind, rows[1], JANK_CAUSES);
}

void metrics_put_summary(struct metrics_page *page, const struct record_footer *footer)
{
	bool is_time;

	put_causes(page, footer);
	for (size_t i = 0; i < footer->total_count; i++) {
		const char *key = footer->totals[i].key;

		if (cause_of(key, &is_time) == JANK_CAUSES && strcmp(key, "frames.late") != 0 &&
		    strcmp(key, "frames.late_ns") != 0)
			put_total(page, key, footer->totals[i].value);
	}
	for (size_t i = 0; i < footer->distribution_count; i++)
		put_distribution(page, &footer->distributions[i]);
}

/* ---- the run ---- */

void metrics_put_target(FILE *out, const struct record_header *header)
{
	bool any = false;

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
}
