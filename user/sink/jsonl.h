/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON Lines: one record a line, one write a line, and never half a line in a file. A process of
 * its own writes (sink/writer.h). */
#pragma once
#include <stddef.h>

#include "jankscope/sink.h"
#include "store/store.h"

/* A file, opened now, so that a path that cannot be written is known before the run (see
 * output_file_open for what is refused; may wait for the file system, before signals are blocked).
 * What it holds stays until the first record; a file made here that got no record is removed. NULL
 * with errno and, where that does not tell, the reason in why. */
struct sink *jsonl_sink_open(const char *path, bool overwrite, char *why, size_t why_size);
/* A folder of segments (store/README.md), opened and locked now. As jsonl_sink_open(). */
struct sink *jsonl_sink_folder(const char *path, const struct store_options *store, char *why,
			       size_t why_size);
/* A descriptor that stays the caller's (stdout). NULL with errno. */
struct sink *jsonl_sink_fd(int fd);
