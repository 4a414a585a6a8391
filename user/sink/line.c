/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/line.h"

#include <stdarg.h>
#include <string.h>

void line_put(struct line *line, const char *format, ...)
{
	char text[256], *part = text;
	va_list arguments;
	int length, columns;
	size_t fitting;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	columns = text_columns(part);
	if (line->column && line->column + columns > line->width) {
		/* A comma stays with what it follows. */
		if (strchr(",;", *part) && line->column < line->width)
			fputc(*part, line->out);
		part += strspn(part, " ,;");
		fputs("\n    ", line->out);
		line->column = 4;
	}
	fitting = text_fitting(part, line->width - line->column);
	part[fitting] = 0;
	fputs(part, line->out);
	line->column += text_columns(part);
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
	line->column = 0;
}
