/* SPDX-License-Identifier: BSD-2-Clause */
/* A rule of report --fail-if: "METRIC OP VALUE [and ...]", judged by the summary of a run. METRIC
 * is a key path of the summary, VALUE a number with a unit, or "base", "base + 1", "base * 1.1":
 * the same metric of other runs. METRIC may also be what a comparison of the runs says
 * ("compare.worse > 0", report_compare.h). Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/rule_text.h"

#define FAIL_TERMS   8
#define FAIL_TEXT    256
#define FAIL_METRIC  160
#define FAIL_SUBJECT 96

struct fail_term {
	char metric[FAIL_METRIC];
	enum comparison op;
	char by_base; /* 0: the number alone; else what stands between "base" and it: + - * */
	double number;
};

struct fail_rule {
	char text[FAIL_TEXT]; /* as it was given */
	struct fail_term terms[FAIL_TERMS];
	size_t count;
	bool by_base;  /* one of the terms is */
	bool compares; /* all of its metrics are of a comparison, and not of a run */
};

/* 0, or -EINVAL with what is wrong in why. */
int fail_rule_parse(const char *text, struct fail_rule *rule, char *why, size_t size);

/* A value of a metric. Rows of a list on its way have one each. */
struct fail_value {
	double value;
	char subject[FAIL_SUBJECT]; /* whose: a package, process or thread; empty: the run's */
	char path[FAIL_METRIC];     /* with the keys of lists that the metric left out */
};

struct fail_values {
	struct fail_value *items;
	size_t count;
};

/* All values that a summary has of a metric: 0 with none where it is not in it. -ENOMEM; -EINVAL
 * with a sentence in why: it is no number, or two lists have such a key. */
int fail_values_of(const json_t *summary, const char *metric, struct fail_values *values, char *why,
		   size_t size);
void fail_values_free(struct fail_values *values);

enum fail_verdict {
	FAIL_FALSE,
	FAIL_TRUE,
	FAIL_UNKNOWN, /* a value is not there: nobody can say */
};

/* Whether the rule is true of a run, given the summaries of the runs that `base` means; of several
 * values of a base the median counts. text says why: "frames.jank_pct is 5.2, above 2.9 (base 1.9 +
 * 1)". Where a metric has several rows, one that meets the term is enough. -ENOMEM; -EINVAL as
 * above. */
int fail_rule_judge(const struct fail_rule *rule, const json_t *summary, json_t *const *bases,
		    size_t base_count, enum fail_verdict *verdict, char *text, size_t size);
