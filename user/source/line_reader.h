/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a file, in bounded memory. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#define LINE_READER_BLOCK 65536

struct line_reader {
	FILE *in;
	char *line; /* without its newline; free() it at the end */
	size_t length, room;
	bool torn;       /* the file ended before the newline */
	bool too_long;   /* above RECORDING_MAX_LINE: its rest was passed over */
	int err;         /* of the read behind the block */
	size_t at, held; /* of the block: what is not taken yet, and its end */
	char block[LINE_READER_BLOCK];
};

/* Read the next line. 1; 0: the end of the file; -errno. */
int line_reader_next(struct line_reader *reader);
