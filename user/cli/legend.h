/* SPDX-License-Identifier: BSD-2-Clause */
/* What the columns and words of the output mean: for --legend and for the man page. */
#pragma once
#include <stddef.h>
#include <stdio.h>

struct legend_row {
	const char *word, *meaning;
};

struct legend_part {
	const char *title;
	unsigned verbs; /* enum verb_bit, of those that print these words */
	const struct legend_row *rows;
	size_t count;
};

extern const struct legend_part legend_parts[];
extern const size_t legend_part_count;

/* Print the words of a verb (a bit of enum verb_bit), at most 80 columns wide. */
void legend_print(FILE *out, unsigned verb);
