/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/user_signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/session.h"
#include "util/last_words.h"

static void fill(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
}

static void exit_at_once(int number)
{
	last_words_say();
	_exit(EXIT_INTERRUPTED);
}

/* After the first signal was taken; wherever we are then. A SIGHUP is no word of the user: of one
 * terminal that goes away there are several, from the kernel and from the shell. */
static void let_the_second_end_us(void)
{
	struct sigaction action = {.sa_handler = exit_at_once, .sa_flags = SA_RESTART};
	sigset_t signals;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGHUP, SIG_IGN);
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
	struct sigaction hangup;
	sigset_t signals;

	fill(&signals);
	/* By nohup; a signal that is blocked comes although it is ignored. */
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler == SIG_IGN)
		sigdelset(&signals, SIGHUP);
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
