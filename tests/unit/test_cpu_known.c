/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of tasks where pid_max is in the millions: the dead do not pile up. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "source/cpu/known.h"
#include "util/clock.h"

#define PID_MAX 4194304

static void live_and_die(struct known_tasks *tasks, pid_t tid, uint64_t start_boot_ns)
{
	struct known_task *known = known_tasks_make(tasks, tid);

	cr_assert(known);
	*known = (struct known_task){.start_boot_ns = start_boot_ns, .dead = true};
}

Test(cpu_known, the_dead_of_a_large_pid_max_are_forgotten)
{
	struct known_tasks *tasks = calloc(1, sizeof(*tasks));
	struct known_task *lives = known_tasks_make(tasks, PID_MAX - 1);
	uint64_t now_ns = 1000 * NSEC_PER_SEC;
	size_t most = 0;

	lives->start_boot_ns = 1;
	lives->sums.cpu_ns = 77;
	/* 4,000 tasks a second, for a minute. */
	for (pid_t tid = KNOWN_HASHED; tid < KNOWN_HASHED + 300000; tid++) {
		live_and_die(tasks, tid, now_ns);
		if (tid % 4000)
			continue;
		now_ns += NSEC_PER_SEC;
		known_tasks_forget(tasks, now_ns);
		if (known_tasks_hashed(tasks) > most)
			most = known_tasks_hashed(tasks);
	}
	/* Found dead within 10 s, kept for 10 more, and dropped at a look each 10 s. */
	cr_expect_leq(most, 1 + 31u * 4000);
	cr_expect_eq(known_tasks_find(tasks, PID_MAX - 1)->sums.cpu_ns, 77);
	cr_expect_null(known_tasks_find(tasks, KNOWN_HASHED));
	known_tasks_free(tasks);
	free(tasks);
}

Test(cpu_known, a_tid_with_a_new_owner_begins_anew)
{
	struct known_tasks *tasks = calloc(1, sizeof(*tasks));
	uint64_t now_ns = 1000 * NSEC_PER_SEC;

	live_and_die(tasks, KNOWN_HASHED, 1);
	known_tasks_forget(tasks, now_ns);
	now_ns += 11 * NSEC_PER_SEC;
	/* Another one had the tid meanwhile, and is dead by now too. */
	live_and_die(tasks, KNOWN_HASHED, 2);
	known_tasks_forget(tasks, now_ns);
	cr_expect(known_tasks_find(tasks, KNOWN_HASHED), "its death may still be told");
	now_ns += 11 * NSEC_PER_SEC;
	known_tasks_forget(tasks, now_ns);
	cr_expect_null(known_tasks_find(tasks, KNOWN_HASHED));
	known_tasks_free(tasks);
	free(tasks);
}

/* The kernel side shows their slots until the tid has a new owner. */
Test(cpu_known, the_dead_of_a_small_pid_max_stay)
{
	struct known_tasks *tasks = calloc(1, sizeof(*tasks));

	live_and_die(tasks, KNOWN_HASHED - 1, 1);
	for (uint64_t now_ns = NSEC_PER_SEC; now_ns < 100 * NSEC_PER_SEC; now_ns += NSEC_PER_SEC)
		known_tasks_forget(tasks, now_ns);
	cr_expect_eq(known_tasks_find(tasks, KNOWN_HASHED - 1)->start_boot_ns, 1);
	cr_expect_null(known_tasks_find(tasks, -1));
	cr_expect_null(known_tasks_make(tasks, -1));
	known_tasks_free(tasks);
	free(tasks);
}
