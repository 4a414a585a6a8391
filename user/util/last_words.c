/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/last_words.h"

#include <signal.h>
#include <stdatomic.h>

/* A handler has nothing else to find it by. */
static struct {
	volatile sig_atomic_t kept;
	int fd;
	struct termios modes;
} words;

void last_words_keep(int fd, const struct termios *modes)
{
	words.kept = 0;
	atomic_signal_fence(memory_order_seq_cst);
	if (!modes)
		return;
	words.fd = fd;
	words.modes = *modes;
	atomic_signal_fence(memory_order_seq_cst);
	words.kept = 1;
}

void last_words_say(void)
{
	if (words.kept)
		tcsetattr(words.fd, TCSANOW, &words.modes);
}
