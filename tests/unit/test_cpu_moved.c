/* SPDX-License-Identifier: BSD-2-Clause */
/* Readings that were made before word of an execve, and booked behind it. */
#include <criterion/criterion.h>

#include "source/cpu/moved.h"

#define SEC    1000000000ull
#define LEADER 100
#define THREAD 105
#define OTHER  107

/* THREAD took the place of LEADER, which began at 1 s, that long after the begin of boot. */
static struct moved_tasks moved_at(uint64_t at_boot_ns)
{
	const struct task_death note = {.tid = LEADER,
					.tgid = LEADER,
					.exec_tid = THREAD,
					.start_boot_ns = SEC,
					.end_boot_ns = at_boot_ns};
	struct moved_tasks moved = {0};

	cr_assert_eq(moved_tasks_add(&moved, &note), 0);
	return moved;
}

static struct task_reading of(pid_t tid, uint64_t start_boot_ns)
{
	return (struct task_reading){
		.tid = tid, .tgid = LEADER, .start_boot_ns = start_boot_ns, .sums.cpu_ns = 7};
}

Test(cpu_moved, a_thread_that_moved_is_booked_as_the_leader)
{
	struct moved_tasks moved = moved_at(5 * SEC);
	struct task_reading reading = of(THREAD, 2 * SEC);

	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect_eq(reading.tid, LEADER);
	cr_expect_eq(reading.start_boot_ns, SEC);
	cr_expect_eq(reading.process_start_boot_ns, SEC);
	cr_expect_eq(reading.sums.cpu_ns, 7);
	moved_tasks_free(&moved);
}

Test(cpu_moved, a_leader_may_be_either_of_two)
{
	struct moved_tasks moved = moved_at(5 * SEC);
	struct task_reading reading = of(LEADER, SEC);

	cr_expect_not(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect(moved_tasks_rename(&moved, 6 * SEC, &reading), "the read-out began behind it");
	cr_expect_eq(reading.tid, LEADER);
	moved_tasks_free(&moved);
}

Test(cpu_moved, others_keep_their_names)
{
	struct moved_tasks moved = moved_at(5 * SEC);
	struct task_reading reading = of(OTHER, 2 * SEC), before = reading;

	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect_arr_eq(&reading, &before, sizeof(reading), "another thread");
	reading = before = of(THREAD, SEC);
	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect_arr_eq(&reading, &before, sizeof(reading), "the leader, as it ends");
	reading = before = of(THREAD, 6 * SEC);
	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect_arr_eq(&reading, &before, sizeof(reading), "who has the tid since");
	reading = of(THREAD, 2 * SEC);
	reading.tgid = THREAD;
	before = reading;
	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &reading));
	cr_expect_arr_eq(&reading, &before, sizeof(reading), "another process");
	moved_tasks_free(&moved);
}

Test(cpu_moved, the_first_of_two_that_moved_is_no_leader_any_more)
{
	struct moved_tasks moved = moved_at(5 * SEC);
	const struct task_death again = {.tid = LEADER,
					 .tgid = LEADER,
					 .exec_tid = OTHER,
					 .start_boot_ns = SEC,
					 .end_boot_ns = 6 * SEC};
	struct task_reading first = of(THREAD, 2 * SEC), second = of(OTHER, 5 * SEC + 1);

	cr_assert_eq(moved_tasks_add(&moved, &again), 0);
	cr_expect_not(moved_tasks_rename(&moved, 4 * SEC, &first));
	cr_expect(moved_tasks_rename(&moved, 4 * SEC, &second));
	cr_expect_eq(second.tid, LEADER);
	moved_tasks_free(&moved);
}
