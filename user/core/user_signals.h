/* SPDX-License-Identifier: BSD-2-Clause */
/* SIGINT, SIGTERM and SIGHUP of the user: the first ends the run in order, the second at once. */
#pragma once
#include <signal.h>
#include <stdbool.h>

/* Blocks the three and ignores SIGPIPE: call before any thread is made. A signalfd, owned by the
 * caller, or -1 with errno. */
int user_signals_open(void);
/* The first one was taken from the signalfd: from here on another ends the process at once. */
void user_signals_taken(int signal_fd);
/* Around a write(2) to a reader that may not read (a full pipe): signals are let in there, so that
 * the second one ends us. user_signals_end_write() is true if one came. */
void user_signals_begin_write(sigset_t *before);
bool user_signals_end_write(const sigset_t *before);
