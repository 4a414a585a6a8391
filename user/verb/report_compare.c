/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_compare.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/figures.h"
#include "compare/grown.h"
#include "sink/text.h"

#define GROWN_ROWS 5
#define COLUMNS    80

struct report_compare {
	bool wanted;
	struct compare_side sides[2]; /* old, new */
	int side;                     /* of the recording that is read */
	struct alike alike;
	bool is_judged;
	struct compare_figure figures[COMPARE_METRICS]; /* once they are judged */
	struct grown *threads, *stacks;
	uint64_t dur_ns[2]; /* that the footers tell of */
};

struct report_compare *report_compare_new(const struct options *options, bool for_rules,
					  enum exit_code *code)
{
	struct report_compare *compare = calloc(1, sizeof(*compare));

	if (compare) {
		compare->wanted =
			options->baselines.count && (!options->fail_if.count || for_rules);
		compare->threads = grown_new();
		compare->stacks = grown_new();
		if (compare->threads && compare->stacks)
			return compare;
	}
	report_compare_free(compare);
	fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
	*code = EXIT_INTERNAL;
	return NULL;
}

void report_compare_free(struct report_compare *compare)
{
	if (!compare)
		return;
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < compare->sides[side].count; i++)
			compare_run_free(&compare->sides[side].runs[i]);
		free(compare->sides[side].runs);
	}
	grown_free(compare->threads);
	grown_free(compare->stacks);
	free(compare);
}

bool report_compare_any(const struct report_compare *compare)
{
	return compare->wanted;
}

int report_compare_begin(struct report_compare *compare, bool is_base)
{
	struct compare_side *side = &compare->sides[!is_base];
	struct compare_run *more;

	if (!compare->wanted)
		return 0;
	more = realloc(side->runs, (side->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	side->runs = more;
	more[side->count++] = (struct compare_run){0};
	compare->side = !is_base;
	return 0;
}

int report_compare_take(struct report_compare *compare, const struct record *record)
{
	struct compare_side *side = &compare->sides[compare->side];

	if (!compare->wanted)
		return 0;
	if (record->type == RECORD_HEADER)
		alike_header(&compare->alike, record->header);
	return compare_run_add(&side->runs[side->count - 1], record);
}

int report_compare_footer(struct report_compare *compare, const struct record *record)
{
	const struct record_footer *footer = record->footer;
	int err = 0;

	if (!compare->wanted)
		return 0;
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, "dur_ns"))
			compare->dur_ns[compare->side] += (uint64_t)footer->totals[i].value;
	for (size_t i = 0; i < footer->threads.count && !err; i++) {
		const struct footer_usage *row = &footer->threads.rows[i];
		char name[512];

		snprintf(name, sizeof(name), "%s of %s", row->thread ?: "?",
			 row->process ?: row->package ?: "?");
		err = grown_add(compare->threads, compare->side, name, row->cpu_ns);
	}
	for (size_t i = 0; i < footer->block_path_count && !err; i++)
		if (footer->block_paths[i].path)
			err = grown_add(compare->stacks, compare->side, footer->block_paths[i].path,
					footer->block_paths[i].total_ns);
	return err;
}

/* ---- figures ---- */

int report_compare_judge(struct report_compare *compare)
{
	int err = 0;

	if (compare->is_judged)
		return 0;
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < compare->sides[side].count && !err; i++)
			err = compare_run_end(&compare->sides[side].runs[i]);
	if (!err)
		err = compare_figures(&compare->sides[0], &compare->sides[1], &compare->alike,
				      compare->figures);
	compare->is_judged = !err;
	return err;
}

static bool is_counted(const struct report_compare *compare, enum compare_metric metric,
		       enum difference_verdict verdict)
{
	const struct compare_figure *figure = &compare->figures[metric];

	return figure->differs &&
	       (figure->difference.difference > 0) == (verdict == DIFFERENCE_MORE);
}

/* Of those that can be worse. */
static size_t judged_count(const struct report_compare *compare)
{
	size_t count = 0;

	for (int metric = 0; metric < COMPARE_METRICS; metric++)
		count += compare_metrics[metric].is_bad && !compare->figures[metric].unjudged;
	return count;
}

static size_t count_of(const struct report_compare *compare, enum difference_verdict verdict)
{
	size_t count = 0;

	for (int metric = 0; metric < COMPARE_METRICS; metric++)
		count += is_counted(compare, metric, verdict);
	return count;
}

/* ---- for rules ---- */

static const char *const parts[] = {"old", "new", "change", "low", "high"};
static const char *const counts[] = {"worse", "better", "judged", "unjudged"};
#define PARTS  (sizeof(parts) / sizeof(*parts))
#define COUNTS (sizeof(counts) / sizeof(*counts))

/* Of "compare.jank_pct.low" the figure; COMPARE_METRICS: it names none. */
static enum compare_metric metric_of(const char *name)
{
	for (int metric = 0; metric < COMPARE_METRICS; metric++) {
		const char *key = compare_metrics[metric].key;
		size_t length = strlen(key);

		for (size_t i = 0; i < PARTS; i++)
			if (!strncmp(name, key, length) && name[length] == '.' &&
			    !strcmp(name + length + 1, parts[i]))
				return metric;
	}
	return COMPARE_METRICS;
}

