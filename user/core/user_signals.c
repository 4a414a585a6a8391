/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/user_signals.h"

#include <signal.h>
#include <stddef.h>
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

/* Default handlers of these would end the run without a footer. */
static void ignore_others(void)
{
	static const int numbers[] = {SIGPIPE, SIGUSR1, SIGUSR2,   SIGALRM, SIGVTALRM,
				      SIGPROF, SIGIO,   SIGSTKFLT, SIGPWR,  SIGXFSZ};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		signal(numbers[i], SIG_IGN);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		signal(number, SIG_IGN);
}

int user_signals_open(void)
{
	sigset_t signals;

	fill(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	ignore_others();
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void user_signals_taken(int signal_fd)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	let_the_second_end_us();
}
