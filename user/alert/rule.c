/* SPDX-License-Identifier: BSD-2-Clause */
#include "alert/rule.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/units.h"

struct parsing {
	const char *rest;
	char word[METRIC_PATH];
	char *why;
	size_t size;
};

static int __attribute__((format(printf, 2, 3))) refuse(struct parsing *p, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(p->why, p->size, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* The next word, or operator, which needs no blanks around it. False: there is none. */
static bool next(struct parsing *p)
{
	size_t n;

	p->rest += strspn(p->rest, " \t");
	n = strspn(p->rest, "<>=!");
	if (!n)
		n = strcspn(p->rest, " \t<>=!");
	if (!n || n >= sizeof(p->word))
		return false;
	memcpy(p->word, p->rest, n);
	p->word[n] = 0;
	p->rest += n;
	return true;
}

static int parse_op(struct parsing *p, enum alert_op *op)
{
	static const char *const words[] = {
		[ALERT_ABOVE] = ">",
		[ALERT_AT_LEAST] = ">=",
		[ALERT_BELOW] = "<",
		[ALERT_AT_MOST] = "<=",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		*op = (enum alert_op)i;
		if (!strcmp(p->word, words[i]))
			return 0;
	}
	return refuse(p, "%.40s is no comparison: >, >=, < or <=", p->word);
}

static bool parse_plain(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	/* strtod alone would take "inf", "nan" and "0x10". */
	return text[0] && !text[strspn(text, "0123456789.-")] && !*end && isfinite(*value);
}

static bool cut_suffix(char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	if (length <= tail || strcmp(text + length - tail, suffix))
		return false;
	text[length - tail] = 0;
	return true;
}

static int parse_value(struct parsing *p, const struct metric *metric, enum alert_scale *scale,
		       double *value)
{
	char text[METRIC_PATH];
	bool of_interval = metric->type == RECORD_INTERVAL, good;
	const char *key = metric->leaf->key, *need;
	uint64_t number = 0;

	strcpy(text, p->word);
	*scale = ALERT_AS_IT_IS;
	switch ((enum field_unit)metric->leaf->unit) {
	case UNIT_NS:
		if (of_interval && cut_suffix(text, "%")) {
			*scale = ALERT_PERCENT;
			good = parse_plain(text, value);
		} else {
			good = !parse_duration(text, &number);
			*value = (double)number;
		}
		need = of_interval ? "a time with its unit, like 500ms, or a share of the "
				     "interval, like 80%"
				   : "a time with its unit, like 500ms";
		break;
	case UNIT_BYTES:
		if (of_interval && cut_suffix(text, "/s"))
			*scale = ALERT_PER_SECOND;
		good = !parse_size(text, &number);
		*value = (double)number;
		need = of_interval ? "a size with its unit, like 500M, or a rate, like 1M/s"
				   : "a size with its unit, like 500M";
		break;
	case UNIT_COUNT:
		if (of_interval && cut_suffix(text, "/s"))
			*scale = ALERT_PER_SECOND;
		good = parse_plain(text, value);
		need = "a number, or a rate, like 100/s";
		break;
	default:
		if (strlen(key) > 4 && !strcmp(key + strlen(key) - 4, "_pct"))
			cut_suffix(text, "%");
		good = parse_plain(text, value);
		need = "a number in the metric's unit";
	}
	return good ? 0 : refuse(p, "%.40s: %s needs %s", p->word, metric->path, need);
}

static int parse_time(struct parsing *p, const char *what, uint64_t *ns)
{
	if (!next(p) || parse_duration(p->word, ns))
		return refuse(p, "\"%s\" needs a time with its unit, like 30s", what);
	return 0;
}

/* What follows the value: each word at most once. */
static int parse_rest(struct parsing *p, struct alert_rule *rule)
{
	bool held = false, cleared = false, cooled = false;
	enum alert_scale scale;
	int err;

	while (next(p)) {
		if (!strcmp(p->word, "for") && !held) {
			held = true;
			if (rule->metric.type == RECORD_BLOCK)
				return refuse(p, "a block is told once: it lasts for no time");
			err = parse_time(p, "for", &rule->for_ns);
		} else if (!strcmp(p->word, "cooldown") && !cooled) {
			cooled = true;
			err = parse_time(p, "cooldown", &rule->cool_ns);
		} else if (!strcmp(p->word, "clear") && !cleared) {
			cleared = true;
			if (rule->metric.type == RECORD_BLOCK)
				return refuse(p, "a block is told once: it is never clear");
			if (!next(p))
				return refuse(p, "\"clear\" needs a value");
			err = parse_value(p, &rule->metric, &scale, &rule->clear);
			if (!err && scale != rule->scale)
				err = refuse(p, "%.40s: in another unit than the limit", p->word);
			/* Else it would be over while it begins. */
			if (!err && rule->clear != rule->limit &&
			    alert_rule_holds(rule, rule->clear, rule->limit))
				err = refuse(p, "clear %.40s: is beyond the limit", p->word);
		} else {
			return refuse(p,
				      "%.40s: after the value only for TIME, clear VALUE and "
				      "cooldown TIME, each once",
				      p->word);
		}
		if (err)
			return err;
	}
	return p->rest[strspn(p->rest, " \t")] ? refuse(p, "a word is too long") : 0;
}

int alert_rule_parse(const char *text, struct alert_rule *rule, char *why, size_t size)
{
	struct parsing p = {.rest = text, .why = why, .size = size};
	int err;

	*rule = (struct alert_rule){.cool_ns = ALERT_COOL_NS};
	if (strlen(text) >= sizeof(rule->text))
		return refuse(&p, "a rule has at most %zu bytes", sizeof(rule->text) - 1);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c >= 0x7f || ((unsigned char)*c < ' ' && *c != '\t'))
			return refuse(&p, "only ASCII");
	text += strspn(text, " \t");
	strcpy(rule->text, text);
	for (size_t n = strlen(rule->text); n && isspace((unsigned char)rule->text[n - 1]); n--)
		rule->text[n - 1] = 0;
	if (!next(&p) || strchr("<>=!", p.word[0]))
		return refuse(&p, "METRIC OP VALUE is needed, like memory.pss_bytes > 500M");
	err = metric_find(p.word, &rule->metric, why, size);
	if (err)
		return err;
	if (!next(&p))
		return refuse(&p, "a comparison is missing: >, >=, < or <=");
	err = parse_op(&p, &rule->op);
	if (err)
		return err;
	if (!next(&p))
		return refuse(&p, "a value is missing");
	err = parse_value(&p, &rule->metric, &rule->scale, &rule->limit);
	rule->clear = rule->limit;
	return err ? err : parse_rest(&p, rule);
}

bool alert_rule_holds(const struct alert_rule *rule, double value, double limit)
{
	switch (rule->op) {
	case ALERT_ABOVE:
		return value > limit;
	case ALERT_AT_LEAST:
		return value >= limit;
	case ALERT_BELOW:
		return value < limit;
	case ALERT_AT_MOST:
		return value <= limit;
	}
	return false;
}

const char *alert_value_text(const struct alert_rule *rule, double value, char *text, size_t size)
{
	const char *rate = rule->scale == ALERT_PER_SECOND ? "/s" : "";
	char bytes[32];

	if (rule->scale == ALERT_PERCENT)
		snprintf(text, size, "%.1f %%", value);
	else if (rule->metric.leaf->unit == UNIT_BYTES && value >= 0 && value < 0x1p64)
		snprintf(text, size, "%s%s", format_bytes(bytes, sizeof(bytes), (uint64_t)value),
			 rate);
	else if (rule->metric.leaf->unit == UNIT_NS)
		snprintf(text, size, "%.3f s", value / 1e9);
	else
		snprintf(text, size, "%.10g%s", value, rate);
	return text;
}
