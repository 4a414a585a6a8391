/* SPDX-License-Identifier: BSD-2-Clause */
/* A line on a terminal that says how far a long read is, from its third second on. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
	int fd; /* -1: no terminal, and nothing is said */
	const char *what, *unit;
	uint64_t begun_ns, told_ns, count, looked;
	bool shown;
};

/* what: a clean text that lives until the end; unit: what is counted ("records"). Nothing is shown
 * where fd is no terminal. */
void progress_begin(struct progress *progress, int fd, const char *what, const char *unit);
/* So many more are read. Costs an addition, and now and then a look at the clock. */
void progress_add(struct progress *progress, uint64_t count);
/* Take the line away: another one follows, or all is read. */
void progress_clear(struct progress *progress);
