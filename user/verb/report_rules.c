/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_write.h"
#include "sink/text.h"
#include "util/new_file.h"
#include "verb/fail_rule.h"

#define SAID_BYTES 1024

/* A rule and a run. */
struct result {
	char *file;
	const struct fail_rule *rule;
	enum fail_verdict verdict;
	char said[SAID_BYTES];
};

struct report_rules {
	struct fail_rule *rules;
	size_t rule_count;
	json_t **bases;
	size_t base_count;
	struct result *results;
	size_t result_count;
	const char *junit; /* NULL: not asked for */
	bool refused;      /* a rule names no single metric */
};

static void no_memory(void)
{
	fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
}

struct report_rules *report_rules_new(const struct options *options, enum exit_code *code)
{
	size_t count = options->fail_if.count;
	struct report_rules *rules = calloc(1, sizeof(*rules));
	bool by_base = false, compares = false;
	char why[512];

	*code = EXIT_INTERNAL;
	if (rules)
		rules->rules = calloc(count ? count : 1, sizeof(*rules->rules));
	if (!rules || !rules->rules) {
		no_memory();
		goto fail;
	}
	*code = EXIT_USAGE;
	rules->junit = options->junit;
	for (; rules->rule_count < count; rules->rule_count++) {
		struct fail_rule *rule = &rules->rules[rules->rule_count];

		if (fail_rule_parse(options->fail_if.items[rules->rule_count], rule, why,
				    sizeof(why))) {
			fprintf(stderr, "jankscope: error: --fail-if %s: %s\n",
				options->fail_if.items[rules->rule_count], why);
			goto fail;
		}
		by_base |= rule->by_base;
		compares |= rule->compares;
	}
	if (compares && !options->baselines.count)
		fprintf(stderr, "jankscope: error: --fail-if: compare needs --baseline FILE\n");
	else if (by_base && !options->baselines.count)
		fprintf(stderr, "jankscope: error: --fail-if: base needs --baseline FILE\n");
	else if (options->baselines.count && count && !by_base && !compares)
		fprintf(stderr, "jankscope: error: --baseline: no rule of --fail-if names base or "
				"compare\n");
	else if (rules->junit && !count)
		fprintf(stderr, "jankscope: error: --junit: needs --fail-if RULE\n");
	else
		*code = EXIT_FINE;
	if (!*code)
		return rules;
fail:
	report_rules_free(rules);
	return NULL;
}

void report_rules_free(struct report_rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->base_count; i++)
		json_decref(rules->bases[i]);
	for (size_t i = 0; i < rules->result_count; i++)
		free(rules->results[i].file);
	free(rules->bases);
	free(rules->results);
	free(rules->rules);
	free(rules);
}

bool report_rules_any(const struct report_rules *rules)
{
	return rules->rule_count;
}

/* ---- runs ---- */

/* As the footer stands in a file. */
static json_t *summary_of(const struct record *footer)
{
	size_t length;
	char *line = record_to_line(footer, &length);
	json_t *whole = line ? json_loadb(line, length, 0, NULL) : NULL, *summary;

	/* A sum may be beyond the integers of jansson. */
	if (line && !whole)
		whole = json_loadb(line, length, JSON_DECODE_INT_AS_REAL, NULL);
	summary = json_incref(json_object_get(whole, "summary"));
	json_decref(whole);
	free(line);
	return summary;
}

/* The run may say itself why it has no such value. */
static void add_reason(struct result *result, const struct record *footer)
{
	const struct missing_list *missing = &footer->footer->missing;

	for (size_t i = 0; i < missing->count; i++) {
		const char *key = missing->items[i].key;
		size_t length = strlen(key), used = strlen(result->said);
		const char *at = strstr(result->said, key);

		if (at == result->said && (at[length] == '.' || at[length] == ' ')) {
			snprintf(result->said + used, sizeof(result->said) - used, ": %s",
				 missing->items[i].reason);
			return;
		}
	}
}

/* footer NULL: it is of a comparison. */
static int judge(struct report_rules *rules, const struct fail_rule *rule, const char *file,
		 const json_t *summary, const struct record *footer)
{
	struct result *more = realloc(rules->results, (rules->result_count + 1) * sizeof(*more)),
		      *result;
	int err;

	if (!more)
		return -ENOMEM;
	rules->results = more;
	result = &more[rules->result_count];
	*result = (struct result){.file = strdup(file), .rule = rule};
	if (!result->file)
		return -ENOMEM;
	rules->result_count++;
	err = fail_rule_judge(rule, summary, rules->bases, rules->base_count, &result->verdict,
			      result->said, sizeof(result->said));
	if (err == -EINVAL) {
		rules->refused = true;
		result->verdict = FAIL_UNKNOWN;
		return 0;
	}
	if (!err && footer && result->verdict == FAIL_UNKNOWN)
		add_reason(result, footer);
	return err;
}

int report_rules_take(struct report_rules *rules, const char *file, const struct record *footer,
		      bool is_base)
{
	json_t *summary, **more;
	int err = 0;

	if (!rules->rule_count)
		return 0;
	summary = summary_of(footer);
	if (!summary)
		return -ENOMEM;
	if (is_base) {
		more = realloc(rules->bases, (rules->base_count + 1) * sizeof(json_t *));
		if (!more) {
			json_decref(summary);
			return -ENOMEM;
		}
		rules->bases = more;
		more[rules->base_count++] = summary;
		return 0;
	}
	for (size_t i = 0; i < rules->rule_count && !err; i++)
		if (!rules->rules[i].compares)
			err = judge(rules, &rules->rules[i], file, summary, footer);
	json_decref(summary);
	return err;
}

