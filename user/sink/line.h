/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of text for people, no wider than the terminal. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "sink/text.h"

/* What a part of a line means; a terminal with colours shows it so. */
enum line_style {
	LINE_PLAIN = 0,
	LINE_HEAD = 1, /* titles and the first line of an interval */
	LINE_DIM = 2,  /* what matters less: threads below their process, captions */
	LINE_NOTE = 3, /* events */
	LINE_WARN = 4,
	LINE_BAD = 5, /* losses, ANRs */
};

/* A line that is put together from parts and goes on in the next one, indented, where it would
 * become too long. */
struct line {
	FILE *out;
	int width, column;
	int blanks; /* of column, at its end and not written yet */
	bool colour, styled;
};

/* The parts must be fit for a terminal (sink/text.h); a part of more than 255 bytes is cut. */
void __attribute__((format(printf, 2, 3))) line_put(struct line *line, const char *format, ...);
/* Free text, broken between its words. */
void line_put_words(struct line *line, const char *text);
/* The style of what follows, up to the end of the line; does nothing without colours. */
void line_style(struct line *line, enum line_style style);
void line_end(struct line *line);
