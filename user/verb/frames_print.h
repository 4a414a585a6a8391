/* SPDX-License-Identifier: BSD-2-Clause */
/* How `jankscope frames` shows what it found: a table, one JSON object, or the rows alone. */
#pragma once
#include "frames/analysis.h"
#include "frames/late_why.h"
#include <stdio.h>

struct frames_report {
	const char *trace; /* its path */
	const char *error; /* NULL: whole */
	struct analysis *analysis;
	int64_t first_ns;     /* when the trace begins */
	struct late_why *why; /* NULL: nobody asks why */
};

/* One row: as an element of the JSON array, or as tab-separated text. */
void frames_print_row_json(FILE *out, const struct analysis *analysis,
			   const struct timeline_row *row);
void frames_print_row_header(FILE *out);
void frames_print_row_text(FILE *out, const struct analysis *analysis,
			   const struct timeline_row *row);

/* The members of the JSON object behind the optional "frames": from "trace" to "timeline". Uses
 * up the frames of the layers. 0 or -ENOMEM. */
int frames_print_json(FILE *out, const struct frames_report *report);
int frames_print_table(FILE *out, const struct frames_report *report);
/* Columns of the terminal, at least 80; elsewhere 80. */
int frames_print_width(FILE *out);
/* A line for each late frame, and one for all. 0 or -ENOMEM. */
int frames_print_why(FILE *out, const struct frames_report *report);
/* The member "janks" of the JSON object, with a comma before it; what of it was lost is in the
 * losses of the analysis from then on. 0 or -ENOMEM. */
int frames_print_janks(FILE *out, const struct frames_report *report);
