/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/screen/frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/text.h"

#define PART_BYTES 2048

static int within(int value, int least, int most)
{
	return value < least ? least : value > most ? most : value;
}

bool frame_begin(struct screen_frame *frame, int width, int height, bool colour, bool utf8)
{
	*frame = (struct screen_frame){
		.width = within(width, 1, SCREEN_MAX_WIDTH),
		.height = within(height, 1, SCREEN_MAX_HEIGHT),
		.colour = colour,
		.utf8 = utf8,
	};
	frame->rows = calloc((size_t)frame->height, sizeof(*frame->rows));
	return frame->rows;
}

void frame_free(struct screen_frame *frame)
{
	for (int i = 0; frame->rows && i < frame->height; i++)
		free(frame->rows[i].text);
	free(frame->rows);
	frame->rows = NULL;
}

static void append(struct screen_frame *frame, struct screen_row *row, const char *bytes,
		   size_t length)
{
	if (row->length + length + 1 > row->room) {
		size_t room = 2 * row->room + length + 64;
		char *more = realloc(row->text, room);

		if (!more) {
			frame->failed = true;
			return;
		}
		row->text = more;
		row->room = room;
	}
	memcpy(row->text + row->length, bytes, length);
	row->length += length;
	row->text[row->length] = 0;
}

static void append_text(struct screen_frame *frame, struct screen_row *row, const char *text)
{
	append(frame, row, text, strlen(text));
}

static const char *escape_of(enum screen_style style)
{
	switch (style) {
	case STYLE_HEAD:
		return "\033[1m";
	case STYLE_DIM:
		return "\033[2m";
	case STYLE_NOTE:
		return "\033[36m";
	case STYLE_WARN:
		return "\033[33m";
	case STYLE_BAD:
		return "\033[1;31m";
	case STYLE_PICKED:
		return "\033[7m";
	case STYLE_PLAIN:
		break;
	}
	return NULL;
}

/* Clean text that fits. */
static void put_fitting(struct screen_frame *frame, struct screen_row *row, enum screen_style style,
			const char *text, size_t length, int columns)
{
	const char *escape = frame->colour ? escape_of(style) : NULL;

	if (!length)
		return;
	if (escape)
		append_text(frame, row, escape);
	append(frame, row, text, length);
	if (escape)
		append_text(frame, row, "\033[0m");
	row->columns += columns;
}

static struct screen_row *row_of(struct screen_frame *frame, int row, int *end)
{
	if (*end > frame->width)
		*end = frame->width;
	return row < 0 || row >= frame->height ? NULL : &frame->rows[row];
}

int frame_left(const struct screen_frame *frame, int row, int end)
{
	if (end > frame->width)
		end = frame->width;
	if (row < 0 || row >= frame->height || frame->rows[row].columns >= end)
		return 0;
	return end - frame->rows[row].columns;
}

void frame_put(struct screen_frame *frame, int number, int end, enum screen_style style,
	       const char *format, ...)
{
	struct screen_row *row = row_of(frame, number, &end);
	char text[PART_BYTES], clean[PART_BYTES];
	va_list arguments;
	size_t length;
	int columns;

	if (!row || row->columns >= end)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text_clean(clean, sizeof(clean), text);
	length = text_fitting(clean, end - row->columns);
	clean[length] = 0;
	columns = text_columns(clean);
	if (!frame->utf8)
		length = text_to_ascii(clean, length);
	put_fitting(frame, row, style, clean, length, columns);
}

void frame_put_column(struct screen_frame *frame, int row, int end, enum screen_style style,
		      int columns, const char *text)
{
	char cut[PART_BYTES];
	int left;

	if (columns <= 0)
		return;
	text_tail(cut, sizeof(cut), text, columns);
	left = columns - text_columns(cut);
	frame_put(frame, row, end, style, "%s%*s", cut, left > 0 ? left : 0, "");
}

void frame_to_column(struct screen_frame *frame, int number, int column)
{
	int end = column;
	struct screen_row *row = row_of(frame, number, &end);
	char move[32];

	if (!row || end != column)
		return;
	if (row->columns < column)
		frame_put(frame, number, column, STYLE_PLAIN, "%*s", column - row->columns, "");
	snprintf(move, sizeof(move), "\033[%dG", column + 1);
	append_text(frame, row, move);
	row->columns = column;
}

char *frame_bytes(const struct screen_frame *frame, size_t *size)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, size);

	if (!out)
		return NULL;
	for (int i = 0; i < frame->height; i++) {
		const struct screen_row *row = &frame->rows[i];

		fprintf(out, "\033[%d;1H%s", i + 1, row->text ? row->text : "");
		/* Behind the last column there is nothing to clear, and terminals would take the
		 * last character for it. */
		if (row->columns < frame->width)
			fputs("\033[K", out);
	}
	if (!fclose(out))
		return bytes;
	free(bytes);
	return NULL;
}
