/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "compare/family.h"

/* Runs that have the figure, each a sample. */
static size_t samples_of(const struct compare_side *side, enum compare_metric metric,
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
static int join(const struct compare_side *side, enum compare_metric metric, struct series *whole)
{
	int err = 0;

	for (size_t i = 0; i < side->count && !err; i++) {
		const struct series *series = &side->runs[i].series[metric];

		for (size_t k = 0; k < series->count && !err; k++)
			err = series_add(whole, series->cells[k].over, series->cells[k].under);
	}
	return err;
}

static int difference_of_joined(const struct compare_side *old, const struct compare_side *new,
				enum compare_metric metric, struct difference *difference)
{
	struct series joined[2] = {0};
	int err = join(old, metric, &joined[0]);

	if (!err)
		err = join(new, metric, &joined[1]);
	if (!err)
		err = difference_of_series(&joined[0], &joined[1], difference);
	series_free(&joined[0]);
	series_free(&joined[1]);
	return err;
}

static bool has_any(const struct compare_side *side, enum compare_metric metric)
{
	for (size_t i = 0; i < side->count; i++)
		if (series_quotient(&side->runs[i].series[metric]) > 0)
			return true;
	return false;
}

static const char *unjudged(const struct compare_figure *figure, enum compare_metric metric,
			    const struct alike *alike)
{
	bool is_of_blocks = metric == COMPARE_BLOCKS || metric == COMPARE_BLOCKED;

	if (!figure->runs[0] && !figure->runs[1])
		return "no run has it";
	if (!figure->runs[0] || !figure->runs[1])
		return figure->runs[0] ? "only OLD has it: not judged"
				       : "only NEW has it: not judged";
	if (is_of_blocks && *alike->of[ALIKE_BLOCK].other)
		return "of other lengths: not judged";
	switch (figure->difference.verdict) {
	case DIFFERENCE_TOO_SHORT:
		return "too short to be judged";
	case DIFFERENCE_DRIFTS:
		return "drifts: not judged";
	case DIFFERENCE_SAME:
		return figure->difference.difference ? "no sample differs from another: not judged"
						     : NULL;
	default:
		return NULL;
	}
}

static int judge(const struct compare_side *old, const struct compare_side *new,
		 enum compare_metric metric, struct compare_figure *figure)
{
	struct series_cell *samples = calloc(old->count + new->count + 1, sizeof(*samples));
	int err = 0;

	*figure = (struct compare_figure){0};
	if (!samples)
		return -ENOMEM;
	figure->runs[0] = samples_of(old, metric, samples);
	figure->runs[1] = samples_of(new, metric, samples + figure->runs[0]);
	if (figure->runs[0] >= DIFFERENCE_LEAST && figure->runs[1] >= DIFFERENCE_LEAST) {
		const struct difference_side a = {samples, figure->runs[0]},
					     b = {samples + figure->runs[0], figure->runs[1]};

		err = difference_of_samples(&a, &b, &figure->difference);
	} else if (figure->runs[0] && figure->runs[1]) {
		err = difference_of_joined(old, new, metric, &figure->difference);
	}
	free(samples);
	/* No frame of either side was late by this cause: there is nothing to be compared. */
	if (metric >= COMPARE_LATE_CAUSE && metric <= COMPARE_LATE_LAST && !has_any(old, metric) &&
	    !has_any(new, metric))
		*figure = (struct compare_figure){0};
	return err;
}

int compare_figures(const struct compare_side *old, const struct compare_side *new,
		    const struct alike *alike, struct compare_figure figures[COMPARE_METRICS])
{
	double chances[COMPARE_METRICS];
	bool differ[COMPARE_METRICS];
	int err = 0;

	for (int metric = 0; metric < COMPARE_METRICS && !err; metric++) {
		struct compare_figure *figure = &figures[metric];

		err = judge(old, new, metric, figure);
		figure->unjudged = unjudged(figure, metric, alike);
		chances[metric] = figure->unjudged || !compare_metrics[metric].is_bad
					  ? NAN
					  : figure->difference.chance;
	}
	if (err)
		return err;
	family_judge(chances, COMPARE_METRICS, differ);
	for (int metric = 0; metric < COMPARE_METRICS; metric++)
		figures[metric].differs = differ[metric];
	return 0;
}
