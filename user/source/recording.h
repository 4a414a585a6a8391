/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a recording back: its block records. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "jankscope/record.h"

/* Lines longer than this are not ours. */
#define RECORDING_MAX_LINE (64u << 20)

struct recording_counts {
	uint64_t lines, rejected, blocks;
};

/* The record and what it points to is valid during the call. A negative return ends the walk. */
typedef int (*recording_block_fn)(void *ctx, const struct record_block *block);

/* Call callback for the last record of every block of a JSON Lines file: the end of each, or how
 * far it went where the file ends before. Lines that are no records are counted and passed over. 0;
 * -errno of opening and reading; -EBADMSG: not one line is a record; what the callback returned. */
int recording_each_block(const char *path, recording_block_fn callback, void *ctx,
			 struct recording_counts *counts);