bool report_compare_has(const char *metric)
{
	const char *name = metric + strlen(COMPARE_PREFIX);

	for (size_t i = 0; i < COUNTS; i++)
		if (!strcmp(name, counts[i]))
			return true;
	return metric_of(name) < COMPARE_METRICS;
}

static void add_figure(const struct report_compare *compare, enum compare_metric metric,
		       json_t *object)
{
	const struct compare_metric_info *info = &compare_metrics[metric];
	const struct compare_figure *figure = &compare->figures[metric];
	const struct difference *difference = &figure->difference;
	/* Where no sample differs from another of its side the interval is the change. */
	bool is_known = isfinite(difference->low);
	const double values[PARTS] = {difference->old, difference->new, difference->difference,
				      is_known ? difference->low : difference->difference,
				      is_known ? difference->high : difference->difference};
	json_t *own = json_object();

	for (size_t i = 0; i < PARTS; i++)
		if (isfinite(values[i]) && figure->runs[0] && figure->runs[1] && !figure->unjudged)
			json_object_set_new(own, parts[i], json_real(values[i] * info->scale));
	json_object_set_new(object, info->key, own);
}

json_t *report_compare_figures(struct report_compare *compare)
{
	size_t judged, there = 0;
	json_t *object;

	if (report_compare_judge(compare))
		return NULL;
	object = json_object();
	judged = judged_count(compare);
	for (int metric = 0; metric < COMPARE_METRICS; metric++) {
		const size_t *runs = compare->figures[metric].runs;

		there += compare_metrics[metric].is_bad && (runs[0] || runs[1]);
		add_figure(compare, metric, object);
	}
	json_object_set_new(object, "judged", json_integer((json_int_t)judged));
	json_object_set_new(object, "unjudged", json_integer((json_int_t)(there - judged)));
	/* Where nothing was judged nobody knows whether something is worse. */
	if (judged) {
		json_object_set_new(object, "worse",
				    json_integer((json_int_t)count_of(compare, DIFFERENCE_MORE)));
		json_object_set_new(object, "better",
				    json_integer((json_int_t)count_of(compare, DIFFERENCE_LESS)));
	}
	return json_pack("{s:o}", "compare", object);
}

const char *report_compare_names(char *text, size_t size)
{
	size_t length = (size_t)snprintf(text, size,
					 "there is compare.worse, better, judged, unjudged, and "
					 "compare.KEY.old, new, change, low, high; KEY:");

	for (int metric = 0; metric < COMPARE_METRICS && length < size; metric++)
		if (metric <= COMPARE_LATE_CAUSE || metric > COMPARE_LATE_LAST)
			length += (size_t)snprintf(
				text + length, size - length, "%s %s", metric ? "," : "",
				metric == COMPARE_LATE_CAUSE ? "late_CAUSE_ms_per_h"
							     : compare_metrics[metric].key);
	return text;
}

const char *report_compare_reason(const struct report_compare *compare, const char *metric)
{
	enum compare_metric of = metric_of(metric + strlen(COMPARE_PREFIX));

	return of < COMPARE_METRICS && compare->figures[of].unjudged ? compare->figures[of].unjudged
								     : "nothing can be judged";
}

/* ---- the text ---- */

/* Four digits at least where a number is small. */
static const char *figure_text(char text[32], double value, bool is_signed)
{
	int digits = fabs(value) < 10 ? 3 : fabs(value) < 100 ? 2 : fabs(value) < 1000 ? 1 : 0;

	if (isfinite(value))
		snprintf(text, 32, is_signed ? "%+.*f" : "%.*f", digits, value);
	else
		snprintf(text, 32, "?");
	return text;
}

static const char *verdict(const struct compare_metric_info *info,
			   const struct compare_figure *figure, char text[80])
{
	const struct difference *difference = &figure->difference;
	char size[32];

	if (figure->unjudged)
		return figure->unjudged;
	if (difference->verdict == DIFFERENCE_MORE)
		return info->is_bad ? "worse" : "more";
	if (difference->verdict == DIFFERENCE_LESS)
		return info->is_bad ? "better" : "less";
	if (difference->verdict == DIFFERENCE_SAME)
		return "the same";
	if (!isfinite(difference->detectable))
		return "no evidence";
	snprintf(text, 80, "no evidence; %s would show",
		 figure_text(size, difference->detectable * info->scale, false));
	return text;
}

