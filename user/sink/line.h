/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of text for people: no wider than the terminal, and no control byte of another process's
 * name in them. */
#pragma once
#include <stddef.h>
#include <stdio.h>

/* A copy of the text in the buffer, with '?' for what would control a terminal or is no UTF-8. */
const char *text_clean(char *buffer, size_t size, const char *text);
/* The same of a name's last `width` bytes, ".." before them: the end of a long name tells more than
 * its begin ("...sceneform.sample:remote"). */
const char *text_tail(char *buffer, size_t size, const char *text, int width);

/* A line that is put together from parts and goes on in the next one, indented, where it would
 * become too long. */
struct line {
	FILE *out;
	int width, column;
};

void __attribute__((format(printf, 2, 3))) line_put(struct line *line, const char *format, ...);
/* Free text, broken between its words. */
void line_put_words(struct line *line, const char *text);
void line_end(struct line *line);
