/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/line.h"

#include <stdarg.h>
#include <string.h>

/* Length of the well-formed UTF-8 character at text, 0 if there is none or it controls a terminal:
 * C0, DEL, and C1, of which U+009B begins a sequence like ESC [ does. */
static size_t printable(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] < 0x20 || p[0] == 0x7f || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xe0 && p[1] < 0xa0) ||
	    (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

const char *text_clean(char *buffer, size_t size, const char *text)
{
	size_t n = 0, length;

	while (*text && n + 1 < size) {
		length = printable(text);
		if (n + length >= size)
			break;
		if (length)
			memcpy(buffer + n, text, length);
		else
			buffer[n] = '?';
		n += length ? length : 1;
		text += length ? length : 1;
	}
	buffer[n] = 0;
	return buffer;
}

const char *text_tail(char *buffer, size_t size, const char *text, int width)
{
	size_t length = strlen(text);

	if (width < 2)
		width = 2;
	if ((size_t)width >= size)
		width = (int)size - 1;
	if (length <= (size_t)width)
		return text_clean(buffer, size, text);
	text += length - (size_t)width + 2;
	while ((*text & 0xc0) == 0x80) /* not in the middle of a character */
		text++;
	text_clean(buffer + 2, size - 2, text);
	buffer[0] = buffer[1] = '.';
	return buffer;
}

void line_put(struct line *line, const char *format, ...)
{
	char text[256], *part = text;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if (line->column && line->column + length > line->width) {
		/* A comma stays with what it follows. */
		if (strchr(",;", *part) && line->column < line->width)
			fputc(*part, line->out);
		part += strspn(part, " ,;");
		line->column = fprintf(line->out, "\n    ") - 1;
	}
	line->column += fprintf(line->out, "%.*s", line->width - line->column, part);
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

void line_end(struct line *line)
{
	fputc('\n', line->out);
	line->column = 0;
}
