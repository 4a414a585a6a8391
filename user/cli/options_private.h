/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of flags, as the parser, the texts and the completions share it. */
#pragma once
#include <string.h>

#include "cli/options.h"

enum option_kind {
	OPTION_FLAG,
	OPTION_DURATION,
	OPTION_NUMBER,
	OPTION_PERCENT,
	OPTION_SIZE,
	OPTION_TEXT,
	OPTION_CHOICE,
	OPTION_TARGET, /* -p: a name or a pid */
	OPTION_UID,
};

struct option_row {
	char letter; /* 0: none */
	const char *name, *metavar, *help;
	unsigned verbs;
	enum option_kind kind;
	size_t offset;
	const char *choices; /* space separated; the index is the value */
	uint64_t min;
	bool hidden;       /* tests only */
	const char *words; /* OPTION_TEXT: space separated values that are not names of files */
	bool file;         /* OPTION_TEXT: a name of a file */
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* Whether --help, the man page and the completions of this verb show the flag. */
static inline bool option_is_shown(const struct option_row *row,
				   const struct verb_description *verb)
{
	return !row->hidden && (row->verbs & verb->bit);
}

/* Whether the verb takes names of files as arguments: its "FILE..." says so. */
static inline bool verb_takes_files(const struct verb_description *verb)
{
	return strstr(verb->arguments, "...") != NULL;
}

/* Print text and a newline, broken between words, where the cursor is at `column` already; the
 * following lines begin there, too. */
void options_print_wrapped(FILE *out, const char *text, int column, int width);
