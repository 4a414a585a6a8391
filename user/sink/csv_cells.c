/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv_cells.h"

#include <errno.h>
#include <string.h>

#include "sink/text.h"

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

void csv_put_text(struct csv_cells *cells, const char *text, size_t length)
{
	char bounded[CSV_TEXT_BYTES], clean[CSV_TEXT_BYTES];
	size_t plain = plain_length(text, length);
	const char *first;
	bool formula;

	if (plain < CSV_TEXT_BYTES && (plain == length || !text[plain])) {
		csv_put_bytes(cells, text, plain);
		return;
	}

	snprintf(bounded, sizeof(bounded), "%.*s",
		 (int)(length < CSV_TEXT_BYTES ? length : CSV_TEXT_BYTES - 1), text);
	text_clean(clean, sizeof(clean), bounded);
	/* Spreadsheets skip blanks ahead of a formula. */
	first = clean + strspn(clean, " ");
	formula = *first && strchr("=+-@|%", *first);
	if (!formula && !strpbrk(clean, "\",")) {
		csv_put_plain(cells, clean);
		return;
	}
	csv_put_plain(cells, formula ? "\"'" : "\"");
	for (const char *c = clean; *c; c++) {
		if (*c == '"')
			csv_put_plain(cells, "\"");
		csv_put_bytes(cells, c, 1);
	}
	csv_put_plain(cells, "\"");
}

void csv_put_whole(struct csv_cells *cells, uint64_t value, bool is_signed)
{
	static const char pairs[] = "0001020304050607080910111213141516171819"
				    "2021222324252627282930313233343536373839"
				    "4041424344454647484950515253545556575859"
				    "6061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	char digits[24], *end = digits + sizeof(digits), *at = end;
	bool negative = is_signed && (int64_t)value < 0;

	if (negative)
		value = -value;
	for (; value >= 100; value /= 100) {
		at -= 2;
		memcpy(at, pairs + 2 * (value % 100), 2);
	}
	if (value >= 10) {
		at -= 2;
		memcpy(at, pairs + 2 * value, 2);
	} else {
		*--at = (char)('0' + value);
	}
	if (negative)
		*--at = '-';
	csv_put_bytes(cells, at, (size_t)(end - at));
}

void csv_put_real(struct csv_cells *cells, double value, const char *format)
{
	char text[344];

	snprintf(text, sizeof(text), format, value);
	csv_put_plain(cells, text);
}

void csv_cells_flush(struct csv_cells *cells, FILE *to)
{
	errno = 0;
	if (!cells->err && fwrite(cells->bytes, 1, cells->length, to) != cells->length)
		cells->err = errno ? -errno : -EIO;
	cells->length = 0;
}
