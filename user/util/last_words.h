/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process that a signal ends at once still does for its terminal: a shell takes the modes
 * that a program leaves behind for its own. */
#pragma once
#include <termios.h>

/* Modes to give back to the terminal fd, which stays the caller's; NULL: nothing. Not to be called
 * by handlers of signals. */
void last_words_keep(int fd, const struct termios *modes);
/* Give them back. May be called by handlers of signals. */
void last_words_say(void);
