/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/line_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "source/recording.h"

static int put(struct line_reader *reader, char byte)
{
	if (reader->length == RECORDING_MAX_LINE) {
		reader->too_long = true;
		return 0;
	}
	if (reader->length == reader->room) {
		size_t room = reader->room ? 2 * reader->room : 4096;
		char *line = realloc(reader->line, room);

		if (!line)
			return -ENOMEM;
		reader->line = line;
		reader->room = room;
	}
	reader->line[reader->length++] = byte;
	return 0;
}

int line_reader_next(struct line_reader *reader)
{
	int byte, err = 0;

	reader->length = 0;
	reader->torn = reader->too_long = false;
	errno = 0;
	while (!err && (byte = getc_unlocked(reader->in)) != EOF && byte != '\n')
		err = put(reader, (char)byte);
	if (err)
		return err;
	if (ferror(reader->in))
		return errno ? -errno : -EIO;
	if (byte == EOF && !reader->length)
		return 0;
	reader->torn = byte == EOF;
	return 1;
}
