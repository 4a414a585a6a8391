/* SPDX-License-Identifier: BSD-2-Clause */
/* Odd ways to be born, to become somebody else and to die. Each program returns 0, or the errno of
 * what this kernel would not do. */
#pragma once
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "odd_common.h"

/* ---- programs that this test's own executable is, by its arguments ---- */

static void *next_link(void *left)
{
	char self[] = "/proc/self/exe", verb[] = "threads", number[16];
	char *argv[] = {self, verb, number, NULL}, *envp[] = {NULL};

	burn_ms(1);
	snprintf(number, sizeof(number), "%d", (int)(intptr_t)left - 1);
	execve(self, argv, envp);
	return NULL;
}

/* "burn", "chain LEFT", "threads LEFT": each link of a chain runs 1 ms and executes the next one,
 * itself or from another thread. */
static int odd_main(int argc, char **argv)
{
	char self[] = "/proc/self/exe", verb[] = "chain", number[16];
	char *next[] = {self, verb, number, NULL}, *envp[] = {NULL};
	pthread_t thread;
	int left = argc > 2 ? atoi(argv[2]) : 0;

	burn_ms(1);
	if (!left)
		return 0;
	if (!strcmp(argv[1], "threads")) {
		pthread_create(&thread, NULL, odd_burn, (void *)3);
		pthread_create(&thread, NULL, next_link, (void *)(intptr_t)left);
		burn_ms(1000);
		_exit(ETIME);
	}
	snprintf(number, sizeof(number), "%d", left - 1);
	execve(self, next, envp);
	return errno;
}

/* ---- births ---- */

static int vfork_chain(void)
{
	char self[] = "/proc/self/exe", verb[] = "burn";
	char *argv[] = {self, verb, NULL}, *envp[] = {NULL};

	for (int i = 0; i < 60; i++) {
		int err;

		if (!vfork()) {
			execve(self, argv, envp);
			_exit(ENOEXEC);
		}
		err = odd_reap();
		if (err)
			return err;
	}
	return 0;
}

static int exec_chain(void)
{
	char self[] = "/proc/self/exe", verb[] = "chain", left[] = "60";
	char *argv[] = {self, verb, left, NULL}, *envp[] = {NULL};

	execve(self, argv, envp);
	return errno;
}

static int exec_of_thread(void)
{
	char self[] = "/proc/self/exe", verb[] = "threads", left[] = "25";
	char *argv[] = {self, verb, left, NULL}, *envp[] = {NULL};

	execve(self, argv, envp);
	return errno;
}

/* One that was somebody's a moment ago. */
static pid_t free_tid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static int same_tid(void)
{
	pid_t tid = free_tid();

	for (int i = 0; i < 80; i++) {
		struct clone_args args = {
			.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&tid, .set_tid_size = 1};
		pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

		if (pid < 0 && errno != EEXIST)
			return errno;
		if (pid < 0)
			tid = free_tid(); /* another program was quicker */
		if (!pid) {
			burn_ms(1);
			_exit(0);
		}
		odd_reap();
	}
	return 0;
}

static int same_thread_tid(void)
{
	pid_t tid = free_tid();

	for (int i = 0; i < 80; i++) {
		int err;

		if (!set_next_tid(tid))
			return errno;
		err = odd_threads(odd_burn, 1);
		if (err)
			return err;
	}
	return 0;
}

static int into_cgroup(void)
{
	char path[160];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/unified/odd-%d", (int)getpid());
	if (mkdir(path, 0700))
		return errno;
	fd = open(path, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 30 && !err; i++) {
		struct clone_args args = {
			.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)fd};
		pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

		if (pid < 0)
			err = errno;
		if (!pid) {
			burn_ms(1);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	rmdir(path);
	return err;
}

static void *map_and_change(void *unused)
{
	/* The system call changes the uid of one thread, glibc's function that of all. */
	for (int i = 0; i < 12; i++) {
		if (syscall(SYS_setresuid, i % 6 + 1, 0, 0))
			_exit(EIO);
		burn_ms(1);
	}
	return unused;
}

static int user_namespace(void)
{
	char path[64], map[64], byte = 0;
	int ready[2], go[2];
	pid_t pid;

	if (pipe(ready) || pipe(go))
		return errno;
	pid = fork();
	if (!pid) {
		pthread_t thread;

		close(go[1]);
		if (unshare(CLONE_NEWUSER))
			_exit(errno);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1 || setresuid(0, 0, 0))
			_exit(EIO);
		for (int i = 0; i < 4; i++)
			pthread_create(&thread, NULL, map_and_change, NULL);
		pthread_exit(NULL);
	}
	close(ready[1]);
	close(go[0]);
	if (read(ready[0], &byte, 1) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
		snprintf(map, sizeof(map), "0 %u %d\n", odd_uid, ODD_UIDS);
		if (!odd_put(path, map))
			close(go[1]);
		else if (write(go[1], "", 1) != 1)
			return EIO;
	}
	return odd_reap();
}

static void *change_alone(void *arg)
{
	for (int i = 0; i < 15; i++) {
		if (syscall(SYS_setresuid, odd_uid + ((uintptr_t)arg + (unsigned)i) % ODD_UIDS, 0,
			    0))
			_exit(EIO);
		burn_ms(1);
	}
	return NULL;
}

static int lone_setuid(void)
{
	return odd_threads(change_alone, 6);
}

static int time_namespace(void)
{
	if (unshare(CLONE_NEWTIME))
		return errno;
	if (!odd_put("/proc/self/timens_offsets", "boottime 100000 0\n"))
		return errno;
	for (int i = 0; i < 10; i++) {
		if (!fork())
			_exit(odd_threads(odd_burn, 2));
		odd_reap();
	}
	return 0;
}

static int pid_namespace(void)
{
	if (unshare(CLONE_NEWPID))
		return errno;
	if (!fork()) {
		for (int i = 0; i < 20; i++) {
			if (!fork())
				_exit(odd_threads(odd_burn, 2));
			odd_reap();
		}
		_exit(0);
	}
	return odd_reap();
}

static int storm(void)
{
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (i % 10 == 9)
			odd_reap();
	}
	return odd_reap();
}

/* The child shares the memory of its parent, and not the uid. */
static int run_in_vfork(uid_t uid)
{
	if (!vfork()) {
		if (syscall(SYS_setresuid, uid, 0, 0))
			_exit(EIO);
		burn_ms(1);
		_exit(0);
	}
	return odd_reap();
}

static int uid_in_vfork(void)
{
	int err = 0;

	for (unsigned i = 0; i < 20 && !err; i++)
		err = run_in_vfork(odd_uid + 1 + i % 4);
	return err;
}

static int killed(void)
{
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (!pid) {
			pthread_t thread;

			pthread_create(&thread, NULL, odd_burn, (void *)1000);
			burn_ms(1000);
			_exit(0);
		}
		usleep(6000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static void *burn_on(void *arg)
{
	for (int i = 0; i < 5; i++) {
		burn_ms((unsigned)(uintptr_t)arg);
		usleep(1000);
	}
	return NULL;
}

static int zombie_leader(void)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;

		for (uintptr_t i = 1; i <= 3; i++)
			pthread_create(&thread, NULL, burn_on, (void *)i);
		burn_ms(2);
		pthread_exit(NULL);
	}
	return odd_reap();
}
