/* SPDX-License-Identifier: BSD-2-Clause */
/* What a forked child does first, and programs of the device that are run: perfetto, setprop,
 * getprop. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Close every descriptor above the standard three but those in `keep`: a process that waits for the
 * end of a pipe must not wait for a helper that has it by accident. */
void child_keep_only(const int *keep, size_t count);
/* In a forked child: give up a priority above nice 0, take default handlers and an empty mask for
 * all signals, and keep only these descriptors. */
void child_begin(const int *keep, size_t count);

/* Run a program to its end with nothing on stdin and its stderr dropped; output (may be NULL)
 * becomes the first line that it printed. It is killed after timeout_ns. 0; -ENOENT: there is no
 * such program; -EIO: it failed; -ETIMEDOUT; another -errno. */
int child_run(char *const argv[], char *output, size_t size, uint64_t timeout_ns);
