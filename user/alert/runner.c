/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that runs the command of --on-alert. It reaps what it started, and kills what takes
 * too long; when the recorder is gone it goes too, and a command that runs is left alone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alert/wire.h"
#include "prober/warden.h"
#include "util/channel.h"
#include "util/child.h"
#include "util/clock.h"

struct running {
	pid_t pid; /* 0: free */
	bool killed;
	uint64_t until_ns;
};

struct runner {
	int socket, signals;
	struct running slots[COMMANDS_AT_ONCE];
};

/* Room for one message; it is hostile as any, though it comes from the recorder. */
struct message {
	struct run_request request;
	char bytes[COMMAND_BYTES + RUN_VARIABLES_BYTES];
};

static void answer(const struct runner *runner, enum run_end end, int status)
{
	struct run_answer answer = {.end = end, .status = status};
	struct iovec part = {&answer, sizeof(answer)};

	/* A recorder that does not listen loses a count. */
	channel_send(runner->socket, &part, 1, NULL, 0);
}

/* Pointers to `count` texts that fill `bytes`; false: they do not. */
static bool list_texts(char *text, size_t bytes, char **list, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; n++) {
		char *end = memchr(text + i, 0, bytes - i);

		if (n == count || !end)
			return false;
		list[n] = text + i;
		i = (size_t)(end - text) + 1;
	}
	list[n] = NULL;
	return n == count;
}

static void __attribute__((noreturn)) run(char **words, char **variables, int folder)
{
	/* Where that folder may not be entered any more, the command is not what the user meant. */
	if (folder >= 0 && fchdir(folder))
		_exit(RUN_NOT_FOUND);
	for (; *variables; variables++)
		putenv(*variables);
	setsid();
	child_begin(NULL, 0);
	execvp(words[0], words);
	_exit(RUN_NOT_FOUND);
}

static void start(struct runner *runner, struct message *message, size_t length, int folder)
{
	const struct run_request *request = &message->request;
	char *words[COMMAND_WORDS + 1], *variables[16 + 1];
	struct running *slot = runner->slots;

	while (slot < runner->slots + COMMANDS_AT_ONCE && slot->pid)
		slot++;
	if (slot == runner->slots + COMMANDS_AT_ONCE || length < sizeof(*request) ||
	    request->words > COMMAND_WORDS || !request->words || request->variables > 16 ||
	    request->word_bytes > COMMAND_BYTES || request->variable_bytes > RUN_VARIABLES_BYTES ||
	    length != sizeof(*request) + request->word_bytes + request->variable_bytes ||
	    !list_texts(message->bytes, request->word_bytes, words, request->words) ||
	    !list_texts(message->bytes + request->word_bytes, request->variable_bytes, variables,
			request->variables)) {
		answer(runner, RUN_REFUSED, 0);
		return;
	}
	slot->pid = fork();
	if (slot->pid == 0)
		run(words, variables, folder);
	if (slot->pid < 0) {
		slot->pid = 0;
		answer(runner, RUN_REFUSED, 0);
		return;
	}
	slot->killed = false;
	slot->until_ns = clock_now_ns(CLOCK_MONOTONIC) + COMMAND_NS;
	answer(runner, RUN_STARTED, 0);
}

/* What a command left behind becomes a child of this process, too. */
static void reap(struct runner *runner)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	while (read(runner->signals, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < COMMANDS_AT_ONCE; i++) {
			struct running *slot = &runner->slots[i];

			if (slot->pid != pid)
				continue;
			slot->pid = 0;
			answer(runner, slot->killed ? RUN_KILLED : RUN_ENDED, status);
		}
}

/* Its session with it, but for what has left it. Returns how long to the next, -1: there is none.
 */
static int kill_late(struct runner *runner)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), next_ns = UINT64_MAX;

	for (size_t i = 0; i < COMMANDS_AT_ONCE; i++) {
		struct running *slot = &runner->slots[i];

		if (!slot->pid || slot->killed)
			continue;
		if (now_ns >= slot->until_ns) {
			slot->killed = true;
			kill(-slot->pid, SIGKILL);
			kill(slot->pid, SIGKILL);
		} else if (slot->until_ns < next_ns) {
			next_ns = slot->until_ns;
		}
	}
	return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / NSEC_PER_MSEC) + 1;
}

void runner_main(int socket)
{
	struct runner runner = {0};
	static struct message message;
	sigset_t child;

	helper_begin(HELPER_RUNNER, &socket);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	runner.socket = socket;
	runner.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (runner.signals < 0)
		_exit(1);
	for (;;) {
		struct pollfd fds[] = {{socket, POLLIN, 0}, {runner.signals, POLLIN, 0}};
		int fds_sent[CHANNEL_FDS];
		size_t fd_count;
		ssize_t got;

		poll(fds, 2, kill_late(&runner));
		reap(&runner);
		while ((got = channel_receive(socket, &message, sizeof(message), fds_sent,
					      &fd_count)) != -EAGAIN) {
			if (got == 0)
				_exit(0);
			if (got > 0)
				start(&runner, &message, (size_t)got, fd_count ? fds_sent[0] : -1);
			else if (got != -EMSGSIZE)
				_exit(1);
			while (fd_count)
				close(fds_sent[--fd_count]);
		}
	}
}
