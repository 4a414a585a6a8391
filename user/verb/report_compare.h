/* SPDX-License-Identifier: BSD-2-Clause */
/* report NEW... --baseline OLD...: which figures differ by more than chance, and who grew. */
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "verb/verb.h"

struct report_compare;

/* What a rule of --fail-if about a comparison begins with. */
#define COMPARE_PREFIX "compare."

/* for_rules: a rule asks for it. NULL with *code after a line on stderr. */
struct report_compare *report_compare_new(const struct options *options, bool for_rules,
					  enum exit_code *code);
void report_compare_free(struct report_compare *compare);
/* Whether it was asked for: a baseline, and no rules but such as ask for it. */
bool report_compare_any(const struct report_compare *compare);
/* A recording begins; is_base: an old one. 0, -ENOMEM. */
int report_compare_begin(struct report_compare *compare, bool is_base);
/* A record of it. 0, -ENOMEM. */
int report_compare_take(struct report_compare *compare, const struct record *record);
/* The footer of a run of it. 0, -ENOMEM. */
int report_compare_footer(struct report_compare *compare, const struct record *footer);
/* Whether a comparison can have a figure of this name, which begins with the prefix: the counts
 * compare.worse, .better (beyond chance among all figures that can be worse), .judged, .unjudged,
 * and compare.KEY.old, .new, .change, .low, .high of one figure, in the unit of its key. */
bool report_compare_has(const char *metric);
/* What names there are, in words. */
const char *report_compare_names(char *text, size_t size);
/* After the last recording: these figures, as an object for fail_rule_judge(); what is not known is
 * not in it. The caller lets go of it. NULL: no memory. */
json_t *report_compare_figures(struct report_compare *compare);
/* Why that object does not have a figure. */
const char *report_compare_reason(const struct report_compare *compare, const char *metric);
/* After the last recording: judge the figures, once. 0, -ENOMEM. */
int report_compare_judge(struct report_compare *compare);
/* Print what they say. An error is said on stderr. */
enum exit_code report_compare_end(struct report_compare *compare, FILE *out);