bool report_rules_compare(const struct report_rules *rules)
{
	for (size_t i = 0; i < rules->rule_count; i++)
		if (rules->rules[i].compares)
			return true;
	return false;
}

/* The first metric that is not there is what the verdict is unknown for. */
static void say_reason(struct result *result, const struct report_compare *compare,
		       const json_t *figures)
{
	for (size_t i = 0; i < result->rule->count; i++) {
		const char *metric = result->rule->terms[i].metric;
		struct fail_values values;
		char why[128];

		if (fail_values_of(figures, metric, &values, why, sizeof(why)))
			continue;
		if (!values.count) {
			snprintf(result->said, sizeof(result->said), "%s: %s", metric,
				 report_compare_reason(compare, metric));
			return;
		}
		fail_values_free(&values);
	}
}

int report_rules_judge_compare(struct report_rules *rules, struct report_compare *compare,
			       const struct options *options)
{
	char files[4096];
	json_t *figures;
	int err = 0;

	if (!report_rules_compare(rules))
		return 0;
	figures = report_compare_figures(compare);
	if (!figures)
		return -ENOMEM;
	snprintf(files, sizeof(files),
		 options->argument_count > 1 ? "%.3900s and %d more" : "%.3900s",
		 options->arguments[0], options->argument_count - 1);
	for (size_t i = 0; i < rules->rule_count && !err; i++) {
		if (!rules->rules[i].compares)
			continue;
		err = judge(rules, &rules->rules[i], files, figures, NULL);
		if (!err && rules->results[rules->result_count - 1].verdict == FAIL_UNKNOWN)
			say_reason(&rules->results[rules->result_count - 1], compare, figures);
	}
	json_decref(figures);
	return err;
}

/* ---- what is told ---- */

/* Names of files and apps may hold anything; XML 1.0 has no control characters at all. */
static void put_xml(FILE *out, const char *text)
{
	char clean[4096];

	for (const char *c = text_clean(clean, sizeof(clean), text); *c; c++)
		switch (*c) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*c, out);
		}
}

static void put_case(FILE *out, const struct result *result)
{
	static const char *const elements[] = {[FAIL_TRUE] = "failure", [FAIL_UNKNOWN] = "error"};

	fputs("  <testcase classname=\"", out);
	put_xml(out, result->file);
	fputs("\" name=\"", out);
	put_xml(out, result->rule->text);
	if (result->verdict == FAIL_FALSE) {
		fputs("\"/>\n", out);
		return;
	}
	fprintf(out, "\">\n    <%s message=\"", elements[result->verdict]);
	put_xml(out, result->said);
	fputs("\"/>\n  </testcase>\n", out);
}

static void put_junit(FILE *out, const struct report_rules *rules)
{
	size_t failures = 0, errors = 0;

	for (size_t i = 0; i < rules->result_count; i++) {
		failures += rules->results[i].verdict == FAIL_TRUE;
		errors += rules->results[i].verdict == FAIL_UNKNOWN;
	}
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuites>\n <testsuite name=\"jankscope\" tests=\"%zu\" failures=\"%zu\" "
		"errors=\"%zu\">\n",
		rules->result_count, failures, errors);
	for (size_t i = 0; i < rules->result_count; i++)
		put_case(out, &rules->results[i]);
	fputs(" </testsuite>\n</testsuites>\n", out);
}

/* 0 or -errno. */
static int write_junit(const struct report_rules *rules)
{
	struct new_file file;
	int err = new_file_open(&file, rules->junit);

	if (err)
		return err;
	put_junit(file.stream, rules);
	return new_file_end(&file, 0);
}

enum exit_code report_rules_end(struct report_rules *rules)
{
	enum exit_code code = EXIT_FINE;
	int err;

	for (size_t i = 0; i < rules->result_count; i++) {
		const struct result *result = &rules->results[i];
		char file[4096];

		text_clean(file, sizeof(file), result->file);
		if (result->verdict == FAIL_TRUE) {
			fprintf(stderr, "jankscope: fail: %s: %s\n", file, result->said);
			code = EXIT_RULE;
		} else if (result->verdict == FAIL_UNKNOWN) {
			fprintf(stderr, "jankscope: error: %s: --fail-if %s: %s\n", file,
				result->rule->text, result->said);
			code = code ?: EXIT_INCOMPLETE;
		}
	}
	if (rules->rule_count && !rules->result_count) {
		fprintf(stderr, "jankscope: error: --fail-if: there is no run to judge\n");
		code = EXIT_INCOMPLETE;
	}
	if (rules->refused && code != EXIT_RULE)
		code = EXIT_USAGE;
	err = rules->junit ? write_junit(rules) : 0;
	if (err && err != -EPIPE) {
		fprintf(stderr, "jankscope: error: --junit %s: %s\n", rules->junit, strerror(-err));
		code = code == EXIT_RULE ? code : EXIT_INTERNAL;
	}
	return code;
}
