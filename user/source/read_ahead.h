/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a recording with the records in them. A second thread reads and parses ahead of the
 * caller, in bounded memory, because that is most of the work of a report. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct parsed_record;

struct read_line {
	char *line; /* without its newline */
	size_t length, room;
	bool torn, too_long; /* as of line_reader.h: nothing of it was parsed */
	int err;             /* of record_parse() */
	char why[160];
	/* May be NULL. Who sets it to NULL has taken it over. */
	struct parsed_record *parsed;
};

struct read_ahead;

/* The file stays the caller's, who closes it behind read_ahead_free(). NULL: no memory. */
struct read_ahead *read_ahead_new(FILE *in);
/* Ends the second thread, which waits for nothing but a file. */
void read_ahead_free(struct read_ahead *ahead);
/* The next line, in the order of the file; valid until the next call. 1; 0: the end of the file;
 * -errno. */
int read_ahead_next(struct read_ahead *ahead, struct read_line **line);
