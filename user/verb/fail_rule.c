/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/fail_rule.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/rule_text.h"
#include "util/units.h"
#include "verb/report_compare.h"

_Static_assert(RULE_WORD <= FAIL_METRIC, "a word is copied where a metric has room");

static const char *const statistics[] = {"n", "min", "max", "mean", "p50", "p90", "p95", "p99"};

static int __attribute__((format(printf, 3, 4)))
refuse(char *why, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, size, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* ---- text ---- */

/* The key that says the unit: "frames.late_ns.p99" is of late_ns. */
static bool has_unit(const char *metric, const char *unit)
{
	char copy[FAIL_METRIC], *last;
	size_t length;

	snprintf(copy, sizeof(copy), "%s", metric);
	last = strrchr(copy, '.');
	for (size_t i = 0; last && i < sizeof(statistics) / sizeof(*statistics); i++)
		if (!strcmp(last + 1, statistics[i])) {
			*last = 0;
			break;
		}
	length = strlen(copy);
	/* "pss_slope_bytes_per_h" is bytes, too. */
	return strstr(copy, "_bytes_per_")
		       ? !strcmp(unit, "_bytes")
		       : length > strlen(unit) && !strcmp(copy + length - strlen(unit), unit);
}

static bool parse_number(const char *metric, const char *text, double *value)
{
	char copy[FAIL_METRIC];
	bool negative = text[0] == '-';
	uint64_t number = 0;
	size_t length;
	bool good;

	snprintf(copy, sizeof(copy), "%s", text + negative);
	length = strlen(copy);
	if (length && copy[length - 1] == '%' && has_unit(metric, "_pct"))
		copy[length - 1] = 0;
	good = copy[0] != '-' && rule_number(copy, value);
	if (!good && has_unit(metric, "_ns"))
		good = !parse_duration(copy, &number);
	else if (!good && has_unit(metric, "_bytes"))
		good = !parse_size(copy, &number);
	else
		number = 0;
	if (good && number)
		*value = (double)number;
	if (negative)
		*value = -*value;
	return good;
}

static int parse_value(struct rule_words *p, struct fail_term *term, char *why, size_t size)
{
	struct rule_words before;

	if (!rule_next(p))
		return refuse(why, size, "a value is missing behind %.60s", term->metric);
	if (!strcmp(p->word, "base")) {
		term->by_base = '+';
		before = *p;
		if (!rule_next(p) || strlen(p->word) != 1 || !strchr("+-*", p->word[0])) {
			*p = before;
			return 0;
		}
		term->by_base = p->word[0];
		if (!rule_next(p))
			return refuse(why, size, "a number is missing behind base %c",
				      term->by_base);
	}
	/* A factor has no unit. */
	if (term->by_base == '*' ? p->word[0] != '-' && rule_number(p->word, &term->number)
				 : parse_number(term->metric, p->word, &term->number))
		return 0;
	return refuse(why, size,
		      "%.40s: %.60s needs a number in its unit (5, 12.5%%, 500ms, 20M), or base, "
		      "base + NUMBER, base * NUMBER",
		      p->word, term->metric);
}

static int parse_term(struct rule_words *p, struct fail_term *term, char *why, size_t size)
{
	*term = (struct fail_term){0};
	if (!rule_next(p) || rule_word_compares(p->word))
		return refuse(
			why, size,
			"METRIC OP VALUE is needed, like frames.jank_pct > 1 and blocks.count "
			"> 0");
	strcpy(term->metric, p->word);
	if (!rule_next(p))
		return refuse(why, size,
			      "a comparison is missing behind %.60s: >, >=, < or <=", term->metric);
	if (!comparison_parse(p->word, &term->op))
		return refuse(why, size, "%.40s is no comparison: >, >=, < or <=", p->word);
	return parse_value(p, term, why, size);
}

/* A comparison is of all runs, and a summary is of one. */
static int check_compares(struct fail_rule *rule, char *why, size_t size)
{
	char names[440];
	size_t count = 0;

	for (size_t i = 0; i < rule->count; i++) {
		const char *metric = rule->terms[i].metric;

		if (strncmp(metric, COMPARE_PREFIX, strlen(COMPARE_PREFIX)))
			continue;
		count++;
		if (!report_compare_has(metric))
			return refuse(why, size, "%.60s: %s", metric,
				      report_compare_names(names, sizeof(names)));
		if (rule->terms[i].by_base)
			return refuse(why, size, "%.60s is against the baseline already", metric);
	}
	if (count && count < rule->count)
		return refuse(why, size,
			      "compare is of all runs together: give what is of one run a rule of "
			      "its own");
	rule->compares = count;
	return 0;
}

int fail_rule_parse(const char *text, struct fail_rule *rule, char *why, size_t size)
{
	struct rule_words p = {.rest = text};
	int err;

	*rule = (struct fail_rule){0};
	if (strlen(text) >= sizeof(rule->text))
		return refuse(why, size, "a rule has at most %zu bytes", sizeof(rule->text) - 1);
	if (!rule_is_ascii(text))
		return refuse(why, size, "only ASCII");
	strcpy(rule->text, text + strspn(text, " \t"));
	for (;;) {
		if (rule->count == FAIL_TERMS)
			return refuse(why, size, "a rule has at most %d parts", FAIL_TERMS);
		err = parse_term(&p, &rule->terms[rule->count], why, size);
		if (err)
			return err;
		rule->by_base |= rule->terms[rule->count++].by_base != 0;
		if (!rule_next(&p))
			break;
		if (strcmp(p.word, "and"))
			return refuse(why, size, "%.40s: parts of a rule are joined by \"and\"",
				      p.word);
	}
	return rule_ended(&p) ? check_compares(rule, why, size)
			      : refuse(why, size, "a word is too long");
}

/* ---- verdicts ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The values of all bases. */
struct bases {
	struct fail_values *of; /* one each */
	size_t count;
};

static void free_bases(struct bases *bases)
{
	for (size_t i = 0; bases->of && i < bases->count; i++)
		fail_values_free(&bases->of[i]);
	free(bases->of);
}

static int read_bases(const struct fail_term *term, json_t *const *summaries, size_t count,
		      struct bases *bases, char *why, size_t size)
{
	int err = 0;

	*bases = (struct bases){calloc(count ? count : 1, sizeof(*bases->of)), count};
	if (!bases->of)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++)
		err = fail_values_of(summaries[i], term->metric, &bases->of[i], why, size);
	if (err)
		free_bases(bases);
	return err;
}

