/* SPDX-License-Identifier: BSD-2-Clause */
/* The terminal that a live screen is on: its modes, its size, its keys, the signals that are about
 * it, and stderr, which would write into the screen. Nothing here waits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <termios.h>

/* Into the other screen of the terminal, without a cursor and without lines that go on in the next
 * one; and back. */
#define TTY_ENTER "\033[?1049h\033[?25l\033[?7l\033[0m\033[2J"
#define TTY_LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

#define TTY_SAID 8192

struct tty {
	int fd;   /* of the terminal, for sizes and modes; -1: none */
	int keys; /* of stdin, does not block; -1: there are no keys */
	int signals;
	bool taken;
	struct termios modes;    /* as they were; valid where keys are */
	int err_pipe, err_saved; /* of stderr while the screen is shown; -1: it is as it was */
	char said[TTY_SAID];     /* on stderr meanwhile, the newest */
	size_t said_length;
};

/* Whether out_fd is a terminal that shows a screen: not dumb, and ours to write to now. */
bool tty_can_show(int out_fd);
/* 0 or -errno. Blocks SIGWINCH, SIGTSTP and SIGCONT and ignores SIGTTIN and SIGTTOU: call it before
 * any thread is made. */
int tty_open(struct tty *tty, int in_fd, int out_fd);
void tty_close(struct tty *tty);
/* Keys come one by one and are not shown; what stderr gets goes into a pipe. */
void tty_take(struct tty *tty);
/* As it was before tty_take(), unless another job has the terminal by now; what stderr got
 * meanwhile is printed where it takes it. */
void tty_give_back(struct tty *tty);
/* The process is the one that the terminal listens to. */
bool tty_is_ours(const struct tty *tty);
/* At least 1 x 1; 80 x 24 where the terminal does not tell. */
void tty_size(const struct tty *tty, int *width, int *height);
/* Write a few bytes, where the terminal takes them at once. */
void tty_put(const struct tty *tty, const char *text);
/* What was written to stderr since: one whole line, without its newline. False: none. */
bool tty_take_line(struct tty *tty, char *line, size_t size);
/* Stop as Ctrl-Z stops a program, all processes of the job where `job` is set. Returns when it goes
 * on. */
void tty_stop(bool job);
