/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that calls execve and takes the place of its leader. */
#include "unit/cpu_ledger_rig.h"

/* A thread calls execve: as 105 of the leader 100 it had 30, the leader 500. Word of the leader's
 * death may come before that of the exec, after it, or under the tid that it got in exchange. */
static void check_exec(pid_t death_tid, bool death_first)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;
	uint64_t sum;

	book(ledger, task(100, ATTACH + 1, 400));
	book(ledger, task(105, ATTACH + 9, 20));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 420);
	if (death_first)
		book(ledger, death(death_tid, ATTACH + 1, 500, ATTACH + SEC));
	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 1), 0);
	book(ledger, task(100, ATTACH + 1, 37));
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	sum = cpu.busy_ns;
	cr_expect_not(row(&cpu, 100, ATTACH + 1)->exited, "it lives on");
	if (!death_first)
		book(ledger, death(death_tid, ATTACH + 1, 500, ATTACH + SEC));
	book(ledger, task(105, ATTACH + 2 * SEC, 3)); /* the thread's tid has a new owner */
	book(ledger, task(100, ATTACH + 1, 40));
	cpu = close_interval(ledger, ATTACH + 3 * SEC);
	sum += cpu.busy_ns;
	cr_expect_eq(sum, 100 + (40 - 20) + 3, "got %lu", (unsigned long)sum);
	book(ledger, death(100, ATTACH + 1, 45, ATTACH + 3 * SEC));
	cpu = close_interval(ledger, ATTACH + 4 * SEC);
	cr_expect_eq(cpu.busy_ns, 5);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, exec_of_a_thread_after_its_leader_died)
{
	check_exec(100, true);
}

Test(cpu_ledger, exec_of_a_thread_whose_tid_the_leader_died_under)
{
	check_exec(105, true);
}

Test(cpu_ledger, exec_of_a_thread_before_its_leader_is_told_dead)
{
	check_exec(105, false);
}

Test(cpu_ledger, exec_of_a_thread_that_was_never_read)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(100, ATTACH + 1, 400));
	book(ledger, death(100, ATTACH + 1, 410, ATTACH + 5));
	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 1), 0);
	book(ledger, task(100, ATTACH + 1, 37));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 410 + 37);
	cpu_ledger_free(ledger);
}

/* Nor was the leader: its death, told after the exec, is still that of another task. */
Test(cpu_ledger, exec_of_a_thread_whose_leader_was_never_read)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 1), 0);
	book(ledger, task(100, ATTACH + 1, 37));
	book(ledger, death(105, ATTACH + 1, 410, ATTACH + 5));
	book(ledger, task(100, ATTACH + 1, 40));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 410 + 40);
	cr_expect_not(row(&cpu, 100, ATTACH + 1)->exited, "it lives on");
	cpu_ledger_free(ledger);
}

/* RCU frees the leader many short intervals later. */
Test(cpu_ledger, exec_of_a_thread_long_before_its_leader_is_told_dead)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	uint64_t end = ATTACH, sum = 0;

	book(ledger, task(100, ATTACH + 1, 400));
	book(ledger, task(105, ATTACH + 9, 20));
	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 1), 0);
	book(ledger, task(100, ATTACH + 1, 37));
	for (int i = 0; i < 1000; i++)
		sum += close_interval(ledger, end += SEC / 1000).busy_ns;
	book(ledger, death(105, ATTACH + 1, 410, ATTACH + 50));
	book(ledger, task(100, ATTACH + 1, 40));
	sum += close_interval(ledger, end + SEC).busy_ns;
	cr_expect_eq(sum, 410 + 40, "got %lu", (unsigned long)sum);
	cpu_ledger_free(ledger);
}

/* Its tid was another task's, whose death was not told yet. */
Test(cpu_ledger, exec_of_a_thread_of_a_pid_used_again)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;
	uint64_t sum;

	book(ledger, task(100, ATTACH + 1, 400));
	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 9), 0);
	book(ledger, task(100, ATTACH + 9, 37));
	cpu = close_interval(ledger, ATTACH + SEC);
	sum = cpu.busy_ns;
	cr_expect_eq(row(&cpu, 100, ATTACH + 1)->cpu_ns, 400);
	book(ledger, death(100, ATTACH + 1, 410, ATTACH + 8));
	book(ledger, death(105, ATTACH + 9, 500, ATTACH + 10));
	sum += close_interval(ledger, ATTACH + 2 * SEC).busy_ns;
	cr_expect_eq(sum, 410 + 500 + 37, "got %lu", (unsigned long)sum);
	cpu_ledger_free(ledger);
}

/* The leader was met between the exchange of the tids and word of the exec. */
Test(cpu_ledger, exec_of_a_thread_whose_leader_is_read_under_its_tid)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;
	uint64_t sum;

	book(ledger, task(100, ATTACH + 1, 400));
	book(ledger, task(105, ATTACH + 9, 20));
	book(ledger, task(105, ATTACH + 1, 405));
	cpu = close_interval(ledger, ATTACH + SEC);
	sum = cpu.busy_ns;
	cr_assert_eq(cpu_ledger_exec(ledger, 105, 100, ATTACH + 1), 0);
	book(ledger, task(100, ATTACH + 1, 37));
	book(ledger, death(105, ATTACH + 1, 410, ATTACH + 50));
	sum += close_interval(ledger, ATTACH + 2 * SEC).busy_ns;
	cr_expect_eq(sum, 410 + 37, "got %lu", (unsigned long)sum);
	cpu_ledger_free(ledger);
}
