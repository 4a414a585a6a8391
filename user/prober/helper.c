/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/channel.h"
#include "util/child.h"
#include "util/resident.h"

#define SOCKET_FD 3

/* comm has room for 15 characters */
static const char *const names[HELPER_KINDS] = {
	[HELPER_WARDEN] = "jank-warden",   [HELPER_PROBER] = "jank-prober",
	[HELPER_SAMPLER] = "jank-sampler", [HELPER_UNWINDER] = "jank-unwinder",
	[HELPER_ASKER] = "jank-asker",     [HELPER_POWER] = "jank-power",
	[HELPER_RUNNER] = "jank-runner",
};

/* What ends or stops the recorder from a terminal is the recorder's affair: its helpers end when
 * their sockets do. */
static void set_signals(void)
{
	static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGALRM, SIGTERM,
				      SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ};
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		if (i != SIGKILL && i != SIGSTOP)
			signal(i, SIG_DFL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The socket becomes descriptor 3, /dev/null the three below it, and there is no other. */
static void set_descriptors(int socket)
{
	int null, last = STDERR_FILENO;

#ifdef __SANITIZE_ADDRESS__
	last = STDOUT_FILENO; /* the sanitizers speak on stderr */
#endif
	/* Out of the way of the numbers below; and /dev/null is opened after 3 is taken, which may
	 * have been free. */
	socket = fcntl(socket, F_DUPFD_CLOEXEC, SOCKET_FD + 1);
	if (socket < 0 || dup3(socket, SOCKET_FD, O_CLOEXEC) < 0)
		_exit(1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= last; fd++)
		if (null < 0 || (null == fd ? 0 : dup2(null, fd)) < 0)
			close(fd);
	child_keep_only((const int[]){SOCKET_FD}, 1);
}

/* Which process goes first where memory is short, the recorder last: a helper is made again, and
 * what it worked on is counted; the unwinder, whose memory a target decides on, before the others.
 * One that a prober forked has the prober's score. */
static void set_oom_score(enum helper_kind kind)
{
	static const char *const scores[HELPER_KINDS] = {
		[HELPER_WARDEN] = "0",      [HELPER_PROBER] = "800", [HELPER_SAMPLER] = "600",
		[HELPER_UNWINDER] = "1000", [HELPER_ASKER] = "800",  [HELPER_POWER] = "800",
		[HELPER_RUNNER] = "0", /* what it starts is no part of the tool */
	};
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	/* A score below zero is what protects the recorder's session, and its warden. */
	if (fd >= 0 && (kind != HELPER_WARDEN || atoi(text) > 0) &&
	    pwrite(fd, scores[kind], strlen(scores[kind]), 0) < 0)
		text[0] = 0; /* it is none the worse for it than any process */
	if (fd >= 0)
		close(fd);
}

/* What a helper may take at the most that reads what a target, a driver or another process decides
 * on: a length that a check let pass costs the helper, and not the device its memory. Such a helper
 * has an anonymous memory of some MiB and 1 % of a CPU; one that used up its time in a run of weeks
 * is replaced. The limits are soft, because a helper may have to fork the warden, which has none:
 * the runner's commands come from it. The unwinder sets narrower ones itself (stack/sandbox.c). */
static void set_limits(enum helper_kind kind)
{
	static const bool reads[HELPER_KINDS] = {
		[HELPER_PROBER] = true,
		[HELPER_SAMPLER] = true,
		[HELPER_ASKER] = true,
		[HELPER_POWER] = true,
	};
	static const struct {
		int resource;
		rlim_t limit;
	} limits[] = {
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone is larger */
		{RLIMIT_AS, HELPER_ADDRESS_BYTES},
#endif
		{RLIMIT_CPU, HELPER_CPU_S},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct rlimit limit;

		if (getrlimit(limits[i].resource, &limit))
			continue;
		if (reads[kind] && limits[i].limit < limit.rlim_cur)
			limit.rlim_cur = limits[i].limit;
		else if (!reads[kind] && limit.rlim_cur == limits[i].limit)
			limit.rlim_cur = limit.rlim_max; /* it was forked by one that has it */
		setrlimit(limits[i].resource, &limit);
	}
}

void helper_begin(enum helper_kind kind, int *socket)
{
	struct helper_hello hello = {.type = HELPER_HELLO, .kind = kind, .pid = getpid()};
	struct iovec part = {&hello, sizeof(hello)};
	struct sched_param ordinary = {0};
	struct rlimit no_core = {0};
	bool batch = kind == HELPER_UNWINDER;
	int pidfd = -1, err;

	prctl(PR_SET_NAME, names[kind]);
	/* glibc gives each thread a heap of its own, with pages that the others never use. */
	mallopt(M_ARENA_MAX, 1);
	setsid();
	set_signals();
	set_descriptors(*socket);
	*socket = SOCKET_FD;
	/* A recorder that has given up its rights could not make it so. */
	channel_widen(*socket);
	if (chdir("/"))
		_exit(1);
	setrlimit(RLIMIT_CORE, &no_core);
	set_limits(kind);
	/* A batch process that is woken does not take the CPU from whoever runs: a recorder that
	 * sends the unwinder what it has would be switched out amid its turn. */
	sched_setscheduler(0, batch ? SCHED_BATCH : SCHED_OTHER, &ordinary);
	setpriority(PRIO_PROCESS, 0, 0);
	set_oom_score(kind);
	/* These two answer within a deadline. */
	if (kind == HELPER_PROBER || kind == HELPER_SAMPLER)
		resident_keep();
#ifdef SYS_pidfd_open
	pidfd = (int)syscall(SYS_pidfd_open, hello.pid, 0);
#endif
	err = channel_send(*socket, &part, 1, &pidfd, pidfd >= 0);
	if (err)
		_exit(1);
	if (pidfd >= 0)
		close(pidfd);
}

/* The child in between ends at once, so that the warden becomes a child of the recorder, which
 * reaps it, and not of this process. */
int helper_fork_warden(int socket)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			warden_main(socket);
		_exit(pid < 0);
	}
	while (waitpid(pid, NULL, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

bool helper_take_hello(struct helper *helper, const void *message, size_t length, const int *fds,
		       size_t fd_count)
{
	struct helper_hello hello;

	if (length != sizeof(hello))
		return false;
	memcpy(&hello, message, sizeof(hello));
	if (hello.type != HELPER_HELLO || hello.kind != (uint32_t)helper->kind)
		return false;
	/* Said once: what a process says later about itself is nothing to us. */
	if (helper->pid) {
		for (size_t i = 0; i < fd_count; i++)
			close(fds[i]);
		return true;
	}
	helper->pid = hello.pid;
	for (size_t i = 0; i < fd_count; i++) {
		if (helper->pidfd < 0)
			helper->pidfd = fds[i];
		else
			close(fds[i]);
	}
	return true;
}
