/* SPDX-License-Identifier: BSD-2-Clause */
/* The line of text that tells of a late frame, and the closing one of a run. Pure. */
#pragma once
#include <stddef.h>

#include "jankscope/record.h"

/* What the frame was late by and why, from "+11.4 ms" on, without a newline: "+11.4 ms  app   main
 * ran 12.9 of 16.6 ms: ...". Names stand in it as they are: whoever shows it on a terminal cleans
 * it (sink/text.h). At most size - 1 bytes; returns to. */
const char *why_line(const struct record_jank *jank, char *to, size_t size);

struct why_totals {
	uint64_t frames, late_ns;
	struct why_total {
		uint64_t frames, late_ns;
	} causes[JANK_CAUSES];
};

void why_totals_add(struct why_totals *totals, const struct record_jank *jank);
/* "why late: 61 frames, 702 ms   CPU-bound main 31 (348 ms)  no CPU 12 (131) ...": causes by time.
 * At most size - 1 bytes, without a newline; returns to. */
const char *why_totals_line(const struct why_totals *totals, char *to, size_t size);
/* A cause in words of a line, like "no CPU". */
const char *why_cause_words(enum jank_cause cause);
