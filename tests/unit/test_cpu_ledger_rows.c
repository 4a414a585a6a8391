/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rows an interval has: tasks without one, and tasks with several. */
#include "unit/cpu_ledger_rig.h"

/* 16,000 threads a second must not take 16,000 rows of memory; nothing of their time goes. */
Test(cpu_ledger, ended_tasks_without_number_are_folded)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	uint64_t busy_ns = 0, rows_ns = 0;
	struct record_cpu cpu;

	for (pid_t tid = 1000; tid < 6000; tid++) {
		book(ledger, death(tid, ATTACH + 10 + (uint64_t)tid, 7, ATTACH + SEC / 2));
		busy_ns += 7;
	}
	for (pid_t tid = 6000; tid < 6100; tid++) { /* alive: each has its row */
		book(ledger, task(tid, ATTACH + 10, 5));
		busy_ns += 5;
	}
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &everyone, &cpu), 0);
	cr_expect_eq(cpu.busy_ns, busy_ns);
	cr_expect_leq(cpu.task_count, 2048 + 100);
	for (size_t i = 0; i < cpu.task_count; i++)
		rows_ns += cpu.tasks[i].cpu_ns;
	cr_expect_eq(cpu_ledger_folded(ledger), 5100 - cpu.task_count);
	cr_expect_eq(cpu.other_ns, busy_ns - rows_ns);
	cr_assert_eq(cpu.process_count, 1);
	cr_expect_eq(cpu.processes[0].cpu_ns, busy_ns, "the process has all of it");
	cr_expect_eq(cpu.processes[0].threads, 5100);
	cr_expect_str_eq(cpu.processes[0].process, "app");
	/* Told again (RCU frees the task later) it adds what is new, and is no other task. */
	book(ledger, death(5999, ATTACH + 10 + 5999, 9, ATTACH + SEC / 2));
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(cpu.busy_ns, 2);
	cr_expect_eq(cpu_ledger_folded(ledger), 5100 - 2048 - 100);
	cpu_ledger_free(ledger);
}

/* Of more processes than there is room for, the time is with their uid and in other_ns. */
Test(cpu_ledger, folded_processes_are_bounded)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	for (pid_t tid = 1000; tid < 11000; tid++) {
		struct task_reading reading =
			death(tid, ATTACH + 10 + (uint64_t)tid, 3, ATTACH + SEC / 2);

		reading.tgid = tid;
		reading.process_start_boot_ns = reading.start_boot_ns;
		book(ledger, reading);
	}
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &everyone, &cpu), 0);
	cr_expect_eq(cpu.busy_ns, 30000);
	cr_expect_leq(cpu.process_count, 2048 + 1024);
	for (size_t i = 0; i < cpu.process_count; i++)
		cr_expect(cpu.processes[i].exited, "who keeps rows of processes knows of each end");
	cr_expect_eq(cpu.uids[0].cpu_ns, 30000);
	cr_expect_eq(cpu.task_count * 3 + cpu.other_ns, 30000);
	cr_expect_eq(cpu_ledger_folded(ledger), 10000 - cpu.task_count);
	cpu_ledger_free(ledger);
}

static bool is_target(void *ctx, const struct record_task *task_of, uint64_t end_boot_ns)
{
	return task_of->pid % 1000 == 0;
}

/* A storm of other programs costs a target none of its rows, and is no loss of the target's. */
Test(cpu_ledger, rows_of_targets_come_first)
{
	static const struct cpu_ledger_names wanted = {&asked_start, process_of, package_of,
						       is_target};
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	uint64_t rows_ns = 0;
	struct record_cpu cpu;

	cpu_ledger_want(ledger, &wanted);
	for (pid_t tid = 1; tid <= 1000000; tid++) {
		struct task_reading reading =
			death(tid, ATTACH + 10 + (uint64_t)tid, 3, ATTACH + SEC / 2);

		reading.tgid = tid;
		book(ledger, reading);
	}
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &wanted, &cpu), 0);
	cr_expect_eq(cpu.busy_ns, 3000000);
	cr_expect_eq(cpu.task_count, 1000);
	for (size_t i = 0; i < cpu.task_count; i++)
		rows_ns += cpu.tasks[i].cpu_ns;
	cr_expect_eq(rows_ns, 3000);
	cr_expect_eq(cpu.other_ns, 3000000 - 3000);
	cr_expect_eq(cpu_ledger_folded(ledger), 0);
	cpu_ledger_free(ledger);
}

static bool is_pid_1(void *ctx, const struct record_task *task_of, uint64_t end_boot_ns)
{
	return task_of->pid == 1;
}

/* A target has as many rows as anyone alone would have, however many the others took before. */
Test(cpu_ledger, a_target_has_2048_rows_of_its_own)
{
	static const struct cpu_ledger_names wanted = {&asked_start, process_of, package_of,
						       is_pid_1};
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	cpu_ledger_want(ledger, &wanted);
	for (pid_t others = 1; others >= 0;
	     others--) { /* the second interval is of the target alone */
		for (pid_t tid = 10; tid < 6010; tid++) {
			struct task_reading reading =
				death(tid, ATTACH + 10 + (uint64_t)tid + (others ? 0 : SEC), 3,
				      ATTACH + SEC / 2 + (others ? 0 : SEC));

			reading.tgid = others && tid < 3010 ? 2 : 1;
			book(ledger, reading);
		}
		cr_assert_eq(cpu_ledger_close(ledger, ATTACH + (others ? 1 : 2) * SEC, SEC, 0,
					      &wanted, &cpu),
			     0);
		cr_expect_eq(cpu.task_count, 2048);
		cr_expect_eq(cpu.busy_ns, 18000);
		cr_expect_eq(cpu.other_ns, 18000 - 2048 * 3);
	}
	cr_expect_eq(cpu_ledger_folded(ledger), 3000 + 6000 - 2 * 2048);
	cpu_ledger_free(ledger);
}

