/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/line.h"

#include <stdarg.h>
#include <string.h>

/* Blanks at the end wait for what follows: a line must not end in them. */
static void put_clean(struct line *line, char *text)
{
	size_t length = strlen(text), blanks = 0;

	while (blanks < length && text[length - 1 - blanks] == ' ')
		blanks++;
	text[length - blanks] = 0;
	if (text[0]) {
		fprintf(line->out, "%*s%s", line->blanks, "", text);
		line->blanks = 0;
	}
	line->blanks += (int)blanks;
}

static void put_part(struct line *line, char *part)
{
	int columns = text_columns(part);
	size_t fitting;

	if (line->column && line->column + columns > line->width) {
		char comma[2] = {*part, 0};

		/* A comma stays with what it follows. */
		if (strchr(",;", *part) && line->column < line->width)
			put_clean(line, comma);
		part += strspn(part, " ,;");
		fputs("\n    ", line->out);
		line->column = 4;
		line->blanks = 0;
	}
	fitting = text_fitting(part, line->width - line->column);
	part[fitting] = 0;
	line->column += text_columns(part);
	put_clean(line, part);
}

void line_put(struct line *line, const char *format, ...)
{
	char text[256], word[256];
	const char *rest = text;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if (text_columns(text) <= line->width - 4) {
		put_part(line, text);
		return;
	}
	/* No line has room for it: it is broken where it has blanks. */
	while (*rest) {
		size_t blanks = strspn(rest, " "), size = blanks + strcspn(rest + blanks, " ");

		snprintf(word, sizeof(word), "%.*s", (int)size, rest);
		put_part(line, word);
		rest += size;
	}
}

/* Free text, broken between its words. */
void line_put_words(struct line *line, const char *text)
{
	char word[256];

	while (*text) {
		size_t blanks = strspn(text, " "), length = strcspn(text + blanks, " ");

		snprintf(word, sizeof(word), "%.*s", (int)(blanks + length), text);
		line_put(line, "%s", word);
		text += blanks + length;
	}
}

void line_style(struct line *line, enum line_style style)
{
	static const char *const escapes[] = {
		[LINE_PLAIN] = "0", [LINE_HEAD] = "1",  [LINE_DIM] = "2",
		[LINE_NOTE] = "36", [LINE_WARN] = "33", [LINE_BAD] = "1;31",
	};

	if (!line->colour || (style == LINE_PLAIN && !line->styled))
		return;
	fprintf(line->out, "\033[%sm", escapes[style]);
	line->styled = style != LINE_PLAIN;
}

void line_end(struct line *line)
{
	line_style(line, LINE_PLAIN);
	fputc('\n', line->out);
	line->column = line->blanks = 0;
}
