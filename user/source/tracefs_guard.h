/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of the machine that must be as before when we are gone, however we go. Old values are
 * written to a file before anything changes; a helper process puts them back when this process
 * ends or dies, and the next start does it where the helper died too. */
#pragma once
#include <stddef.h>

struct tracefs_guard;

/* Put back what a dead run left in state_path, then start the helper. 0; -EBUSY: another run is
 * alive and owns the settings; other: reason[] says it. */
int tracefs_guard_start(struct tracefs_guard **guard, const char *state_path, char *reason,
			size_t size);
/* Write a value to a file, after its old one was saved. A file that shows "[a] b c" is saved as the
 * a. 0 or -errno. */
int tracefs_guard_write(struct tracefs_guard *guard, const char *path, const char *value);
/* Add permission bits to a file. 0 or -errno. */
int tracefs_guard_allow(struct tracefs_guard *guard, const char *path, unsigned mode);
/* Set a system property with setprop, where there is one. 0, -ENOENT or -EIO. */
int tracefs_guard_property(struct tracefs_guard *guard, const char *name, const char *value);
/* Put everything back and end the helper; waits for it. NULL is fine. */
void tracefs_guard_end(struct tracefs_guard *guard);

/* First line of a file without its newline. 0 or -errno. */
int tracefs_read_line(const char *path, char *line, size_t size);
/* The whole of a small file, terminated. Bytes read or -errno. */
int tracefs_read_file(const char *path, char *text, size_t size);
