/* SPDX-License-Identifier: BSD-2-Clause */
/* Families of OpenMetrics text and their samples, as the sink of a footer and the one of a live run
 * (endpoint/live_metrics.c) write them: names, units, escapes, and the limit of series. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "jankscope/record.h"

#define METRICS_NAME_BYTES  160
#define METRICS_LABEL_BYTES 256 /* of a label's value, before its escapes */

/* What is being written. Begins with .out and .series (those of target_info). */
struct metrics_page {
	FILE *out;
	size_t series;
	char (*families)[METRICS_NAME_BYTES]; /* that are written; a name is there once */
	size_t family_count, family_room;
	bool failed;
};

/* A sample of a family of rows: what names it, and its values. */
struct metrics_row {
	const char *labels[4]; /* of the family's keys; NULL: this row has none */
	double values[3];
	bool present[3];
};

/* A kind of rows, one family with up to three samples a row. */
struct metrics_kind {
	const char *keys[4]; /* labels, ends in NULL */
	const char *by;      /* the label that tells the samples of a row apart; NULL: it has one */
	const char *values[3];
	size_t value_count;
};

/* The value of a label as it is shown, before its escapes. Returns to. */
char *metrics_clean(char to[METRICS_LABEL_BYTES], const char *value);
/* target_info of a header: the device, and the run. */
void metrics_put_target(FILE *out, const struct record_header *header);
/* Totals of a footer under their key paths, a counter where one is a sum over the run; late frames
 * by cause, as families with a label; distributions. */
void metrics_put_summary(struct metrics_page *page, const struct record_footer *footer);
/* Write rows, of which no two have the same labels, as one family; where the page has no room for
 * all of them it gets none. unit_name NULL: it has none. */
void metrics_put_family(struct metrics_page *page, const char *name, const char *type,
			const char *unit_name, const char *help, const struct metrics_kind *kind,
			const struct metrics_row *rows, size_t count);
