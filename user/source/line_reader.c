/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/line_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/recording.h"

/* A file in which a line is longer has no end that anybody waits for. */
#define MOST_BYTES (16ull * RECORDING_MAX_LINE)

/* What is beyond the longest line is passed over. */
static int put(struct line_reader *reader, const char *bytes, size_t count)
{
	size_t room = reader->room ? reader->room : 4096;
	char *line;

	if (count > RECORDING_MAX_LINE - reader->length) {
		count = RECORDING_MAX_LINE - reader->length;
		reader->too_long = true;
	}
	while (room < reader->length + count)
		room *= 2;
	if (room > reader->room) {
		line = realloc(reader->line, room);
		if (!line)
			return -ENOMEM;
		reader->line = line;
		reader->room = room;
	}
	memcpy(reader->line + reader->length, bytes, count);
	reader->length += count;
	return 0;
}

/* 1, 0: the end of the file, -errno. */
static int fill_block(struct line_reader *reader)
{
	if (reader->err)
		return reader->err;
	errno = 0;
	reader->at = 0;
	reader->held = fread(reader->block, 1, sizeof(reader->block), reader->in);
	if (ferror(reader->in))
		reader->err = errno ? -errno : -EIO;
	return reader->held ? 1 : reader->err;
}

int line_reader_next(struct line_reader *reader)
{
	const char *begin, *newline = NULL;
	bool any = false;
	size_t count, passed = 0;
	int err = 0, more = 1;

	reader->length = 0;
	reader->torn = reader->too_long = false;
	while (!err && !newline) {
		if (reader->at == reader->held && (more = fill_block(reader)) <= 0)
			break;
		begin = reader->block + reader->at;
		newline = memchr(begin, '\n', reader->held - reader->at);
		count = newline ? (size_t)(newline - begin) : reader->held - reader->at;
		err = put(reader, begin, count);
		reader->at += count + (newline != NULL);
		any = true;
		/* Compressed or sparse, that much without an end is a few bytes. */
		passed += count;
		if (passed > MOST_BYTES)
			err = -EMSGSIZE;
	}
	if (err || more < 0)
		return err ? err : more;
	if (!any)
		return 0;
	reader->torn = !newline;
	return 1;
}