/* ---- one task whose time counts for different things ---- */

static bool only_uid_10001(void *ctx, const struct record_task *listed, uint64_t end_boot_ns)
{
	return listed->uid == 10001;
}

static const struct cpu_ledger_names by_uid = {&asked_start, process_of, package_of,
					       only_uid_10001};

static struct task_reading as_uid(struct task_reading reading, uid_t uid)
{
	reading.uid = uid;
	return reading;
}

/* The rows are handed out in the memory that they were booked in, and the next ones go to another:
 * what was handed out stays until the next close, also of rows that nobody lists in between. */
Test(cpu_ledger, what_was_handed_out_stays)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0}, next = {0};

	for (unsigned round = 0; round < 4; round++) {
		size_t tasks = round % 2 ? 5 : 1500;
		uint64_t end = ATTACH + (round + 1) * SEC;

		for (pid_t tid = 1000; tid < 1000 + (pid_t)tasks; tid++)
			book(ledger, as_uid(task(tid, ATTACH + 10, (round + 1) * (uint64_t)tid),
					    tid % 3 ? 0 : 10001));
		if (round) /* booked behind the close, before it is looked at */
			for (size_t i = 0; i + 1 < cpu.task_count; i++)
				cr_assert_gt(cpu.tasks[i].cpu_ns, cpu.tasks[i + 1].cpu_ns);
		next = (struct record_cpu){0};
		cr_assert_eq(cpu_ledger_close(ledger, end, SEC, 0, &by_uid, &next), 0);
		cpu = next;
		cr_expect_eq(cpu.task_count, tasks == 5 ? 1 : 500);
		for (size_t i = 0; i < cpu.task_count; i++) {
			cr_assert_eq(cpu.tasks[i].tid % 3, 0);
			cr_assert_eq(cpu.tasks[i].uid, 10001);
			cr_assert_not_null(cpu.tasks[i].process);
		}
	}
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, a_change_of_uid_splits_the_time_that_is_listed)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0};

	/* to and fro: root 100 + 40, the app 50 + 30 */
	book(ledger, as_uid(task(100, ATTACH + 1, 100), 0));
	book(ledger, task(100, ATTACH + 1, 150));
	book(ledger, as_uid(task(100, ATTACH + 1, 190), 0));
	book(ledger, task(100, ATTACH + 1, 220));
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &by_uid, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 80);
	cr_expect_eq(cpu.other_ns, 140);
	cr_expect_eq(cpu.busy_ns, 220);
	cr_expect(!cpu.tasks[0].sleeping_ns.present, "not known of a part");
	/* for who lists all, the task has one row, of the uid that it has now */
	book(ledger, as_uid(task(100, ATTACH + 1, 300), 0));
	book(ledger, task(100, ATTACH + 1, 310));
	book(ledger, as_uid(task(100, ATTACH + 1, 320), 0));
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + 2 * SEC, SEC, 0, &everyone, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 100);
	cr_expect_eq(cpu.tasks[0].uid, 0);
	cr_expect_eq(cpu.other_ns, 0);
	cpu_ledger_free(ledger);
}

static void split(struct cpu_ledger *ledger, struct task_reading reading, bool listed,
		  const char *process)
{
	cr_assert_eq(cpu_ledger_split(ledger, &reading, listed, process), 0);
}

static bool none(void *ctx, const struct record_task *listed, uint64_t end_boot_ns)
{
	return false;
}

static const struct cpu_ledger_names nobody = {&asked_start, process_of, package_of, none};

Test(cpu_ledger, a_process_that_becomes_or_ceases_to_be_listed_is_split_there)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0};

	/* 70 as another program, then the target until its end */
	split(ledger, task(100, ATTACH + 1, 70), false, NULL);
	book(ledger, death(100, ATTACH + 1, 100, ATTACH + SEC / 2));
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &one, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 30);
	cr_expect(cpu.tasks[0].exited);
	cr_expect_eq(cpu.other_ns, 70);
	/* the target for 40, then another program */
	split(ledger, task(100, ATTACH + 5, 40), true, "app-before");
	book(ledger, task(100, ATTACH + 5, 1000));
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + 2 * SEC, SEC, 0, &nobody, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 40);
	cr_expect_str_eq(cpu.tasks[0].process, "app-before");
	cr_expect_eq(cpu.other_ns, 960);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, a_chain_of_execs_is_one_row)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0};
	uint64_t cpu_ns = 0;

	for (int i = 0; i < 1000; i++) {
		split(ledger, task(100, ATTACH + 1, cpu_ns += 3), false, NULL);
		split(ledger, task(100, ATTACH + 1, cpu_ns += 5), true, "app");
	}
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &nobody, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 5000);
	cr_expect_eq(cpu.other_ns, 3000);
	cr_expect_eq(cpu.busy_ns, 8000);
	cpu_ledger_free(ledger);
}

/* The sum of a split that comes late, after a larger one, adds nothing. */
Test(cpu_ledger, a_late_split_neither_adds_nor_loses)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0};

	book(ledger, task(100, ATTACH + 1, 100));
	split(ledger, task(100, ATTACH + 1, 60), false, NULL);
	book(ledger, task(100, ATTACH + 1, 130));
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 0, &one, &cpu), 0);
	cr_assert_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.tasks[0].cpu_ns, 30);
	cr_expect_eq(cpu.other_ns, 100);
	cpu_ledger_free(ledger);
}
