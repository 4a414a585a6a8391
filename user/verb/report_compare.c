/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_compare.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/difference.h"
#include "compare/grown.h"
#include "compare/metrics.h"
#include "sink/text.h"

#define GROWN_ROWS 5

struct report_compare {
	bool wanted;
	struct side {
		struct compare_run *runs;
		size_t count;
	} sides[2]; /* old, new */
	int side;   /* of the recording that is read */
	struct grown *threads, *stacks;
	uint64_t dur_ns[2]; /* that the footers tell of */
};

struct report_compare *report_compare_new(const struct options *options, enum exit_code *code)
{
	struct report_compare *compare = calloc(1, sizeof(*compare));

	if (compare) {
		compare->wanted = options->baselines.count && !options->fail_if.count;
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
	struct side *side = &compare->sides[!is_base];
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
	struct side *side = &compare->sides[compare->side];

	return compare->wanted ? compare_run_add(&side->runs[side->count - 1], record) : 0;
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

/* Runs that have the figure, each a sample. */
static size_t samples_of(const struct side *side, enum compare_metric metric,
			 struct series_cell *samples)
{
	size_t count = 0;

	for (size_t i = 0; i < side->count; i++) {
		double quotient = series_quotient(&side->runs[i].series[metric]);

		if (!isnan(quotient))
			samples[count++] = (struct series_cell){quotient, 1};
	}
	return count;
}

/* All of a side's runs behind each other. */
static int join(const struct side *side, enum compare_metric metric, struct series *whole)
{
	int err = 0;

	for (size_t i = 0; i < side->count && !err; i++) {
		const struct series *series = &side->runs[i].series[metric];

		for (size_t k = 0; k < series->count && !err; k++)
			err = series_add(whole, series->cells[k].over, series->cells[k].under);
	}
	return err;
}

/* Whether there is a figure on both sides, and what it says. */
static int judge(const struct report_compare *compare, enum compare_metric metric, bool *is_there,
		 struct difference *difference)
{
	const struct side *old = &compare->sides[0], *new = &compare->sides[1];
	struct series_cell *samples = calloc(old->count + new->count, sizeof(*samples));
	struct series joined[2] = {0};
	size_t old_count, new_count;
	int err = 0;

	if (!samples)
		return -ENOMEM;
	old_count = samples_of(old, metric, samples);
	new_count = samples_of(new, metric, samples + old_count);
	*is_there = old_count && new_count;
	if (old_count >= DIFFERENCE_LEAST && new_count >= DIFFERENCE_LEAST) {
		const struct difference_side a = {samples, old_count},
					     b = {samples + old_count, new_count};

		err = difference_of_samples(&a, &b, difference);
	} else if (*is_there) {
		err = join(old, metric, &joined[0]);
		if (!err)
			err = join(new, metric, &joined[1]);
		if (!err)
			err = difference_of_series(&joined[0], &joined[1], difference);
	}
	series_free(&joined[0]);
	series_free(&joined[1]);
	free(samples);
	return err;
}

/* Four digits at least where a number is small. */
static const char *figure(char text[32], double value, bool is_signed)
{
	int digits = fabs(value) < 10 ? 3 : fabs(value) < 100 ? 2 : fabs(value) < 1000 ? 1 : 0;

	if (isfinite(value))
		snprintf(text, 32, is_signed ? "%+.*f" : "%.*f", digits, value);
	else
		snprintf(text, 32, "?");
	return text;
}

static const char *verdict(const struct compare_metric_info *info,
			   const struct difference *difference, char text[80])
{
	char size[32];

	switch (difference->verdict) {
	case DIFFERENCE_MORE:
		return info->is_bad ? "worse" : "more";
	case DIFFERENCE_LESS:
		return info->is_bad ? "better" : "less";
	case DIFFERENCE_SAME:
		return difference->difference ? "no sample differs from another: not judged"
					      : "the same";
	case DIFFERENCE_TOO_SHORT:
		return "too short to be judged";
	case DIFFERENCE_DRIFTS:
		return "drifts: not judged";
	case DIFFERENCE_NONE:
		break;
	}
	if (!isfinite(difference->detectable))
		return "no evidence";
	snprintf(text, 80, "no evidence; %s would show",
		 figure(size, difference->detectable * info->scale, false));
	return text;
}

static void print_figure(const struct compare_metric_info *info,
			 const struct difference *difference, FILE *out)
{
	char old[32], new[32], change[32], low[32], high[32], interval[80] = "", text[80];

	if (isfinite(difference->low))
		snprintf(interval, sizeof(interval), "%s to %s",
			 figure(low, difference->low * info->scale, true),
			 figure(high, difference->high * info->scale, true));
	fprintf(out, "%-24s %9s %9s %9s  %-20s %s\n", info->name,
		figure(old, difference->old * info->scale, false),
		figure(new, difference->new * info->scale, false),
		figure(change, difference->difference * info->scale, true), interval,
		verdict(info, difference, text));
}

static int print_figures(const struct report_compare *compare, FILE *out)
{
	fprintf(out, "%-24s %9s %9s %9s  %-20s\n", "", "OLD", "NEW", "CHANGE", "95 % INTERVAL");
	for (int metric = 0; metric < COMPARE_METRICS; metric++) {
		struct difference difference;
		bool is_there;
		int err = judge(compare, metric, &is_there, &difference);

		if (err)
			return err;
		if (is_there)
			print_figure(&compare_metrics[metric], &difference, out);
	}
	return 0;
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

		fprintf(out, "%9s %9s %9s  %s\n", isnan(old) ? "-" : figure(a, old, false),
			isnan(new) ? "-" : figure(b, new, false),
			figure(c, (isnan(new) ? 0 : new) - (isnan(old) ? 0 : old), true),
			text_clean(name, sizeof(name), rows[i].name));
	}
}

enum exit_code report_compare_end(struct report_compare *compare, FILE *out)
{
	const struct side *old = &compare->sides[0], *new = &compare->sides[1];
	int err;

	if (!compare->wanted)
		return EXIT_FINE;
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
	err = print_figures(compare, out);
	if (err) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	print_grown(compare->threads, compare, "threads that ran more, ms an hour", out);
	print_grown(compare->stacks, compare, "stacks that blocked more, ms an hour", out);
	return EXIT_FINE;
}
