/* SPDX-License-Identifier: BSD-2-Clause */
/* A struct stack_files that reads the target itself, and may hang with it: for tests, and for
 * programs that do nothing else. */
#pragma once
#include "jankscope/stack.h"

/* ctx of these is the prefix of /proc, "" on this machine. */
struct stack_files files_direct(const char *root);

/* The text of /proc/PID/maps, malloc'ed. 0; -ESRCH: the process is gone; -EFBIG above 64 MiB. */
int files_direct_maps(const char *root, pid_t pid, char **text, size_t *length);
