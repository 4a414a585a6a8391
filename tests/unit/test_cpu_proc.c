/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/cpu/proc.h"

#define AFTER_NAME \
	" R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21 22 23 24 25 26 27 28 29 30\n"

/* Ends at a page that cannot be read, so that a byte too far is a crash, sanitizer or not. */
static int parse(const char *text, char *comm, uint64_t *ticks)
{
	size_t length = strlen(text), page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *exact = pages + page - length;
	int err;

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_lt(length, page);
	memcpy(exact, text, length);
	mprotect(pages + page, page, PROT_NONE);
	err = cpu_proc_parse_stat(exact, length, comm, ticks);
	munmap(pages, 2 * page);
	return err;
}

Test(cpu_proc, names_with_anything_in_them)
{
	static const char *const names[] = {
		"cat",
		"",
		")",
		"(",
		"()",
		") R 1 2",
		"a) S 5 6 7 (b",
		"x y",
		"tab\tnew\nline",
		"\xff\xfe\x80",
		") R 1 2 3 4 5 6",
	};
	char text[512], comm[RECORD_COMM_LEN];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint64_t ticks = 0;

		snprintf(text, sizeof(text), "77 (%s)%s", names[i], AFTER_NAME);
		cr_expect_eq(parse(text, comm, &ticks), 0, "'%s'", names[i]);
		cr_expect_str_eq(comm, names[i]);
		cr_expect_eq(ticks, 4242, "'%s'", names[i]);
	}
}

/* Kernel threads of workqueues show more than TASK_COMM_LEN. */
Test(cpu_proc, long_name_is_cut)
{
	char comm[RECORD_COMM_LEN];
	uint64_t ticks;

	cr_expect_eq(parse("9 (kworker/u256:0-events_unbound)" AFTER_NAME, comm, &ticks), 0);
	cr_expect_str_eq(comm, "kworker/u256:0-");
	cr_expect_eq(ticks, 4242);
}

Test(cpu_proc, every_cut_is_refused_or_right)
{
	static const char whole[] = "77 (a b)" AFTER_NAME;
	char text[sizeof(whole)], comm[RECORD_COMM_LEN];
	size_t after = (size_t)(strstr(whole, "4242 ") - whole) + 5;

	for (size_t length = 0; length < sizeof(whole); length++) {
		uint64_t ticks = 1;
		int err;

		memcpy(text, whole, length);
		text[length] = 0;
		err = parse(text, comm, &ticks);
		/* A number that may go on behind the cut is no number. */
		if (length < after)
			cr_expect_eq(err, -EBADMSG, "%zu bytes gave %d, %llu", length, err,
				     (unsigned long long)ticks);
		else
			cr_expect(err == 0 && ticks == 4242, "%zu bytes", length);
	}
}

Test(cpu_proc, hostile_lines)
{
	static const char *const bad[] = {
		"",
		"\n",
		"77",
		"77 (",
		"77 )",
		"77 )(",
		"77 (x)",
		"77 (x) R",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -4 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12x 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999 20\n",
		"77 (x)                                                                        ",
	};
	char comm[RECORD_COMM_LEN];
	uint64_t ticks;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_eq(parse(bad[i], comm, &ticks), -EBADMSG, "'%s'", bad[i]);
}

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
	cr_expect(reading.runnable_ns.present);
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
