/* SPDX-License-Identifier: BSD-2-Clause */
/* Cells of a table (RFC 4180), millions of them: put together in memory and written many at a time,
 * because a call of stdio for each costs more than all else of a row. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CSV_CELLS_BYTES (256 << 10)
#define CSV_TEXT_BYTES  4096 /* what is longer is cut */
/* The most that csv_put_text() puts: each byte a quote that is doubled, quotes around them, the '
 * of a formula. */
#define CSV_TEXT_MOST (2 * CSV_TEXT_BYTES + 4)

/* Whoever puts sees to it that there is room. */
struct csv_cells {
	int err; /* -errno of a write that failed; what comes after it is dropped */
	size_t length;
	char bytes[CSV_CELLS_BYTES];
};

static inline void csv_put_bytes(struct csv_cells *cells, const char *bytes, size_t length)
{
	memcpy(cells->bytes + cells->length, bytes, length);
	cells->length += length;
}

/* A text of ours. */
static inline void csv_put_plain(struct csv_cells *cells, const char *text)
{
	csv_put_bytes(cells, text, strlen(text));
}

/* At most `length` bytes of a text that another program may have chosen: clean, quoted where it has
 * to be, and no formula for a spreadsheet. */
void csv_put_text(struct csv_cells *cells, const char *text, size_t length);
/* The value is an int64_t where it is signed. */
void csv_put_whole(struct csv_cells *cells, uint64_t value, bool is_signed);
/* By a format of printf with at most 340 characters. */
void csv_put_real(struct csv_cells *cells, double value, const char *format);
/* Write what is there, and begin anew. */
void csv_cells_flush(struct csv_cells *cells, FILE *to);
