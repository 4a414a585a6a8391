/* SPDX-License-Identifier: BSD-2-Clause */
/* report NEW... --baseline OLD...: which figures differ by more than chance, and who grew. */
#pragma once
#include <stdio.h>

#include "verb/verb.h"

struct report_compare;

/* NULL with *code after a line on stderr. */
struct report_compare *report_compare_new(const struct options *options, enum exit_code *code);
void report_compare_free(struct report_compare *compare);
/* Whether it was asked for: a baseline, and no rule that it is for. */
bool report_compare_any(const struct report_compare *compare);
/* A recording begins; is_base: an old one. 0, -ENOMEM. */
int report_compare_begin(struct report_compare *compare, bool is_base);
/* A record of it. 0, -ENOMEM. */
int report_compare_take(struct report_compare *compare, const struct record *record);
/* The footer of a run of it. 0, -ENOMEM. */
int report_compare_footer(struct report_compare *compare, const struct record *footer);
/* Print what they say. An error is said on stderr. */
enum exit_code report_compare_end(struct report_compare *compare, FILE *out);
