/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target of the command line: the first byte chooses the verb, each line that follows is
 * a word of it. What is refused has a reason, and what is taken is within the limits that the other
 * rooms count on. Each word is also read as a rule of --alert. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alert/rule.h"
#include "cli/options.h"

#define WORDS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct verb_description verbs[] = {
	{"record", VERB_RECORD, "", ""}, {"frames", VERB_FRAMES, "", ""},
	{"report", VERB_REPORT, "", ""}, {"verify", VERB_VERIFY, "", ""},
	{"status", VERB_STATUS, "", ""}, {"stop", VERB_STOP, "", ""},
	{"mark", VERB_MARK, "", ""},     {"doctor", VERB_DOCTOR, "", ""},
};

static void check_rule(const char *word)
{
	const char *begin = word + strspn(word, " \t");
	struct alert_rule rule;
	char why[256] = "", text[64];
	size_t length;

	if (alert_rule_parse(word, &rule, why, sizeof(why))) {
		if (!*why)
			abort();
		return;
	}
	/* The rule as it was given, without the space around it. */
	length = strlen(rule.text);
	if (strncmp(rule.text, begin, length) ||
	    begin[length + strspn(begin + length, " \t\n\v\f\r")])
		abort();
	alert_value_text(&rule, rule.limit, text, sizeof(text));
	(void)comparison_holds(rule.op, rule.limit, rule.clear);
}

static void check_options(const struct verb_description *verb, int argc, char **argv)
{
	struct options options;
	int err;

	options_init(&options);
	err = options_parse(&options, verb, argc, argv);
	if (err && err != -EINVAL)
		abort();
	if (!err && (options.interval_ns < 50000000 || options.argument_count > argc ||
		     !(options.max_lost_pct >= 0 && options.max_lost_pct <= 100)))
		abort();
	options_free(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *word, *rest = text, *argv[WORDS + 1];
	const struct verb_description *verb;
	int argc = 1;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	if (!size) {
		free(text);
		return 0;
	}
	verb = &verbs[data[0] % (sizeof(verbs) / sizeof(*verbs))];
	rest++;
	argv[0] = (char *)verb->name;
	while (argc < WORDS && (word = strsep(&rest, "\n"))) {
		check_rule(word);
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	check_options(verb, argc, argv);
	free(text);
	return 0;
}
