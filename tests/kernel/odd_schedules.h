/* SPDX-License-Identifier: BSD-2-Clause */
/* Odd ways to run, to be kept from running and to be called. Each program returns 0, or the errno
 * of what this kernel would not do. */
#pragma once
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "odd_common.h"

static void *rename_storm(void *arg)
{
	char name[17];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), ") R %d (\n%d", (int)(uintptr_t)arg, i);
		prctl(PR_SET_NAME, name);
	}
	return NULL;
}

static int names(void)
{
	return odd_threads(rename_storm, 4);
}

static int deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr),
		  .policy = 6, /* SCHED_DEADLINE */
		  .runtime = 2 * NSEC_PER_MSEC,
		  .deadline = 10 * NSEC_PER_MSEC,
		  .period = 10 * NSEC_PER_MSEC};

	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		return errno;
	burn_ms(30);
	return 0;
}

static int fifo(void)
{
	struct sched_param param = {.sched_priority = 5};

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return errno;
	for (int i = 0; i < 20; i++) {
		burn_ms(2);
		usleep(500);
	}
	return 0;
}

/* The group of this controller that process pid makes of itself. */
static void group_dir(char dir[64], const char *controller, pid_t pid)
{
	snprintf(dir, 64, "/sys/fs/cgroup/%s/odd-%d", controller, (int)pid);
}

static int enter_group(const char *controller)
{
	char dir[64], path[96], pid[16];

	group_dir(dir, controller, getpid());
	snprintf(path, sizeof(path), "%s/tasks", dir);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return mkdir(dir, 0700) || !odd_put(path, pid) ? errno : 0;
}

/* 10 ms of CPU in each 100 ms. */
static int throttled(void)
{
	char dir[64], path[96];
	pid_t pid = fork();
	int err;

	group_dir(dir, "cpu", pid ? pid : getpid());
	if (!pid) {
		err = enter_group("cpu");
		snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
		if (!err && !odd_put(path, "10000"))
			err = errno;
		if (!err)
			err = odd_threads(odd_burn, 8) ?: odd_threads(odd_burn, 8);
		if (!err)
			burn_ms(30);
		_exit(err);
	}
	err = odd_reap();
	rmdir(dir);
	return err;
}

static int frozen(void)
{
	char dir[64], path[96];
	pid_t pid = fork();
	int err;

	if (!pid) {
		err = enter_group("freezer") ?: odd_threads(odd_burn, 7);
		burn_ms(40);
		_exit(err);
	}
	group_dir(dir, "freezer", pid);
	snprintf(path, sizeof(path), "%s/freezer.state", dir);
	for (int i = 0; i < 6; i++) {
		usleep(10000);
		odd_put(path, "FROZEN");
		usleep(10000);
		odd_put(path, "THAWED");
	}
	err = odd_reap();
	rmdir(dir);
	return err;
}

static int traced(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		burn_ms(40);
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		return errno;
	for (int i = 0; i < 8; i++) {
		usleep(3000);
		if (ptrace(PTRACE_INTERRUPT, pid, 0, 0))
			break;
		waitpid(pid, &status, 0);
		usleep(5000);
		ptrace(PTRACE_CONT, pid, 0, 0);
	}
	return odd_reap();
}

/* Each system call of the traced one stops it twice. */
static int strace_like(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (int i = 0; i < 2000; i++)
			syscall(SYS_getppid);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
	return 0;
}

static int moved(void)
{
	for (int i = 0; i < 60; i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			return errno;
		burn_ms(1);
	}
	return 0;
}

/* A thread of the kernel's that runs as this process. */
static int kernel_poller(void)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 20};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);

	if (fd < 0)
		return errno;
	usleep(40000);
	close(fd);
	return 0;
}

static int stopped(void)
{
	pid_t pid = fork();

	if (!pid) {
		int err = odd_threads(odd_burn, 6);

		burn_ms(30);
		_exit(err);
	}
	for (int i = 0; i < 8; i++) {
		usleep(3000);
		kill(pid, SIGSTOP);
		usleep(3000);
		kill(pid, SIGCONT);
	}
	return odd_reap();
}

static int yield(void)
{
	struct sched_param param = {0};

	for (int i = 0; i < 20000; i++)
		sched_yield();
	sched_setscheduler(0, SCHED_IDLE, &param);
	burn_ms(10);
	sched_setscheduler(0, SCHED_BATCH, &param);
	burn_ms(5);
	return 0;
}
