/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/user_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "core/session.h"

static void fill(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
}

static void handle(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

static void exit_at_once(int number)
{
	_exit(EXIT_INTERRUPTED);
}

/* After the first signal was taken; wherever we are then. */
static void let_the_second_end_us(void)
{
	sigset_t signals;

	handle(exit_at_once);
	fill(&signals);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static volatile sig_atomic_t signals_while_writing;

static void end_after_write(int number)
{
	if (signals_while_writing++)
		_exit(EXIT_INTERRUPTED);
}

int user_signals_open(void)
{
	sigset_t signals;

	fill(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	handle(end_after_write);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void user_signals_taken(int signal_fd)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	let_the_second_end_us();
}

void user_signals_begin_write(sigset_t *before)
{
	sigset_t signals;

	fill(&signals);
	sigprocmask(SIG_UNBLOCK, &signals, before);
}

bool user_signals_end_write(const sigset_t *before)
{
	sigprocmask(SIG_SETMASK, before, NULL);
	if (signals_while_writing)
		let_the_second_end_us();
	return signals_while_writing;
}