/* A side that does not have it has no value, and not 0. */
static void print_figure(const struct report_compare *compare, enum compare_metric metric,
			 FILE *out)
{
	const struct compare_metric_info *info = &compare_metrics[metric];
	const struct compare_figure *figure = &compare->figures[metric];
	const struct difference *difference = &figure->difference;
	const size_t *runs = figure->runs,
		     *all = (size_t[]){compare->sides[0].count, compare->sides[1].count};
	bool both = runs[0] && runs[1];
	char old[32], new[32], change[32], low[32], high[32], interval[80] = "", text[80],
							      some[80] = "";

	if (both && isfinite(difference->low))
		snprintf(interval, sizeof(interval), "%s to %s",
			 figure_text(low, difference->low * info->scale, true),
			 figure_text(high, difference->high * info->scale, true));
	if (both && (runs[0] < all[0] || runs[1] < all[1]))
		snprintf(some, sizeof(some), "; %zu and %zu runs have it", runs[0], runs[1]);
	fprintf(out, "%-24s %9s %9s %9s  %-20s %s%s\n", info->name,
		both ? figure_text(old, difference->old * info->scale, false) : "-",
		both ? figure_text(new, difference->new * info->scale, false) : "-",
		both ? figure_text(change, difference->difference * info->scale, true) : "-",
		interval, verdict(info, figure, text), some);
}

/* Figures that are worse, or better, beyond what chance does among all of them. */
static void print_together(const struct report_compare *compare, const char *word,
			   enum difference_verdict verdict, FILE *out)
{
	int column = fprintf(out, "  %s:", word);
	bool any = false;

	for (int metric = 0; metric < COMPARE_METRICS; metric++) {
		const char *key = compare_metrics[metric].key;

		if (!is_counted(compare, metric, verdict))
			continue;
		if (column + (int)strlen(key) + 1 > COLUMNS)
			column = fprintf(out, "\n   ") - 1;
		column += fprintf(out, " %s", key);
		any = true;
	}
	fputs(any ? "\n" : " none\n", out);
}

static void print_figures(const struct report_compare *compare, FILE *out)
{
	size_t judged = judged_count(compare);

	fprintf(out, "%-24s %9s %9s %9s  %-20s\n", "", "OLD", "NEW", "CHANGE", "95 % INTERVAL");
	for (int metric = 0; metric < COMPARE_METRICS; metric++)
		if (compare->figures[metric].runs[0] || compare->figures[metric].runs[1])
			print_figure(compare, metric, out);
	if (!judged)
		return;
	fprintf(out, "\nOf the %zu that can be worse, taken together (Holm, 5 %%):\n", judged);
	print_together(compare, "worse", DIFFERENCE_MORE, out);
	print_together(compare, "better", DIFFERENCE_LESS, out);
}

static void print_alike(const struct alike *alike, FILE *out)
{
	bool any = false;

	for (int what = 0; what < ALIKE_WHATS; what++) {
		const struct alike_text *of = &alike->of[what];
		char first[256], other[256];

		if (!*of->other)
			continue;
		fprintf(out, "NOT ALIKE: %s: %s, %s\n", alike_names[what],
			text_clean(first, sizeof(first), of->first),
			text_clean(other, sizeof(other), of->other));
		any = true;
	}
	fputs(any ? "\n" : "", out);
}

static void print_grown(struct grown *grown, const struct report_compare *compare, const char *what,
			FILE *out)
{
	struct grown_row rows[GROWN_ROWS];
	bool known = compare->dur_ns[0] && compare->dur_ns[1];
	size_t count = known ? grown_top(grown, compare->dur_ns, rows, GROWN_ROWS) : 0;

	if (count)
		fprintf(out, "\n%9s %9s %9s  %s\n", "OLD", "NEW", "CHANGE", what);
	for (size_t i = 0; i < count; i++) {
		double old = rows[i].old / 1e6, new = rows[i].new / 1e6;
		char a[32], b[32], c[32], name[4096];

		fprintf(out, "%9s %9s %9s  %s\n", isnan(old) ? "-" : figure_text(a, old, false),
			isnan(new) ? "-" : figure_text(b, new, false),
			figure_text(c, (isnan(new) ? 0 : new) - (isnan(old) ? 0 : old), true),
			text_clean(name, sizeof(name), rows[i].name));
	}
}

enum exit_code report_compare_end(struct report_compare *compare, FILE *out)
{
	const struct compare_side *old = &compare->sides[0], *new = &compare->sides[1];
	int err;

	if (!compare->wanted)
		return EXIT_FINE;
	err = report_compare_judge(compare);
	if (err) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	fprintf(out, "%zu old, %zu new. ", old->count, new->count);
	if (old->count < DIFFERENCE_LEAST || new->count < DIFFERENCE_LEAST)
		fprintf(out,
			"Fewer than %d runs a side: an interval has what varies within these runs, "
			"and not\nwhat varies from run to run (heat, network, what else the device "
			"does).\n",
			DIFFERENCE_LEAST);
	else
		fprintf(out, "A run is a sample.\n");
	fprintf(out,
		"Of 20 figures without a difference chance puts one outside its interval.\n\n");
	print_alike(&compare->alike, out);
	print_figures(compare, out);
	print_grown(compare->threads, compare, "threads that ran more, ms an hour", out);
	print_grown(compare->stacks, compare, "stacks that blocked more, ms an hour", out);
	return EXIT_FINE;
}
