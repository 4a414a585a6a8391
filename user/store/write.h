/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing a recording into a folder, in the writer process: it may wait for the disk as long as
 * that takes. Nothing that fails here ends the recording: what cannot be written stays with the
 * caller, which tries again or drops the oldest of it. */
#pragma once
#include <stdint.h>

#include "store/store.h"

struct store_writer;

/* Open and lock the folder (store/folder.h says what is refused), see what it holds, and begin to
 * compress what an earlier run left. NULL with errno, and the reason in why where errno does not
 * tell it. */
struct store_writer *store_writer_open(const char *path, const struct store_options *options,
				       struct store_notices *notices, char *why, size_t why_size);
/* Write a line with its newline; the header of a run comes first. 0; -EAGAIN: not now (full disk,
 * error): it stays the caller's. */
int store_writer_put(struct store_writer *writer, const char *line, size_t length);
/* A line that was not written and finds no room any more: it is counted and told. */
void store_writer_drop(struct store_writer *writer, const char *line, size_t length);
/* What is due by time: fdatasync, limits, files that somebody else took. 0; -ENOENT: the folder
 * itself was removed, and nothing can be written there any more. */
int store_writer_tick(struct store_writer *writer);
/* When to call store_writer_tick or to try again: in so many ms; -1: whenever there is a line. */
int store_writer_timeout_ms(const struct store_writer *writer);
/* Try again at the next put, though the time for that has not come. */
void store_writer_retry(struct store_writer *writer);
/* Nothing more comes: sync and close. 0, or the error for which the last line was not written. */
int store_writer_end(struct store_writer *writer);
/* Descriptors that a process must keep for it; their number, at most 4. */
size_t store_writer_fds(const struct store_writer *writer, int fds[4]);
/* Bytes of whole lines that were written. */
uint64_t store_writer_bytes(const struct store_writer *writer);
