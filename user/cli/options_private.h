/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of flags, as the parser, the texts and the completions share it. */
#pragma once
#include <string.h>

#include "cli/options.h"

/* The shortest interval that can be asked for. */
#define MIN_INTERVAL_NS 50000000ull

/* Every row: those of the tool first, then those of the sources in their order. NULL at the end.
 * *source (may be NULL): whose flags the row fills, -1 for struct options. */
const struct option_row *option_row_at(size_t index, int *source);

/* Whether --help, the man page and the completions of this verb show the flag. */
static inline bool option_is_shown(const struct option_row *row,
				   const struct verb_description *verb)
{
	return !row->tune && (row->verbs & verb->bit);
}

/* Whether the verb takes names of files as arguments: its "FILE..." or "DIR" says so. */
static inline bool verb_takes_files(const struct verb_description *verb)
{
	return strstr(verb->arguments, "...") || !strncmp(verb->arguments, "DIR", 3);
}

/* Print text and a newline, broken between words, where the cursor is at `column` already; the
 * following lines begin there, too. */
void options_print_wrapped(FILE *out, const char *text, int column, int width);
/* A term with its text, in man(7). */
void options_put_item(FILE *out, const char *term, const char *text);
/* The man page's section on records: every field of the table of fields. */
void options_print_records(FILE *out);
