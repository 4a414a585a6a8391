/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/machine.h"
#include "source/cpu/proc.h"

static void *named_thread(void *ctx)
{
	struct task_reading *reading = ctx;
	static char comm[RECORD_COMM_LEN];

	prctl(PR_SET_NAME, ") R 1 2 (");
	cr_expect_eq(cpu_proc_read_task(getpid(), (pid_t)syscall(SYS_gettid), reading, comm), 0);
	return NULL;
}

Test(cpu_proc, own_thread)
{
	struct task_reading reading = {0};
	pthread_t thread;
	char comm[RECORD_COMM_LEN];

	cr_assert_eq(pthread_create(&thread, NULL, named_thread, &reading), 0);
	pthread_join(thread, NULL);
	cr_expect_str_eq(reading.comm, ") R 1 2 (");
	cr_expect_eq(reading.tgid, getpid());
	cr_expect_eq(reading.uid, getuid());
	cr_expect(reading.start_is_coarse);
	cr_expect_gt(reading.start_boot_ns, 0);
	cr_expect(reading.has_runnable);
	cr_expect(!reading.has_switches);
	cr_expect(!reading.uninterruptible_ns.present);
	cr_expect_eq(cpu_proc_read_task(getpid(), reading.tid, &reading, comm), -ENOENT,
		     "it has ended");
}

static int see(void *ctx, const struct task_reading *reading)
{
	bool *seen = ctx;

	*seen |= reading->tid == getpid();
	return 0;
}

static int refuse(void *ctx, const struct task_reading *reading)
{
	++*(int *)ctx;
	return -E2BIG;
}

Test(cpu_proc, walk)
{
	uint64_t unreadable = 0, idle_ns = 0;
	bool seen = false;
	int calls = 0;

	cr_expect_eq(cpu_proc_walk(see, &seen, &unreadable), 0);
	cr_expect(seen);
	cr_expect_eq(cpu_proc_walk(refuse, &calls, &unreadable), -E2BIG);
	cr_expect_eq(calls, 1, "an error ends the walk");
	cr_expect_eq(cpu_proc_idle_ns(&idle_ns), 0);
	cr_expect_gt(idle_ns, 0);
}

Test(cpu_proc, load)
{
	struct proc_load load = {0};

	cr_expect_eq(proc_parse_load("9.10 6.63 5.39 8/126 25381\n", &load), 0);
	cr_expect_eq(load.tasks, 126);
	cr_expect_eq(load.last_pid, 25381);
	cr_expect_eq(proc_parse_load("", &load), -EBADMSG);
	cr_expect_eq(proc_parse_load("0.00 0.00 0.00 1/126", &load), -EBADMSG);
	cr_expect_eq(proc_parse_load("0.00 0.00 0.00 1/-1 5", &load), -EBADMSG);
	cr_expect_eq(proc_read_load(&load), 0);
	cr_expect_gt(load.tasks, 1);
	cr_expect_gt(load.last_pid, 0);
}
