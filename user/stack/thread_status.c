/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc says of a thread. No allocation and no stdio streams: the ptrace worker calls this. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stack/capture.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"

enum stack_failure thread_status_read(const char *root, pid_t pid, pid_t tid,
				      struct thread_status *status)
{
	char text[1024];
	struct proc_stat stat;
	ssize_t n = proc_read_of_thread(root, pid, tid, "stat", text, sizeof(text));

	if (n <= 0 || proc_parse_stat(text, (size_t)n, &stat))
		return STACK_GONE;
	status->state = stat.state;
	status->kernel_thread = proc_stat_is_kernel_thread(&stat);
	status->start_ticks = stat.start_ticks;
	status->cpu = stat.cpu;
	return proc_stat_is_over(&stat) ? STACK_GONE : STACK_OK;
}

enum stack_failure thread_identity(const char *root, const struct stack_thread *thread)
{
	struct thread_status status;
	struct pollfd pollfd = {.fd = thread->pidfd, .events = POLLIN};
	enum stack_failure failure;

	/* A pidfd that is not readable says that the process has not ended, so that its number
	 * still is its own: no need to read a file for the leader. */
	if (thread->pidfd >= 0) {
		if (poll(&pollfd, 1, 0) == 1)
			return STACK_GONE;
		if (thread->tid == thread->pid)
			return STACK_OK;
	}
	failure = thread_status_read(root, thread->pid, thread->tid, &status);
	if (failure)
		return failure;
	if (thread->start_boot_ns && status.start_ticks != thread->start_boot_ns / PROC_TICK_NS)
		return STACK_REUSED;
	return STACK_OK;
}

pid_t thread_tracer(const char *root, pid_t pid, pid_t tid)
{
	struct proc_status status;
	char text[4096];

	if (proc_read_of_thread(root, pid, tid, "status", text, sizeof(text)) <= 0)
		return -1;
	proc_parse_status(text, &status);
	return status.tracer;
}

/* Reading a pipe restarts; reading a socket with a time-out, an inotify or a terminal may not. */
static bool is_pipe(const char *root, pid_t pid, long fd)
{
	char path[512], link[32];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/proc/%d/fd/%ld", root ? root : "", pid, fd);
	n = readlink(path, link, sizeof(link));
	return n > 5 && !memcmp(link, "pipe:", 5);
}

bool thread_sleep_restarts(const char *root, pid_t pid, pid_t tid)
{
	char text[256], *end;
	long number;

	/* A thread that is gone by now shows at the next step. */
	if (proc_read_of_thread(root, pid, tid, "syscall", text, sizeof(text)) <= 0)
		return true;
	number = strtol(text, &end, 10);
	if (end == text) /* "running" */
		return true;
	if (number == -1) /* in no system call: a page fault */
		return true;
	switch (number) {
	case SYS_futex:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
#ifdef SYS_poll
	case SYS_poll:
#endif
#ifdef SYS_pause
	case SYS_pause:
#endif
	case SYS_restart_syscall:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_flock:
		return true;
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
		return is_pipe(root, pid, strtol(end, NULL, 16));
	}
	return false;
}

bool thread_is_compat(const char *root, pid_t pid)
{
	int dirfd = proc_open(root, pid);
	bool compat = dirfd >= 0 && proc_is_32_bit(dirfd);

	if (dirfd >= 0)
		close(dirfd);
	return compat;
}
