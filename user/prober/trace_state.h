/* SPDX-License-Identifier: BSD-2-Clause */
/* The file that keeps what settings were before a run changed them: lines of a number of
 * trace_settings.h and a value. It lies in a folder of our own below /run or /dev, which only root
 * can write to and which a reboot empties, as it does the settings. A file that is not ours (by
 * owner, mode, links, kind or size) is not read. Who holds the lock on it owns the settings. */
#pragma once
#include "prober/trace_settings.h"

struct trace_state;

/* Open and lock, below this folder (NULL: /run, else /dev). A file that cannot be trusted is
 * replaced by an empty one; then reason[] says so with 0 returned. -EBUSY: another run holds the
 * lock; another -errno: reason[] says it. */
int trace_state_open(struct trace_state **state, const char *parent, char *reason, size_t size);
/* Visit what it keeps, the newest line first; a line that is not whole or not valid is skipped. */
void trace_state_each(const struct trace_state *state,
		      void (*visit)(void *ctx, uint32_t setting, const char *value), void *ctx);
/* Append one; it is in the file when this returns. 0; -EINVAL; -E2BIG: too many; -errno. */
int trace_state_add(struct trace_state *state, uint32_t setting, const char *value);
/* Nothing is kept any more. */
void trace_state_clear(struct trace_state *state);
/* The descriptor, for a child that shall hold it and the lock. */
int trace_state_fd(const struct trace_state *state);
/* Put back what a dead run left; then nothing is kept. */
void trace_state_put_back(struct trace_state *state, int root);
/* Put back what the file behind this descriptor keeps, below root (trace_settings_root); then
 * nothing is kept, and the lock is free for all processes that have the descriptor. */
void trace_state_restore(int fd, int root);
/* Close; the lock stays with other processes that have the descriptor. NULL is fine. */
void trace_state_free(struct trace_state *state);
