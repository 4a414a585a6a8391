/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets against the real /proc, with children of the test's own. */
#include "jankscope/target.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/set.h"

static struct target_spec name_spec(const char *name)
{
	struct target_spec spec = {.kind = TARGET_NAME};

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return spec;
}

/* A name that no other process of this machine has. */
static void own_name(char name[64], const char *what)
{
	snprintf(name, 64, "com.jankscope.%s%d", what, (int)getpid());
}

static pid_t start_sleeper(const char *argv0)
{
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", argv0, "60", NULL);
		_exit(127);
	}
	return child;
}

/* Wait until argv[0] of the child is the new one: exec is not at once. */
static void wait_argv0(pid_t pid, const char *argv0)
{
	char path[32], text[128] = "";
	int tries, fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	for (tries = 0; tries < 2000 && strcmp(text, argv0); tries++) {
		fd = open(path, O_RDONLY);
		memset(text, 0, sizeof(text));
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		close(fd);
		usleep(1000);
	}
	cr_assert_str_eq(text, argv0);
}

static void stop_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(target_live, restart_of_a_name_is_followed_and_pidfd_tells_the_death)
{
	char name[64], remote[80];
	struct target_spec spec;
	struct target_set *set;
	const struct target_process *process;
	struct pollfd wait;
	pid_t a, b;

	own_name(name, "live");
	snprintf(remote, sizeof(remote), "%s:remote", name);
	spec = name_spec(name);
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	a = start_sleeper(name);
	b = start_sleeper(remote);
	wait_argv0(a, name);
	wait_argv0(b, remote);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 2);
	process = target_set_find(set, a);
	cr_assert(process);
	cr_assert_str_eq(process->process, name);
	cr_assert_eq(process->uid, getuid());
	cr_assert_geq(process->pidfd, 0);
	wait = (struct pollfd){.fd = process->pidfd, .events = POLLIN};
	cr_assert_eq(poll(&wait, 1, 0), 0);
	kill(a, SIGKILL);
	cr_assert_eq(poll(&wait, 1, 5000), 1);
	/* still a zombie in /proc, but no longer watched */
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	cr_assert_null(target_set_find(set, a));
	waitpid(a, NULL, 0);
	a = start_sleeper(name);
	wait_argv0(a, name);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 2);
	stop_child(a);
	stop_child(b);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	target_set_free(set);
}

Test(target_live, comm_with_parentheses_and_start_time)
{
	struct target_spec spec = {.kind = TARGET_PID};
	struct target_set *set;
	const struct target_process *process;
	struct timespec before, after;
	int ready[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	clock_gettime(CLOCK_BOOTTIME, &before);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "x) R 1 2\n(");
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	clock_gettime(CLOCK_BOOTTIME, &after);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	spec.pid = child;
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	process = target_set_at(set, 0);
	cr_assert_eq(process->pid, child);
	cr_assert_geq(process->start_boot_ns + 10000000,
		      before.tv_sec * 1000000000ull + before.tv_nsec);
	cr_assert_leq(process->start_boot_ns, after.tv_sec * 1000000000ull + after.tv_nsec);
	stop_child(child);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	target_set_free(set);
}

Test(target_live, pid_that_is_gone_is_not_found)
{
	struct target_spec spec = {.kind = TARGET_PID};
	struct target_set *set;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	spec.pid = child;
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	target_set_free(set);
}

static void *tell_tid(void *arg)
{
	atomic_store((_Atomic pid_t *)arg, (pid_t)syscall(SYS_gettid));
	for (;;)
		pause();
	return NULL;
}

Test(target_live, thread_is_no_process)
{
	struct target_spec spec = {.kind = TARGET_PID};
	_Atomic pid_t tid = 0;
	struct target_set *set;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, tell_tid, &tid), 0);
	while (!atomic_load(&tid))
		usleep(1000);
	spec.pid = tid;
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	target_set_free(set);
}

/* A child under a pid of our choice; -1 where the kernel or our rights do not give that. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&pid,
		.set_tid_size = 1,
	};
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (child == 0) {
		pause();
		_exit(0);
	}
	return child;
}

Test(target_live, reused_pid_is_another_process)
{
	struct target_spec spec = {.kind = TARGET_PID};
	struct target_set *set;
	uint64_t start_boot_ns;
	pid_t child = fork(), again;

	if (child == 0) {
		pause();
		_exit(0);
	}
	spec.pid = child;
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	start_boot_ns = target_set_at(set, 0)->start_boot_ns;
	stop_child(child);
	usleep(30000); /* start times have ticks of 10 ms */
	again = fork_as(child);
	if (again < 0) {
		int err = errno;

		target_set_free(set);
		cr_skip_test("clone3 with set_tid: %s", strerror(err));
	}
	cr_assert_eq(again, child);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	cr_assert_null(target_set_find(set, child));
	cr_assert(target_process_name(set, child, start_boot_ns)); /* its old life is remembered */
	stop_child(child);
	target_set_free(set);
}

