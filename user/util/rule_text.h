/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a rule "METRIC OP VALUE ..." as text: its words, its comparison, a plain number. */
#pragma once
#include <stdbool.h>

#define RULE_WORD 160

struct rule_words {
	const char *rest;
	char word[RULE_WORD];
};

/* The next word, or comparison, which needs no blanks around it, into word. False: there is none,
 * or it is too long (then rule_ended() is false too). */
bool rule_next(struct rule_words *words);
/* Whether nothing but blanks is left. */
bool rule_ended(const struct rule_words *words);
/* Whether a word is made of the characters of comparisons, be it one or not. */
bool rule_word_compares(const char *word);
/* Whether a text is printable ASCII and tabs. */
bool rule_is_ascii(const char *text);
/* "5", "-2", "0.5". False: it is none, and neither are "inf", "nan" and "0x10". */
bool rule_number(const char *text, double *value);

enum comparison { COMPARE_ABOVE, COMPARE_AT_LEAST, COMPARE_BELOW, COMPARE_AT_MOST };

/* ">", ">=", "<", "<=". False: the word is none of them. */
bool comparison_parse(const char *word, enum comparison *op);
const char *comparison_text(enum comparison op);
/* Whether value OP limit. */
bool comparison_holds(enum comparison op, double value, double limit);
