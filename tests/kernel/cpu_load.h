/* SPDX-License-Identifier: BSD-2-Clause */
/* The mixed load of test_cpu.c: hogs, periodic threads, a thread storm that wraps the pids, forks,
 * FIFO, niced, renamed; and what its processes say about themselves. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"
#include "util/clock.h"

#define ODD_NAME     ") R 1 2"
#define STORM_CPU_US 10

/* What the children say about themselves, in shared memory. */
struct truth {
	atomic_bool stop;
	atomic_int parked; /* processes that went to sleep for good */
	atomic_ulong storm_threads, storm_cpu_ns;
	atomic_ulong forks, fork_cpu_ns;
	atomic_ulong renamed_tid;
};

static struct truth *truth;

static void burn_us(unsigned us)
{
	uint64_t end = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000ull;

	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		spin_hint();
}

static void park(void)
{
	atomic_fetch_add(&truth->parked, 1);
	for (;;)
		pause();
}

static void *hog(void *unused)
{
	while (!atomic_load(&truth->stop))
		burn_us(500);
	for (;;)
		pause();
	return NULL;
}

static void *periodic(void *unused)
{
	while (!atomic_load(&truth->stop)) {
		burn_us(200);
		usleep(3000);
	}
	for (;;)
		pause();
	return NULL;
}

static void child_hogs(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, hog, NULL);
	while (!atomic_load(&truth->stop))
		burn_us(500);
	park();
}

static void child_periodic(void)
{
	pthread_t thread;

	for (int i = 0; i < 20; i++)
		pthread_create(&thread, NULL, periodic, NULL);
	while (!atomic_load(&truth->stop))
		usleep(1000);
	park();
}

static void *storm_thread(void *unused)
{
	burn_us(STORM_CPU_US);
	atomic_fetch_add(&truth->storm_threads, 1);
	atomic_fetch_add(&truth->storm_cpu_ns, clock_now_ns(CLOCK_THREAD_CPUTIME_ID));
	return NULL;
}

static void child_storm(void)
{
	pthread_t thread;

	while (!atomic_load(&truth->stop))
		if (!pthread_create(&thread, NULL, storm_thread, NULL))
			pthread_join(thread, NULL);
	park();
}

static void child_forks(void)
{
	while (!atomic_load(&truth->stop)) {
		struct rusage usage;
		pid_t pid = fork();

		if (pid == 0) {
			burn_us(300);
			_exit(0);
		}
		if (pid > 0 && wait4(pid, NULL, 0, &usage) == pid) {
			atomic_fetch_add(&truth->forks, 1);
			atomic_fetch_add(&truth->fork_cpu_ns,
					 (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
							 NSEC_PER_SEC +
						 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) *
							 1000ull);
		}
	}
	park();
}

static void child_fifo(void)
{
	struct sched_param parameter = {.sched_priority = 10};

	sched_setscheduler(0, SCHED_FIFO, &parameter);
	while (!atomic_load(&truth->stop)) {
		burn_us(200);
		usleep(2000);
	}
	park();
}

static void child_niced(void)
{
	if (nice(19) == -1)
		_exit(1);
	while (!atomic_load(&truth->stop))
		burn_us(500);
	park();
}

static void child_renamed(void)
{
	atomic_store(&truth->renamed_tid, (unsigned long)gettid());
	prctl(PR_SET_NAME, "before");
	usleep(300000);
	prctl(PR_SET_NAME, ODD_NAME);
	while (!atomic_load(&truth->stop)) {
		burn_us(100);
		usleep(5000);
	}
	park();
}

static void (*const roles[])(void) = {
	child_hogs, child_periodic, child_storm,   child_forks,
	child_fifo, child_niced,    child_renamed,
};
#define ROLES (sizeof(roles) / sizeof(*roles))
enum { ROLE_STORM = 2, ROLE_FORKS = 3 };
