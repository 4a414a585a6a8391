/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/bounded_call.h"
#include "util/clock.h"

static atomic_int dropped;

struct job {
	int gate; /* read until it is closed; -1: not held up */
	atomic_int ran;
};

static void run(void *ctx)
{
	struct job *job = ctx;
	char byte;

	if (job->gate >= 0 && read(job->gate, &byte, 1) < 0)
		abort();
	job->ran++;
}

static void drop(void *ctx)
{
	free(ctx);
	dropped++;
}

static struct job *new_job(int gate)
{
	struct job *job = calloc(1, sizeof(*job));

	cr_assert_not_null(job);
	job->gate = gate;
	return job;
}

/* On a busy machine a helper may not run within the bound: then it is asked again. */
static void call_until_done(struct bounded_calls *calls, pid_t pid)
{
	for (int i = 0; i < 10000; i++) {
		struct job *job = new_job(-1);
		int err = bounded_call(calls, pid, run, drop, job);

		if (err != -ETIMEDOUT) {
			cr_expect_eq(job->ran, err ? 0 : 1);
			free(job);
		}
		if (!err)
			return;
		cr_assert(err == -EBUSY || err == -ETIMEDOUT);
		usleep(1000);
	}
	cr_assert_fail("never served");
}

/* Until a helper has begun with a job that the gate holds up. */
static void hold_up(struct bounded_calls *calls, pid_t pid, int gate)
{
	for (int i = 0; i < 1000; i++) {
		struct job *job = new_job(gate);
		int err = bounded_call(calls, pid, run, drop, job);

		if (err == -ETIMEDOUT)
			return;
		cr_assert_eq(err, -EBUSY);
		free(job);
	}
	cr_assert_fail("no helper got a CPU");
}

/* Until a helper has let go, at most 10 s. */
static void wait_for_drops(int count)
{
	for (int i = 0; i < 1000 && dropped < count; i++)
		usleep(10000);
	cr_assert_eq(dropped, count);
}

Test(bounded_call, gives_the_job_back_when_it_is_done)
{
	struct bounded_calls *calls = bounded_calls_new();

	for (int i = 0; i < 1000; i++)
		call_until_done(calls, 1);
	bounded_calls_free(calls);
}

Test(bounded_call, runs_in_place_without_a_pool)
{
	struct job job = {.gate = -1};

	cr_expect_eq(bounded_call(NULL, 1, run, NULL, &job), 0);
	cr_expect_eq(job.ran, 1);
	cr_expect_not(bounded_calls_held_up(NULL));
	cr_expect_eq(bounded_calls_given_up(NULL), 0);
}

Test(bounded_call, leaves_a_held_up_call_behind)
{
	struct bounded_calls *calls = bounded_calls_new();
	struct job *job;
	int gate[2];
	uint64_t since_ns;

	cr_assert_eq(pipe(gate), 0);
	since_ns = clock_now_ns(CLOCK_MONOTONIC);
	hold_up(calls, 1, gate[0]);
	cr_expect_geq(clock_now_ns(CLOCK_MONOTONIC) - since_ns, BOUNDED_CALL_NS);
	cr_expect(bounded_calls_held_up(calls));
	/* The process that holds it up gets no second helper; others are served. */
	job = new_job(-1);
	cr_expect_eq(bounded_call(calls, 1, run, drop, job), -EBUSY);
	cr_expect_eq(job->ran, 0);
	free(job);
	cr_expect_geq(bounded_calls_given_up(calls), 2);
	call_until_done(calls, 2);
	cr_expect(bounded_calls_held_up(calls));
	close(gate[1]);
	for (int i = 0; i < 1000 && bounded_calls_held_up(calls); i++)
		usleep(10000);
	cr_expect_not(bounded_calls_held_up(calls));
	cr_expect_geq(dropped, 1);
	bounded_calls_free(calls);
}

Test(bounded_call, has_an_end)
{
	struct bounded_calls *calls = bounded_calls_new();
	struct job *job = new_job(-1);
	int gate[2];

	cr_assert_eq(pipe(gate), 0);
	for (int pid = 1; pid <= BOUNDED_HELPERS; pid++)
		hold_up(calls, pid, gate[0]);
	cr_expect_eq(bounded_call(calls, 100, run, drop, job), -EBUSY);
	close(gate[1]);
	wait_for_drops(BOUNDED_HELPERS);
	free(job);
	call_until_done(calls, 100);
	bounded_calls_free(calls);
}

/* One CPU and spinners on it: helpers that come late must neither be lost nor lose a job. */
Test(bounded_call, survives_helpers_without_a_cpu)
{
	struct bounded_calls *calls = bounded_calls_new();
	pid_t spinners[4];
	cpu_set_t one;
	int given = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(one), &one), 0);
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &one) && found++)
			CPU_CLR(cpu, &one);
	}
	sched_setaffinity(0, sizeof(one), &one);
	for (int i = 0; i < 4; i++) {
		spinners[i] = fork();
		if (!spinners[i])
			setpriority(PRIO_PROCESS, 0, -20);
		for (volatile bool spin = true; !spinners[i] && spin;)
			;
	}
	for (int i = 0; i < 200; i++) {
		struct job *job = new_job(-1);
		int err = bounded_call(calls, 1 + i % 3, run, drop, job);

		given += err == -ETIMEDOUT;
		if (err != -ETIMEDOUT) {
			cr_expect_eq(job->ran, err ? 0 : 1);
			free(job);
		}
	}
	for (int i = 0; i < 4; i++) {
		kill(spinners[i], SIGKILL);
		waitpid(spinners[i], NULL, 0);
	}
	wait_for_drops(given);
	cr_expect_not(bounded_calls_held_up(calls));
	bounded_calls_free(calls);
}

Test(bounded_call, is_freed_without_waiting)
{
	struct bounded_calls *calls = bounded_calls_new();
	int gate[2];

	cr_assert_eq(pipe(gate), 0);
	hold_up(calls, 1, gate[0]);
	bounded_calls_free(calls);
	cr_expect_eq(dropped, 0);
}
