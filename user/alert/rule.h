/* SPDX-License-Identifier: BSD-2-Clause */
/* A rule of --alert as text: METRIC OP VALUE [for TIME] [clear VALUE] [cooldown TIME]
 * [foreground].
 * Pure. */
#pragma once
#include "alert/metric.h"
#include "util/rule_text.h"

#define ALERT_RULES   64
#define ALERT_TEXT    256
#define ALERT_COOL_NS 60000000000ull /* of a rule without `cooldown` */

/* Of what the limit is: the value itself, its share of the record's time in percent, or its rate
 * per second. */
enum alert_scale { ALERT_AS_IT_IS, ALERT_PERCENT, ALERT_PER_SECOND };

struct alert_rule {
	char text[ALERT_TEXT]; /* as it was given */
	struct metric metric;
	enum comparison op;
	enum alert_scale scale;
	double limit, clear; /* clear: the alert is over where the value is beyond it no more */
	uint64_t for_ns, cool_ns;
	bool foreground; /* it holds only while its process is what the user sees */
};

/* 0, or -EINVAL with what is wrong in why. */
int alert_rule_parse(const char *text, struct alert_rule *rule, char *why, size_t size);
/* "612.3 MiB", "85.0 %", "2.5 s", as a person reads a value of this rule. Returns text. */
const char *alert_value_text(const struct alert_rule *rule, double value, char *text, size_t size);
