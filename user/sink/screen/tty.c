/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/screen/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "util/last_words.h"

#define NO_SIZE_WIDTH  80
#define NO_SIZE_HEIGHT 24

bool tty_can_show(int out_fd)
{
	const char *term = getenv("TERM");
	pid_t group;

	if (!isatty(out_fd) || (term && !strcmp(term, "dumb")))
		return false;
	/* A terminal that is not the one of this session has no group to compare. */
	group = tcgetpgrp(out_fd);
	return group < 0 || group == getpgrp();
}

static void fill(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGWINCH);
	sigaddset(signals, SIGTSTP);
	sigaddset(signals, SIGCONT);
}

/* O_NONBLOCK is of the open file, which the shell shares: so it is opened anew. Where that may not
 * be, the modes have read() return at once. */
static int open_keys(int in_fd)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", in_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : fcntl(in_fd, F_DUPFD_CLOEXEC, 3);
}

int tty_open(struct tty *tty, int in_fd, int out_fd)
{
	sigset_t signals;
	int err;

	tty->keys = tty->signals = tty->err_pipe = tty->err_saved = -1;
	tty->said_length = 0;
	tty->taken = false;
	tty->fd = fcntl(out_fd, F_DUPFD_CLOEXEC, 3);
	if (tty->fd < 0)
		return -errno;
	if (isatty(in_fd) && !tcgetattr(in_fd, &tty->modes))
		tty->keys = open_keys(in_fd);
	fill(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	tty->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (tty->signals >= 0)
		return 0;
	err = -errno;
	tty_close(tty);
	return err;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void tty_close(struct tty *tty)
{
	tty_give_back(tty);
	close_fd(&tty->fd);
	close_fd(&tty->keys);
	close_fd(&tty->signals);
}

/* ---- modes ---- */

static void set_modes(const struct tty *tty)
{
	struct termios modes = tty->modes;

	if (tty->keys < 0)
		return;
	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL | IEXTEN);
	modes.c_cc[VMIN] = modes.c_cc[VTIME] = 0;
	/* Ctrl-Z is a key: the screen is left before the job stops. */
	modes.c_cc[VSUSP] = _POSIX_VDISABLE;
	tcsetattr(tty->keys, TCSANOW, &modes);
}

static void keep_stderr_out(struct tty *tty)
{
	int ends[2];

	if (tty->err_saved >= 0 || !isatty(STDERR_FILENO))
		return;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return;
	tty->err_saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (tty->err_saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0) {
		tty->err_pipe = ends[0];
	} else {
		close_fd(&tty->err_saved);
		close(ends[0]);
	}
	close(ends[1]);
}

void tty_take(struct tty *tty)
{
	tty->taken = true;
	if (tty->keys >= 0)
		last_words_keep(tty->keys, &tty->modes);
	set_modes(tty);
	keep_stderr_out(tty);
}

static void keep_said(struct tty *tty, const char *text, size_t length)
{
	if (length > sizeof(tty->said))
		return;
	if (tty->said_length + length > sizeof(tty->said)) {
		size_t gone = tty->said_length + length - sizeof(tty->said);

		memmove(tty->said, tty->said + gone, tty->said_length - gone);
		tty->said_length -= gone;
	}
	memcpy(tty->said + tty->said_length, text, length);
	tty->said_length += length;
}

bool tty_take_line(struct tty *tty, char *line, size_t size)
{
	size_t length = 0, used = 0;
	char byte;

	while (tty->err_pipe >= 0 && read(tty->err_pipe, &byte, 1) == 1) {
		keep_said(tty, &byte, 1);
		used++;
		if (byte == '\n')
			break;
		if (length + 1 < size)
			line[length++] = byte;
	}
	line[length] = 0;
	return used > 0;
}

/* A terminal that has room takes a line. */
static bool put_at_once(int fd, const char *text, size_t length)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	return poll(&room, 1, 0) == 1 && room.revents & POLLOUT && write(fd, text, length) >= 0;
}

void tty_put(const struct tty *tty, const char *text)
{
	put_at_once(tty->fd, text, strlen(text));
}

void tty_give_back(struct tty *tty)
{
	char line[512];

	if (tty->taken && tty->keys >= 0 && tty_is_ours(tty))
		tcsetattr(tty->keys, TCSANOW, &tty->modes);
	tty->taken = false;
	last_words_keep(-1, NULL);
	if (tty->err_saved < 0)
		return;
	while (tty_take_line(tty, line, sizeof(line)))
		;
	dup2(tty->err_saved, STDERR_FILENO);
	close_fd(&tty->err_saved);
	close_fd(&tty->err_pipe);
	for (size_t at = 0; at < tty->said_length;) {
		const char *end = memchr(tty->said + at, '\n', tty->said_length - at);
		size_t length = (end ? (size_t)(end - tty->said) + 1 : tty->said_length) - at;

		if (!put_at_once(STDERR_FILENO, tty->said + at, length))
			break;
		at += length;
	}
	tty->said_length = 0;
}

/* ---- what it is like ---- */

bool tty_is_ours(const struct tty *tty)
{
	pid_t group = tcgetpgrp(tty->fd);

	return group < 0 || group == getpgrp();
}

void tty_size(const struct tty *tty, int *width, int *height)
{
	struct winsize size = {0};

	if (ioctl(tty->fd, TIOCGWINSZ, &size))
		size.ws_col = size.ws_row = 0;
	*width = size.ws_col ? size.ws_col : NO_SIZE_WIDTH;
	*height = size.ws_row ? size.ws_row : NO_SIZE_HEIGHT;
}

void tty_stop(bool job)
{
	sigset_t stop;

	signal(SIGTSTP, SIG_DFL);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	if (job)
		kill(0, SIGTSTP);
	else
		raise(SIGTSTP);
	/* Here it stops; a job that nobody could continue does not. */
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}
