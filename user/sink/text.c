/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the well-formed UTF-8 character at text and its number; 0 if there is none. */
static size_t decode(const char *text, uint32_t *number)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (!length || p[0] > 0xf4)
		return 0;
	*number = length == 1 ? p[0] : p[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*number = *number << 6 | (p[i] & 0x3f);
	}
	if ((length == 3 && *number < 0x800) || (length == 4 && *number < 0x10000) ||
	    (*number >= 0xd800 && *number < 0xe000) || *number > 0x10ffff)
		return 0;
	return length;
}

struct range {
	uint32_t first, last;
};

static bool is_in(uint32_t number, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count && number >= ranges[i].first; i++)
		if (number <= ranges[i].last)
			return true;
	return false;
}

#define IS_IN(number, ranges) is_in(number, ranges, sizeof(ranges) / sizeof(*(ranges)))

/* C0 and DEL; C1, of which U+009B begins a sequence like ESC [ does; characters that no terminal
 * shows, and those that turn the direction of the text around them, so that a name could reorder
 * the numbers of its row (Unicode 15, general category Cf, Zl and Zp; tags; noncharacters). */
static const struct range unprintable[] = {
	{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
	{0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
	{0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

/* Marks that take no column of their own. */
static const struct range marks[] = {
	{0x300, 0x36f},   {0x483, 0x489},     {0x591, 0x5bd},     {0x610, 0x61a},
	{0x64b, 0x65f},   {0xe31, 0xe31},     {0xe34, 0xe3a},     {0xe47, 0xe4e},
	{0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x20d0, 0x20ff},   {0xfe00, 0xfe0f},
	{0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef},
};

/* Characters of two columns (Unicode 15, EastAsianWidth W and F, in whole blocks). */
static const struct range wide[] = {
	{0x1100, 0x115f},   {0x231a, 0x231b},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
	{0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
	{0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
	{0x16fe0, 0x18d08}, {0x1b000, 0x1b2fb}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
	{0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

static int columns_of(uint32_t number)
{
	return number < 0x300 ? 1 : IS_IN(number, marks) ? 0 : IS_IN(number, wide) ? 2 : 1;
}

const char *text_clean(char *buffer, size_t size, const char *text)
{
	size_t n = 0, length;
	uint32_t number;

	while (*text && n + 1 < size) {
		bool whole;

		length = decode(text, &number);
		whole = length && !IS_IN(number, unprintable) && (number & 0xfffe) != 0xfffe;
		if (n + (whole ? length : 1) >= size)
			break;
		if (whole)
			memcpy(buffer + n, text, length);
		else
			buffer[n] = '?';
		n += whole ? length : 1;
		text += length ? length : 1;
	}
	buffer[n] = 0;
	return buffer;
}

int text_columns(const char *text)
{
	int columns = 0;
	uint32_t number;

	while (*text) {
		size_t length = decode(text, &number);

		columns += length ? columns_of(number) : 1;
		text += length ? length : 1;
	}
	return columns;
}

size_t text_fitting(const char *text, int columns)
{
	const char *end = text;
	uint32_t number;

	while (*end) {
		size_t length = decode(end, &number);
		int more = length ? columns_of(number) : 1;

		if (more > columns)
			break;
		columns -= more;
		end += length ? length : 1;
	}
	return (size_t)(end - text);
}

size_t text_to_ascii(char *text, size_t length)
{
	size_t at = 0, n = 0;
	uint32_t number;

	while (at < length) {
		size_t bytes = (unsigned char)text[at] < 0x80 ? 0 : decode(text + at, &number);

		if ((unsigned char)text[at] < 0x80) {
			text[n++] = text[at++];
			continue;
		}
		/* A character has at least as many bytes as columns. */
		for (int columns = bytes ? columns_of(number) : 1; columns > 0; columns--)
			text[n++] = '?';
		at += bytes ? bytes : 1;
	}
	return n;
}

const char *text_tail(char *buffer, size_t size, const char *text, int width)
{
	int columns;
	uint32_t number;
	char *at;

	/* Longer names than the buffer keep their ends. */
	if (strlen(text) >= size) {
		text += strlen(text) - size + 1;
		while ((*text & 0xc0) == 0x80) /* not in the middle of a character */
			text++;
	}
	text_clean(buffer, size, text);
	if (width < 3)
		width = 3;
	columns = text_columns(buffer);
	if (columns <= width || strlen(buffer) < 3)
		return buffer;
	for (at = buffer; *at && columns > width - 2;) {
		size_t length = decode(at, &number);

		columns -= length ? columns_of(number) : 1;
		at += length ? length : 1;
	}
	/* A mark whose character was cut off has nothing to sit on. */
	while (*at && decode(at, &number) && !columns_of(number))
		at += decode(at, &number);
	/* What was cut off had two bytes at least, or one wide character of three. */
	memmove(buffer + 2, at, strlen(at) + 1);
	memcpy(buffer, "..", 2);
	return buffer;
}
