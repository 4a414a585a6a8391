/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables for people: as wide as the terminal, losses and self cost on every interval, a summary
 * last. */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* Narrower terminals get lines of this width. */
#define TABLE_MIN_WIDTH 20

struct table_options {
	size_t top;      /* rows of processes and threads an interval shows; 0: all */
	unsigned width;  /* columns */
	bool colour;     /* the terminal shows colours */
	bool ascii;      /* it is a terminal, and shows ASCII only */
	bool wall_clock; /* false: time since the first record (tests, recordings) */
	bool native;     /* stacks of Java methods with ART's own frames */
	bool verbose;    /* what was late or repaired on each interval, too */
};

/* Writes to a stdio stream that stays the caller's. NULL with errno ENOMEM. */
struct sink *table_sink_new(FILE *out, const struct table_options *options);
/* Writes to a descriptor that stays the caller's, by a process of its own (sink/writer.h): what is
 * not read is dropped by whole records, counted, and said in the next one that gets out. NULL with
 * errno. */
struct sink *table_sink_fd(int fd, const struct table_options *options);