static void *sleep_forever(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

/* No walk of /proc is due. False: this machine started so many processes that one was made. */
static bool scan_without_walk(struct target_set *set, pid_t before, pid_t last, int expected)
{
	set->walk_after_ns = UINT64_MAX;
	set->newest[1] = before;
	set->newest[0] = last;
	if (set->proc)
		closedir(set->proc);
	set->proc = NULL;
	cr_expect_eq(target_set_scan(set, NULL, NULL), expected);
	return !set->proc;
}

Test(target_live, between_walks_new_processes_are_found_by_their_numbers)
{
	struct target_spec spec;
	struct target_set *set;
	bool brief = false;
	char name[64];

	own_name(name, "numbers");
	spec = name_spec(name);
	for (int tries = 0; tries < 20 && !brief; tries++) {
		pid_t first, second;

		set = target_set_new(&spec, 1, "");
		cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
		first = start_sleeper(name);
		second = start_sleeper(name);
		wait_argv0(first, name);
		wait_argv0(second, name);
		brief = first < second && scan_without_walk(set, first - 1, first - 1, 2);
		/* A number that was given out before the last look may be seen in /proc since. */
		target_set_free(set);
		set = target_set_new(&spec, 1, "");
		brief = brief && scan_without_walk(set, first - 1, second, 2);
		target_set_free(set);
		set = target_set_new(&spec, 1, "");
		brief = brief && scan_without_walk(set, first, first, 1);
		/* Numbers that went back, or that nobody has noted, tell nothing. */
		cr_expect_not(scan_without_walk(set, 1, INT32_MAX, 2));
		cr_expect_not(scan_without_walk(set, 0, first, 2));
		stop_child(first);
		brief = brief && scan_without_walk(set, second, second, 1);
		stop_child(second);
		target_set_free(set);
	}
	cr_expect(brief, "no look by numbers");
}

Test(target_live, leader_that_left_its_threads_behind_lives_on)
{
	char name[64];
	struct target_spec spec = {.kind = TARGET_PID};
	struct target_set *set;
	pid_t child = fork();
	char path[32], text[64];
	int tries, fd;

	if (child == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, sleep_forever, NULL);
		pthread_exit(NULL);
	}
	own_name(name, "leader");
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	for (tries = 0; tries < 2000; tries++) {
		fd = open(path, O_RDONLY);
		memset(text, 0, sizeof(text));
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		close(fd);
		if (strstr(text, ") Z"))
			break;
		usleep(1000);
	}
	spec.pid = child;
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	stop_child(child);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	target_set_free(set);
}

Test(target_live, uid_of_children)
{
	const uid_t uid = 3000000 + (uid_t)getpid(); /* of this test, also beside another suite's */
	struct target_spec spec = {.kind = TARGET_UID, .uid = uid};
	struct target_set *set;
	int ready[2];
	pid_t child;
	char byte;

	if (getuid() != 0)
		cr_skip_test("needs root for a uid of its own");
	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (setresuid(uid, uid, uid) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	set = target_set_new(&spec, 1, "");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	cr_assert_eq(target_set_at(set, 0)->uid, uid);
	stop_child(child);
	target_set_free(set);
}

Test(target_live, whole_device_resolves_names_and_watches_nothing)
{
	struct target_set *set = target_set_new(NULL, 0, "");
	struct target_spec self = {.kind = TARGET_PID, .pid = getpid()};
	struct target_set *own = target_set_new(&self, 1, "");
	uint64_t start_boot_ns;
	int i;

	cr_assert_eq(target_set_scan(own, NULL, NULL), 1);
	start_boot_ns = target_set_at(own, 0)->start_boot_ns;
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	cr_assert(target_process_name(set, getpid(), start_boot_ns));
	cr_assert_str_eq(target_process_name(set, getpid(), start_boot_ns),
			 target_set_at(own, 0)->process);
	cr_assert_null(target_process_name(set, getpid(), start_boot_ns + 10000000));
	for (i = 0; i < 100; i++) /* unused names are forgotten, and found again */
		cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	cr_assert(target_process_name(set, getpid(), start_boot_ns));
	target_set_free(own);
	target_set_free(set);
}