/* The median over all rows of that subject. 0; -ENOENT: there is none; -ENOMEM. */
static int base_of(const struct bases *bases, const char *subject, double *base)
{
	size_t room = 0, count = 0;
	double *all;

	for (size_t i = 0; i < bases->count; i++)
		room += bases->of[i].count;
	all = calloc(room ? room : 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < bases->count; i++)
		for (size_t k = 0; k < bases->of[i].count; k++)
			if (!strcmp(bases->of[i].items[k].subject, subject))
				all[count++] = bases->of[i].items[k].value;
	qsort(all, count, sizeof(*all), compare);
	if (count)
		*base = (all[(count - 1) / 2] + all[count / 2]) / 2;
	free(all);
	return count ? 0 : -ENOENT;
}

/* Whole numbers with all of their digits. */
static const char *number_text(char text[40], double value)
{
	if (fabs(value) < 9e15 && value == floor(value))
		snprintf(text, 40, "%.0f", value);
	else
		snprintf(text, 40, "%.6g", value);
	return text;
}

static const char *limit_text(char text[160], const struct fail_term *term, double base,
			      double limit)
{
	char a[40], b[40], c[40];

	if (!term->by_base)
		snprintf(text, 160, "%s", number_text(a, limit));
	else if (term->by_base == '+' && !term->number)
		snprintf(text, 160, "%s (base)", number_text(a, limit));
	else
		snprintf(text, 160, "%s (base %s %c %s)", number_text(a, limit),
			 number_text(b, base), term->by_base, number_text(c, term->number));
	return text;
}

