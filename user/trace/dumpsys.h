/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of `dumpsys SurfaceFlinger --latency LAYER` and `dumpsys gfxinfo PACKAGE framestats`. */
#pragma once
#include "jankscope/timeline.h"

#define FRAMESTATS_COLUMNS 32

struct dumpsys {
	const struct trace_events *events;
	void *ctx;
	bool in_profile; /* between two ---PROFILEDATA--- lines */
	bool has_header;
	int columns[FRAMESTATS_COLUMNS]; /* enum framestats_column of each column, -1: unknown */
	unsigned column_count;
	int32_t pid;
	char package[256];
	size_t package_size;
	char window[256];
	size_t window_size;
	unsigned sections; /* of this process so far */
	uint64_t rows, summary_lines;
	int64_t counters[GFX_COUNTERS]; /* of this process, each + 1; 0: not seen */
};

/* True when the line belongs to one of these dumps and was taken. */
bool dumpsys_line(struct dumpsys *dumpsys, const char *line, size_t size);
/* The text ends: tell of the last process. */
void dumpsys_finish(struct dumpsys *dumpsys);
