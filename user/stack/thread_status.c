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
#include "target/procfs.h"

#define TICK_NS    10000000ull /* USER_HZ is 100 on every architecture that Android has */
#define PF_EXITING 0x00000004  /* both of include/linux/sched.h */
#define PF_KTHREAD 0x00200000

uint64_t capture_now_boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

uint64_t capture_now_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Read a small file of /proc/PID/task/TID; the text ends with 0. Its length or -errno. */
static ssize_t read_task_file(const char *root, pid_t pid, pid_t tid, const char *name, char *text,
			      size_t room)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%d/task/%d/%s", root ? root : "", pid, tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, room - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

enum stack_failure thread_status_read(const char *root, pid_t pid, pid_t tid,
				      struct thread_status *status)
{
	char text[1024], *p, *end;
	unsigned long long flags = 0, start = 0, cpu = 0;

	if (read_task_file(root, pid, tid, "stat", text, sizeof(text)) <= 0)
		return STACK_GONE;
	/* The name may hold blanks and brackets: count from the last bracket. */
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2])
		return STACK_GONE;
	status->state = p[2];
	p += 3;
	/* field 4 is next; 9 is flags, 22 is the start time, 39 the CPU */
	for (unsigned field = 4; field <= 39; field++, p = end) {
		unsigned long long value = strtoull(p, &end, 10);

		if (end == p)
			return STACK_GONE;
		if (field == 9)
			flags = value;
		if (field == 22)
			start = value;
		if (field == 39)
			cpu = value;
	}
	status->kernel_thread = flags & PF_KTHREAD;
	status->start_ticks = start;
	status->cpu = cpu;
	return flags & PF_EXITING || status->state == 'Z' || status->state == 'X' ||
			       status->state == 'x'
		       ? STACK_GONE
		       : STACK_OK;
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
	if (thread->start_boot_ns && status.start_ticks != thread->start_boot_ns / TICK_NS)
		return STACK_REUSED;
	return STACK_OK;
}

pid_t thread_tracer(const char *root, pid_t pid, pid_t tid)
{
	char text[4096], *p;

	if (read_task_file(root, pid, tid, "status", text, sizeof(text)) <= 0)
		return -1;
	p = strstr(text, "\nTracerPid:");
	return p ? atoi(p + strlen("\nTracerPid:")) : -1;
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
	if (read_task_file(root, pid, tid, "syscall", text, sizeof(text)) <= 0)
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
	int dirfd = procfs_open(root ? root : "", pid);
	bool compat = dirfd >= 0 && procfs_is_32_bit(dirfd);

	if (dirfd >= 0)
		close(dirfd);
	return compat;
}
