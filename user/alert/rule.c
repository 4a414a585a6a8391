/* SPDX-License-Identifier: BSD-2-Clause */
#include "alert/rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/rule_text.h"
#include "util/units.h"

_Static_assert(RULE_WORD <= METRIC_PATH, "a word is copied where a path has room");

struct parsing {
	struct rule_words words;
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

static bool cut_suffix(char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	if (length <= tail || strcmp(text + length - tail, suffix))
		return false;
	text[length - tail] = 0;
	return true;
}

/* What was counted in an interval has a rate by the interval's length; a reading, as RSS, has none,
 * and the uids of the disk source are of uids_span_ns. */
static bool has_rate(const struct metric *metric)
{
	return metric->type == RECORD_INTERVAL && metric->leaf->merge == MERGE_SUM &&
	       strncmp(metric->path, "disk.uids.", strlen("disk.uids."));
}

static int parse_value(struct parsing *p, const struct metric *metric, enum alert_scale *scale,
		       double *value)
{
	char text[METRIC_PATH];
	bool is_sum = has_rate(metric), good;
	const char *key = metric->leaf->key, *need;
	uint64_t number = 0;

	strcpy(text, p->words.word);
	*scale = ALERT_AS_IT_IS;
	switch ((enum field_unit)metric->leaf->unit) {
	case UNIT_NS:
		if (is_sum && cut_suffix(text, "%")) {
			*scale = ALERT_PERCENT;
			good = rule_number(text, value);
		} else {
			good = !parse_duration(text, &number);
			*value = (double)number;
		}
		need = is_sum ? "a time with its unit, like 500ms, or a share of the "
				"interval, like 80%"
			      : "a time with its unit, like 500ms";
		break;
	case UNIT_BYTES:
		if (is_sum && cut_suffix(text, "/s"))
			*scale = ALERT_PER_SECOND;
		good = !parse_size(text, &number);
		*value = (double)number;
		need = is_sum ? "a size with its unit, like 500M, or a rate, like 1M/s"
			      : "a size with its unit, like 500M";
		break;
	case UNIT_COUNT:
		if (is_sum && cut_suffix(text, "/s"))
			*scale = ALERT_PER_SECOND;
		good = rule_number(text, value);
		need = is_sum ? "a number, or a rate, like 100/s" : "a number";
		break;
	default:
		if (strlen(key) > 4 && !strcmp(key + strlen(key) - 4, "_pct"))
			cut_suffix(text, "%");
		good = rule_number(text, value);
		need = "a number in the metric's unit";
	}
	return good ? 0 : refuse(p, "%.40s: %s needs %s", p->words.word, metric->path, need);
}

static int parse_time(struct parsing *p, const char *what, uint64_t *ns)
{
	if (!rule_next(&p->words) || parse_duration(p->words.word, ns))
		return refuse(p, "\"%s\" needs a time with its unit, like 30s", what);
	return 0;
}

/* What follows the value: each word at most once. */
static int parse_rest(struct parsing *p, struct alert_rule *rule)
{
	bool held = false, cleared = false, cooled = false;
	enum alert_scale scale;
	int err;

	while (rule_next(&p->words)) {
		if (!strcmp(p->words.word, "for") && !held) {
			held = true;
			if (rule->metric.type == RECORD_BLOCK)
				return refuse(p, "a block is told once: it lasts for no time");
			err = parse_time(p, "for", &rule->for_ns);
		} else if (!strcmp(p->words.word, "foreground") && !rule->foreground) {
			rule->foreground = true;
			err = 0;
		} else if (!strcmp(p->words.word, "cooldown") && !cooled) {
			cooled = true;
			err = parse_time(p, "cooldown", &rule->cool_ns);
		} else if (!strcmp(p->words.word, "clear") && !cleared) {
			cleared = true;
			if (rule->metric.type == RECORD_BLOCK)
				return refuse(p, "a block is told once: it is never clear");
			if (!rule_next(&p->words))
				return refuse(p, "\"clear\" needs a value");
			err = parse_value(p, &rule->metric, &scale, &rule->clear);
			if (!err && scale != rule->scale)
				err = refuse(p, "%.40s: in another unit than the limit",
					     p->words.word);
			/* Else it would be over while it begins. */
			if (!err && rule->clear != rule->limit &&
			    comparison_holds(rule->op, rule->clear, rule->limit))
				err = refuse(p, "clear %.40s: is beyond the limit", p->words.word);
		} else {
			return refuse(p,
				      "%.40s: after the value only for TIME, clear VALUE, "
				      "cooldown TIME and foreground, each once",
				      p->words.word);
		}
		if (err)
			return err;
	}
	return rule_ended(&p->words) ? 0 : refuse(p, "a word is too long");
}

int alert_rule_parse(const char *text, struct alert_rule *rule, char *why, size_t size)
{
	struct parsing p = {.words.rest = text, .why = why, .size = size};
	char name[sizeof(p.words.word)];
	int err;

	*rule = (struct alert_rule){.cool_ns = ALERT_COOL_NS};
	if (strlen(text) >= sizeof(rule->text))
		return refuse(&p, "a rule has at most %zu bytes", sizeof(rule->text) - 1);
	if (!rule_is_ascii(text))
		return refuse(&p, "only ASCII");
	text += strspn(text, " \t");
	strcpy(rule->text, text);
	for (size_t n = strlen(rule->text); n && isspace((unsigned char)rule->text[n - 1]); n--)
		rule->text[n - 1] = 0;
	if (!rule_next(&p.words) || rule_word_compares(p.words.word))
		return refuse(&p, "METRIC OP VALUE is needed, like memory.pss_bytes > 500M");
	strcpy(name, p.words.word);
	if (!rule_next(&p.words))
		return refuse(&p, "a comparison is missing: >, >=, < or <=");
	if (!comparison_parse(p.words.word, &rule->op))
		return refuse(&p, "%.40s is no comparison: >, >=, < or <=", p.words.word);
	if (!rule_next(&p.words))
		return refuse(&p, "a value is missing");
	err = metric_find(name, &rule->metric, why, size);
	if (err)
		return err;
	err = parse_value(&p, &rule->metric, &rule->scale, &rule->limit);
	rule->clear = rule->limit;
	return err ? err : parse_rest(&p, rule);
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
