/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv_cells.h"

#include <string.h>

#include "sink/text.h"

#define TEXT_BYTES 4096 /* what is longer is cut */

void csv_put_plain(FILE *to, const char *text)
{
	fputs_unlocked(text, to);
}

/* How much of a text is ASCII that stands for itself, as nearly all names are. A formula begins
 * with something else than a letter, a digit, '.', '/' or '_'. */
static size_t plain_length(const char *text, size_t length)
{
	size_t n = 0;
	char c = length ? text[0] : 0;

	if (c != '_' && (c < '.' || c > '9') && ((c | 32) < 'a' || (c | 32) > 'z'))
		return 0;
	while (n < length && text[n] >= ' ' && text[n] < 0x7f && text[n] != ',' && text[n] != '"')
		n++;
	return n;
}

void csv_put_text(FILE *to, const char *text, size_t length)
{
	char bounded[TEXT_BYTES], clean[TEXT_BYTES];
	size_t plain = plain_length(text, length);
	const char *first;
	bool formula;

	if (plain < TEXT_BYTES && (plain == length || !text[plain])) {
		fwrite_unlocked(text, 1, plain, to);
		return;
	}

	snprintf(bounded, sizeof(bounded), "%.*s",
		 (int)(length < TEXT_BYTES ? length : TEXT_BYTES - 1), text);
	text_clean(clean, sizeof(clean), bounded);
	/* Spreadsheets skip blanks ahead of a formula. */
	first = clean + strspn(clean, " ");
	formula = *first && strchr("=+-@|%", *first);
	if (!formula && !strpbrk(clean, "\",")) {
		csv_put_plain(to, clean);
		return;
	}
	fputs(formula ? "\"'" : "\"", to);
	for (const char *c = clean; *c; c++) {
		if (*c == '"')
			putc('"', to);
		putc(*c, to);
	}
	putc('"', to);
}

const char *csv_whole_text(char buffer[24], uint64_t value, bool is_signed)
{
	bool negative = is_signed && (int64_t)value < 0;
	char *at = buffer + 23;

	if (negative)
		value = -value;
	*at = 0;
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	if (negative)
		*--at = '-';
	return at;
}
