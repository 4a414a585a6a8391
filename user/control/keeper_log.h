/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a keeper: what its recorders say on stderr, and what becomes of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct keeper_log {
	int dir_fd, fd; /* fd -1: the file cannot be opened */
	size_t bytes;
	size_t length; /* of a line that has no end yet */
	char line[512];
};

/* Open the log (mode 0600, never through a link); what it holds stays. */
void keeper_log_open(struct keeper_log *log, int dir_fd);
/* Add bytes of any kind: each line gets its time, and '?' for what would control a terminal. At 128
 * KiB the file becomes KEEPER_LOG_OLD, and a new one begins. */
void keeper_log_write(struct keeper_log *log, const char *bytes, size_t length);
void __attribute__((format(printf, 2, 3)))
keeper_log_say(struct keeper_log *log, const char *format, ...);
