/* SPDX-License-Identifier: BSD-2-Clause */
/* SIGINT, SIGTERM and SIGHUP of the user: the first ends the run in order, a second SIGINT or
 * SIGTERM at once. */
#pragma once

/* Blocks the three (a SIGHUP that is ignored stays so) and ignores what else would end a process by
 * default (SIGPIPE, SIGUSR1 ...), but for SIGQUIT and what tells of a fault: call before any thread
 * is made. A signalfd, owned by the caller, or -1 with errno. */
int user_signals_open(void);
/* The first one was taken from the signalfd: from here on SIGINT and SIGTERM end the process at
 * once, and SIGHUP is ignored. */
void user_signals_taken(int signal_fd);
