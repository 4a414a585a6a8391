/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame of the live screen: lines of text that are no wider than the terminal, whatever is put
 * into them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The letters that lines of a block's text begin with, too. */
enum screen_style {
	STYLE_PLAIN = 'P',
	STYLE_HEAD = 'H',
	STYLE_DIM = 'D',
	STYLE_NOTE = 'N',
	STYLE_WARN = 'W',
	STYLE_BAD = 'B',
	STYLE_PICKED = 'S',
};

#define SCREEN_MAX_WIDTH  500
#define SCREEN_MAX_HEIGHT 300

struct screen_row {
	char *text;
	size_t length, room;
	int columns; /* that are used so far */
};

struct screen_frame {
	int width, height;
	bool colour, utf8;
	bool failed; /* no memory: rows are cut short */
	struct screen_row *rows;
};

/* False: no memory. Sizes are brought into 1 .. SCREEN_MAX_... */
bool frame_begin(struct screen_frame *frame, int width, int height, bool colour, bool utf8);
void frame_free(struct screen_frame *frame);
/* The columns that a row has left before column `end`; 0 for a row outside of the frame. */
int frame_left(const struct screen_frame *frame, int row, int end);
/* Put text behind what the row has, up to column `end` (not beyond the width), cleaned. Rows
 * outside of the frame take nothing. */
void frame_put(struct screen_frame *frame, int row, int end, enum screen_style style,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Text of `columns` columns: blanks behind what is shorter, the end of what is longer. */
void frame_put_column(struct screen_frame *frame, int row, int end, enum screen_style style,
		      int columns, const char *text);
/* Blanks up to a column; the text that follows begins there whatever the terminal made of the text
 * before. */
void frame_to_column(struct screen_frame *frame, int row, int column);
/* The bytes that show the frame on a terminal, in one piece: "\033[row;1H", the row, and what
 * clears the rest of it. Ownership to the caller; NULL: no memory. */
char *frame_bytes(const struct screen_frame *frame, size_t *size);
