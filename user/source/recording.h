/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a recording back: what is whole of it, and what is damaged. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "jankscope/record.h"

/* Lines longer than this are not ours. */
#define RECORDING_MAX_LINE (64u << 20)

struct recording_counts {
	uint64_t lines, rejected, blocks;
	uint64_t damages; /* of all kinds, those told */
	int64_t schema;   /* of the header; 0: none was read */
	int writer;       /* of a folder: the pid of who writes it now; 0: nobody does */
};

/* The callbacks may be NULL. A record and what it points to is valid during the call. A negative
 * return ends the walk. */
struct recording_reader {
	/* The last record of a block, with the stacks that followed it. */
	int (*block)(void *ctx, const struct record_block *block);
	/* Something is wrong at a line (from 1): a checksum, a gap in seq, a torn end, no header or
	 * footer, a key that is not as the table of fields says. */
	void (*damage)(void *ctx, uint64_t line, const char *what);
	/* Of a folder: the lines and damages that follow are of this file of it. */
	void (*segment)(void *ctx, const char *name);
	/* Every record in the order of the file, as it stands there; the footer behind all
	 * blocks. Of a folder the header of each run comes once, and not again with each segment.
	 */
	int (*record)(void *ctx, const struct record *record);
	void *ctx;
};

/* Call reader->block for the last record of every block of a JSON Lines file, with the stacks that
 * followed it: the end of each, or how far it went where the file ends before. Only lines whose
 * checksum is right are believed. A folder of segments (store/README.md) is read like one file,
 * also while it is being written; gaps that the recording itself explains are no damage there. 0;
 * -errno of opening and reading; -EBADMSG: not one line is a record; -EPROTONOSUPPORT: the schema
 * is newer than RECORD_SCHEMA; what a callback returned. */
int recording_read(const char *path, const struct recording_reader *reader,
		   struct recording_counts *counts);
