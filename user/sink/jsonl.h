/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON Lines: one record a line, one write a line, and never half a line in a file. */
#pragma once
#include "jankscope/sink.h"

/* A file, opened now, so that a path that cannot be written is known before the run. What it holds
 * stays until the first record; a file made here that got no record is removed. NULL with errno
 * (EISDIR for a folder). */
struct sink *jsonl_sink_open(const char *path);
/* A descriptor that stays the caller's (stdout). NULL with errno. */
struct sink *jsonl_sink_fd(int fd);
