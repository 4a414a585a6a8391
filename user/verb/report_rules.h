/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of report --fail-if, judged by the summary of each run that is read: what a farm's job
 * ends with. */
#pragma once
#include "verb/report_compare.h"
#include "verb/verb.h"

struct report_rules;

/* Parse what the flags ask for. NULL with *code after a line on stderr. */
struct report_rules *report_rules_new(const struct options *options, enum exit_code *code);
void report_rules_free(struct report_rules *rules);
/* Whether there are any. */
bool report_rules_any(const struct report_rules *rules);
/* Whether one is about a comparison with --baseline. */
bool report_rules_compare(const struct report_rules *rules);
/* After the last recording: judge those that are, by what report_compare_figures() gives, in the
 * name of these files. 0, -ENOMEM. */
int report_rules_judge_compare(struct report_rules *rules, struct report_compare *compare,
			       const struct options *options);
/* The footer of a run of this file. is_base: one that `base` means, to come before all others. 0,
 * -ENOMEM. */
int report_rules_take(struct report_rules *rules, const char *file, const struct record *footer,
		      bool is_base);
/* Say on stderr which rules are true, or cannot be judged; write --junit. EXIT_RULE: one is true;
 * EXIT_INCOMPLETE: one cannot be judged; EXIT_USAGE: one names no single metric. */
enum exit_code report_rules_end(struct report_rules *rules);
