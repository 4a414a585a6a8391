/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables for people: at most 80 columns, losses and self cost on every interval, a summary last. */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

struct table_options {
	size_t top;      /* rows of tasks an interval shows */
	unsigned width;  /* columns; 80 at the least */
	bool wall_clock; /* false: time since the first record (tests, recordings) */
	bool verbose;    /* what was late or repaired on each interval, too */
};

/* Writes to a stdio stream that stays the caller's. NULL with errno ENOMEM. */
struct sink *table_sink_new(FILE *out, const struct table_options *options);
/* Writes to a descriptor that stays the caller's, by a process of its own (sink/writer.h): what is
 * not read is dropped by whole records, counted, and said in the next one that gets out. NULL with
 * errno. */
struct sink *table_sink_fd(int fd, const struct table_options *options);
