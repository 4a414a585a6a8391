/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/rule_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS    " \t"
#define COMPARING "<>=!"

static const char *const comparisons[] = {
	[COMPARE_ABOVE] = ">",
	[COMPARE_AT_LEAST] = ">=",
	[COMPARE_BELOW] = "<",
	[COMPARE_AT_MOST] = "<=",
};

bool rule_next(struct rule_words *words)
{
	size_t n;

	words->rest += strspn(words->rest, BLANKS);
	n = strspn(words->rest, COMPARING);
	if (!n)
		n = strcspn(words->rest, BLANKS COMPARING);
	if (!n || n >= sizeof(words->word))
		return false;
	memcpy(words->word, words->rest, n);
	words->word[n] = 0;
	words->rest += n;
	return true;
}

bool rule_ended(const struct rule_words *words)
{
	return !words->rest[strspn(words->rest, BLANKS)];
}

bool rule_word_compares(const char *word)
{
	return word[0] && strchr(COMPARING, word[0]);
}

bool rule_is_ascii(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c >= 0x7f || ((unsigned char)*c < ' ' && *c != '\t'))
			return false;
	return true;
}

bool rule_number(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return text[0] && !text[strspn(text, "0123456789.-")] && !*end && isfinite(*value);
}

bool comparison_parse(const char *word, enum comparison *op)
{
	for (size_t i = 0; i < sizeof(comparisons) / sizeof(*comparisons); i++) {
		*op = (enum comparison)i;
		if (!strcmp(word, comparisons[i]))
			return true;
	}
	return false;
}

const char *comparison_text(enum comparison op)
{
	return comparisons[op];
}

bool comparison_holds(enum comparison op, double value, double limit)
{
	switch (op) {
	case COMPARE_ABOVE:
		return value > limit;
	case COMPARE_AT_LEAST:
		return value >= limit;
	case COMPARE_BELOW:
		return value < limit;
	case COMPARE_AT_MOST:
		return value <= limit;
	}
	return false;
}