static double limit_of(const struct fail_term *term, double base)
{
	switch (term->by_base) {
	case '+':
		return base + term->number;
	case '-':
		return base - term->number;
	case '*':
		return base * term->number;
	}
	return term->number;
}

static int judge_row(const struct fail_term *term, const struct fail_value *row,
		     const struct bases *bases, enum fail_verdict *verdict, char *text, size_t size)
{
	double base = 0, limit;
	char value[40], against[160];
	int err = term->by_base ? base_of(bases, row->subject, &base) : 0;

	if (err == -ENOENT) {
		*verdict = FAIL_UNKNOWN;
		snprintf(text, size, "%s%s%s is not in the baseline", row->path,
			 *row->subject ? " of " : "", row->subject);
		return 0;
	}
	if (err)
		return err;
	limit = limit_of(term, base);
	*verdict = comparison_holds(term->op, row->value, limit) ? FAIL_TRUE : FAIL_FALSE;
	snprintf(text, size, "%s%s%s is %s, %s%s %s", row->path, *row->subject ? " of " : "",
		 row->subject, number_text(value, row->value), *verdict == FAIL_TRUE ? "" : "not ",
		 comparison_text(term->op), limit_text(against, term, base, limit));
	return 0;
}

/* Of several rows the first that meets it, or one that is not known, or the first. */
static int judge_term(const struct fail_term *term, const json_t *summary, json_t *const *summaries,
		      size_t base_count, enum fail_verdict *verdict, char *text, size_t size)
{
	struct fail_values values;
	struct bases bases = {0};
	int err = fail_values_of(summary, term->metric, &values, text, size);

	if (err)
		return err;
	err = term->by_base ? read_bases(term, summaries, base_count, &bases, text, size) : 0;
	*verdict = FAIL_UNKNOWN;
	if (!values.count)
		snprintf(text, size, "%s is not in the summary", term->metric);
	for (size_t i = 0; i < values.count && !err; i++) {
		enum fail_verdict one;
		char said[FAIL_TEXT * 2];

		err = judge_row(term, &values.items[i], &bases, &one, said, sizeof(said));
		if (err || (i && (one == FAIL_FALSE || *verdict != FAIL_FALSE) && one != FAIL_TRUE))
			continue;
		*verdict = one;
		snprintf(text, size, "%s", said);
		if (one == FAIL_TRUE)
			break;
	}
	if (term->by_base)
		free_bases(&bases);
	fail_values_free(&values);
	return err;
}

int fail_rule_judge(const struct fail_rule *rule, const json_t *summary, json_t *const *bases,
		    size_t base_count, enum fail_verdict *verdict, char *text, size_t size)
{
	size_t length = 0;

	*verdict = FAIL_TRUE;
	*text = 0;
	for (size_t i = 0; i < rule->count; i++) {
		char said[FAIL_TEXT * 2];
		enum fail_verdict one;
		int err = judge_term(&rule->terms[i], summary, bases, base_count, &one, said,
				     sizeof(said));

		if (err) {
			snprintf(text, size, "%s", said);
			return err;
		}
		/* One that is false decides, whatever the others are. */
		if (one == FAIL_FALSE || (one == FAIL_UNKNOWN && *verdict == FAIL_TRUE)) {
			*verdict = one;
			length = (size_t)snprintf(text, size, "%s", said);
			if (one == FAIL_FALSE)
				return 0;
		} else if (*verdict == FAIL_TRUE && length < size) {
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? " and " : "", said);
		}
	}
	return 0;
}
