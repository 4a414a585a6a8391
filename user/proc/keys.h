/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of lines "Key: NUMBER" and "Key: NUMBER kB": /proc/meminfo, /proc/PID/status, io,
 * smaps_rollup, fdinfo. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "jankscope/record.h"

struct proc_key {
	const char *key; /* without its colon */
	size_t offset;   /* of a struct opt_u64 */
};

/* A line [line, end), without its newline, gives the value of its key, if that is one of these and
 * has none yet. A number in kB becomes bytes. What is no whole number from 0 to 2^64 - 1, before or
 * after that, gives none. True: the line has one of these keys. */
bool proc_take_key(const char *line, const char *end, const struct proc_key *keys, size_t count,
		   void *out);
/* All lines of a text that have an end. */
void proc_parse_keys(const char *text, size_t length, const struct proc_key *keys, size_t count,
		     void *out);
