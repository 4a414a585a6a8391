/* SPDX-License-Identifier: BSD-2-Clause */
/* Which task a reading is of, and what of its sums is new. */
#include "unit/cpu_ledger_rig.h"

Test(cpu_ledger, seed_and_birth)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	seed(ledger, task(5, 50, 7000));
	seed(ledger, task(5, 50, 9000)); /* told twice: the first stands */
	book(ledger, task(5, 50, 7100));
	book(ledger, task(6, ATTACH + 1, 40)); /* born after the attach: all of it */
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.task_count, 2);
	cr_expect_eq(row(&cpu, 5, 50)->cpu_ns, 100);
	cr_expect_eq(row(&cpu, 6, ATTACH + 1)->cpu_ns, 40);
	cr_expect_str_eq(row(&cpu, 6, ATTACH + 1)->thread, "worker");
	cr_expect_str_eq(row(&cpu, 6, ATTACH + 1)->process, "app");
	cr_expect_str_eq(row(&cpu, 6, ATTACH + 1)->package, "com.example");
	cr_expect_eq(cpu.tasks[0].tid, 5, "most CPU first");
	book(ledger, task(5, 50, 7100));
	book(ledger, task(6, ATTACH + 1, 45));
	book(ledger, task(6, ATTACH + 1, 48));
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(row(&cpu, 6, ATTACH + 1)->cpu_ns, 8, "two readings, one row");
	cr_expect_eq(cpu.busy_ns, 8);
	cr_expect_eq(cpu_ledger_missed_seeds(ledger), 0);
	cpu_ledger_free(ledger);
	cpu_ledger_free(NULL);
}

Test(cpu_ledger, older_task_without_a_seed)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, 50, 7000)); /* its first sight is its baseline */
	book(ledger, task(5, 50, 7010));
	book(ledger, death(6, 60, 9000, ATTACH + 5)); /* was dying when we came */
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 10);
	cr_expect_eq(cpu_ledger_missed_seeds(ledger), 1);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, tid_used_again)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, ATTACH + 10, 500));
	book(ledger, death(5, ATTACH + 10, 600, ATTACH + 20));
	book(ledger, task(5, ATTACH + 30, 40));
	book(ledger, death(5, ATTACH + 30, 41, ATTACH + 40));
	book(ledger, task(5, ATTACH + 50, 2));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.task_count, 3);
	cr_expect_eq(row(&cpu, 5, ATTACH + 10)->cpu_ns, 600);
	cr_expect(row(&cpu, 5, ATTACH + 10)->exited);
	cr_expect_eq(row(&cpu, 5, ATTACH + 30)->cpu_ns, 41);
	cr_expect_eq(row(&cpu, 5, ATTACH + 50)->cpu_ns, 2);
	cr_expect(!row(&cpu, 5, ATTACH + 50)->exited);
	cpu_ledger_free(ledger);
}

/* The host had the CPU while the task seemed to run, and the task ended before it ran as much. */
Test(cpu_ledger, told_ahead_of_the_last_sum)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, ATTACH + 10, 500));
	book(ledger, task(6, ATTACH + 10, 500));
	book(ledger, task(7, 50, 9000)); /* a baseline: nothing is told of it */
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu_ledger_told_ahead_ns(ledger), 0);
	book(ledger, death(5, ATTACH + 10, 480, ATTACH + SEC + 20));
	book(ledger, death(5, ATTACH + 10, 480, ATTACH + SEC + 20));
	book(ledger, task(6, ATTACH + 10, 490)); /* lives: its next slices take it back */
	book(ledger, death(6, ATTACH + 10, 505, ATTACH + SEC + 30));
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(cpu_ledger_told_ahead_ns(ledger), 20);
	cr_expect_eq(cpu.busy_ns, 5);
	cpu_ledger_free(ledger);
}

/* The death is told after the new owner of the tid was seen: in the same interval or in the next.
 */
Test(cpu_ledger, late_death_of_a_departed_task)
{
	for (int intervals = 0; intervals <= 2; intervals++) {
		struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
		struct record_cpu cpu;
		uint64_t booked = 0;

		seed(ledger, task(5, 50, 7000));
		book(ledger, task(5, 50, 7100));
		book(ledger, task(5, ATTACH + 30, 40));
		for (int i = 0; i < intervals; i++)
			booked += close_interval(ledger, ATTACH + (uint64_t)(i + 1) * SEC).busy_ns;
		book(ledger, death(5, 50, 7130, ATTACH + 20));
		book(ledger, task(5, ATTACH + 30, 44));
		cpu = close_interval(ledger, ATTACH + 5 * SEC);
		cr_expect_eq(booked + cpu.busy_ns, 130 + 44, "%d intervals late: %llu", intervals,
			     (unsigned long long)(booked + cpu.busy_ns));
		cr_expect(row(&cpu, 5, 50)->exited);
		cr_expect_eq(row(&cpu, 5, 50)->cpu_ns, intervals ? 30 : 130);
		cpu_ledger_free(ledger);
	}
}

/* The same of a task that slept since long before: how long ago it was last booked says nothing
 * about how late its death may come. */
Test(cpu_ledger, late_death_of_a_sleeper)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	seed(ledger, task(5, 50, 7000));
	for (unsigned i = 1; i < 9; i++)
		cr_expect_eq(close_interval(ledger, ATTACH + i * SEC).task_count, 0);
	book(ledger, task(5, ATTACH + 9 * SEC, 40));
	cr_expect_eq(close_interval(ledger, ATTACH + 9 * SEC).busy_ns, 40);
	book(ledger, death(5, 50, 7003, ATTACH + 8 * SEC));
	cpu = close_interval(ledger, ATTACH + 10 * SEC);
	cr_expect_eq(cpu.busy_ns, 3, "%llu", (unsigned long long)cpu.busy_ns);
	cpu_ledger_free(ledger);
}

/* With a minute between two read-outs (-i 60s): the death comes just behind the read-out that saw
 * the new owner of the tid. */
Test(cpu_ledger, late_death_in_long_intervals)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, ATTACH + 1, 7000));
	cr_expect_eq(close_interval(ledger, ATTACH + 60 * SEC).busy_ns, 7000);
	book(ledger, task(5, ATTACH + 119 * SEC, 40));
	cr_expect_eq(close_interval(ledger, ATTACH + 120 * SEC).busy_ns, 40);
	book(ledger, death(5, ATTACH + 1, 7003, ATTACH + 119 * SEC));
	cpu = close_interval(ledger, ATTACH + 180 * SEC);
	cr_expect_eq(cpu.busy_ns, 3, "%llu", (unsigned long long)cpu.busy_ns);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, departed_are_forgotten_in_the_end)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);

	/* A tid that changes hands each time, and no death is ever told: memory stays bounded,
	 * which the sanitizer and the time of this test show; the sums stay right. */
	for (uint64_t i = 0; i < 3000; i++) {
		book(ledger, task(5, ATTACH + 1 + i, 1));
		cr_assert_eq(close_interval(ledger, ATTACH + i * SEC).busy_ns, 1);
	}
	cpu_ledger_free(ledger);
}

/* Born, run and dead between two read-outs, and its tid is already someone else's. */
Test(cpu_ledger, death_of_an_unknown_task_behind_a_newer_owner)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, ATTACH + 30, 40));
	book(ledger, death(5, ATTACH + 10, 600, ATTACH + 20));
	/* One that is older than the attach and that no seed told of has no baseline. */
	book(ledger, death(5, 50, 70000, ATTACH + 5));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(row(&cpu, 5, ATTACH + 10)->cpu_ns, 600);
	cr_expect_eq(row(&cpu, 5, ATTACH + 30)->cpu_ns, 40);
	cr_expect_eq(cpu.busy_ns, 640, "%llu", (unsigned long long)cpu.busy_ns);
	/* The owner is untouched by the deaths of the others. */
	book(ledger, task(5, ATTACH + 30, 41));
	cr_expect_eq(close_interval(ledger, ATTACH + 2 * SEC).busy_ns, 1);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, sums_that_step_back_add_nothing)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, ATTACH + 1, 1000);
	struct record_cpu cpu;

	reading.sums.runnable_ns = 300;
	reading.has_runnable = true;
	reading.sums.switches_voluntary = 7;
	reading.has_switches = true;
	book(ledger, reading);
	/* The slice that runs was counted to now, and then turned out shorter. */
	reading.sums.cpu_ns = 990;
	reading.sums.runnable_ns = 200;
	reading.sums.switches_voluntary = 6;
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 1000);
	cr_expect_eq(cpu.tasks[0].runnable_ns.value, 300);
	cr_expect_eq(cpu.tasks[0].switches_voluntary.value, 7);
	book(ledger, reading);
	cr_expect_eq(close_interval(ledger, ATTACH + 2 * SEC).busy_ns, 0);
	reading.sums.cpu_ns = 1005;
	reading.sums.runnable_ns = 301;
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + 3 * SEC);
	cr_expect_eq(cpu.busy_ns, 5, "the overshoot is paid back, and no more");
	cr_expect_eq(cpu.tasks[0].runnable_ns.value, 1);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, dead_slot_read_again)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, death(5, ATTACH + 1, 100, ATTACH + 2));
	book(ledger, death(5, ATTACH + 1, 100, ATTACH + 2));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.task_count, 1);
	cr_expect_eq(cpu.busy_ns, 100);
	book(ledger, death(5, ATTACH + 1, 100, ATTACH + 2));
	cr_expect_eq(close_interval(ledger, ATTACH + 2 * SEC).task_count, 0);
	/* A dying task ran on after its death was told. */
	book(ledger, death(5, ATTACH + 1, 104, ATTACH + 2));
	cr_expect_eq(close_interval(ledger, ATTACH + 3 * SEC).busy_ns, 4);
	cpu_ledger_free(ledger);
}

/* /proc tells the start in ticks of 10 ms; BPF tells it to the nanosecond. */
Test(cpu_ledger, coarse_start_becomes_exact)
{
	const uint64_t exact = 123456789012ull, coarse = exact / 10000000 * 10000000;
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, coarse, 7000);
	struct record_cpu cpu;

	reading.start_is_coarse = true;
	seed(ledger, reading);
	cr_expect(!unchanged(ledger, 5, exact, 7000, 0));
	book(ledger, task(5, exact, 7001));
	cr_expect(unchanged(ledger, 5, exact, 7001, 0));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.task_count, 1);
	cr_expect_eq(row(&cpu, 5, exact)->cpu_ns, 1);
	/* Having the exact time, another one in the same tick is another task... */
	book(ledger, task(5, exact + 1, 50));
	/* ...but a coarse reading still fits. */
	reading.sums.cpu_ns = 55;
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(cpu_ledger_missed_seeds(ledger), 1);
	cr_expect_eq(cpu.busy_ns, 5);
	/* The next tick is someone else. */
	reading.start_boot_ns = ATTACH + 10000000;
	reading.sums.cpu_ns = 3;
	book(ledger, reading);
	cr_expect_eq(close_interval(ledger, ATTACH + 3 * SEC).busy_ns, 3);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, unchanged)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, 50, 100);

	cr_expect(!unchanged(ledger, 5, 50, 100, 0));
	cr_expect(!unchanged(ledger, -1, 50, 100, 0));
	cr_expect(!unchanged(ledger, INT32_MAX, 50, 100, 0));
	reading.sums.switches_voluntary = 2;
	reading.sums.switches_involuntary = 3;
	reading.has_switches = true;
	seed(ledger, reading);
	cr_expect(unchanged(ledger, 5, 50, 100, 5));
	cr_expect(!unchanged(ledger, 5, 50, 101, 5));
	cr_expect(!unchanged(ledger, 5, 51, 100, 5));
	cr_expect(!unchanged(ledger, 5, 50, 100, 6), "it ran, for 0 ns");
	cr_expect(unchanged(ledger, 5, 50, 90, 4), "the copy in its slot is older");
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, hostile_tids)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(-5, 50, 100);

	cr_expect_eq(cpu_ledger_seed(ledger, &reading), -ENOMEM);
	cr_expect_eq(cpu_ledger_update(ledger, &reading), -ENOMEM);
	reading.tid = INT32_MAX;
	cr_expect_eq(cpu_ledger_update(ledger, &reading), -ENOMEM);
	reading.tid = (4 << 20) - 1; /* PID_MAX_LIMIT - 1 */
	cr_expect_eq(cpu_ledger_update(ledger, &reading), 0);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, name_without_an_end)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, ATTACH + 1, 1);
	char comm[RECORD_COMM_LEN];
	struct record_cpu cpu;

	memset(comm, 'x', sizeof(comm));
	reading.comm = comm;
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_str_eq(cpu.tasks[0].thread, "xxxxxxxxxxxxxxx");
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, overflow_cut_and_closure)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu = {0};
	uint64_t uids = 0;

	for (pid_t tid = 100; tid < 110; tid++) {
		struct task_reading reading = task(tid, ATTACH + (uint64_t)tid, (uint64_t)tid);

		reading.sums.runnable_ns = 2;
		reading.has_runnable = true;
		book(ledger, reading);
	}
	{
		struct task_reading other = task(7, ATTACH + 1, 70);

		other.tgid = 7;
		other.uid = 0;
		book(ledger, other);
	}
	cr_assert_eq(cpu_ledger_overflow(ledger, 10001, 1000), 0);
	cr_assert_eq(cpu_ledger_overflow(ledger, 55, 1), 0);
	cr_assert_eq(cpu_ledger_close(ledger, ATTACH + SEC, SEC, 3, &one, &cpu), 0);
	cr_expect_eq(cpu.overflow_ns, 1001);
	cr_expect_eq(cpu.busy_ns, 1045 + 70 + 1001);
	cr_expect_eq(cpu.task_count, 3);
	cr_expect_eq(cpu.tasks[0].tid, 109);
	cr_expect_eq(cpu.tasks[2].tid, 107);
	/* The seven below the cut, and the process that is no target. */
	cr_expect_eq(cpu.other_ns, 1045 - 109 - 108 - 107 + 70);
	cr_expect_eq(cpu.process_count, 1, "processes are summed before the cut");
	cr_expect_eq(cpu.processes[0].cpu_ns, 1045);
	cr_expect_eq(cpu.processes[0].runnable_ns.value, 20);
	cr_expect_eq(cpu.processes[0].threads, 10);
	cr_expect_eq(cpu.uid_count, 3);
	for (size_t i = 0; i < cpu.uid_count; i++) {
		uids += cpu.uids[i].cpu_ns;
		cr_expect(!i || cpu.uids[i].uid > cpu.uids[i - 1].uid);
	}
	cr_expect_eq(uids, cpu.busy_ns);
	/* And nothing of it comes again. */
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(cpu.busy_ns + cpu.uid_count + cpu.task_count, 0);
	cpu_ledger_free(ledger);
}

static struct record_task lived(uint64_t start, bool dies, uint64_t end, uint64_t stopped)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, start, 1000 + 100000000);
	struct record_task result;

	if (start < ATTACH)
		seed(ledger, task(5, start, 1000));
	else
		reading.sums.cpu_ns -= 1000;
	reading.sums.runnable_ns = 50000000;
	reading.has_runnable = true;
	reading.uninterruptible_ns = SOME_U64(30000000);
	if (stopped)
		reading.stopped_ns = SOME_U64(stopped);
	reading.exited = dies;
	reading.end_boot_ns = end;
	book(ledger, reading);
	result = close_interval(ledger, ATTACH + SEC).tasks[0];
	cpu_ledger_free(ledger);
	return result;
}

Test(cpu_ledger, sleep_is_the_rest_of_its_life)
{
	struct record_task row_ = lived(50, false, 0, 0);

	cr_expect(row_.sleeping_ns.present);
	cr_expect_eq(row_.sleeping_ns.value, 820000000);
	cr_expect(!row_.stopped_ns.present);
	cr_expect_eq(lived(50, false, 0, 20000000).sleeping_ns.value, 800000000);
	cr_expect_eq(lived(ATTACH + 400000000, false, 0, 0).sleeping_ns.value, 420000000);
	cr_expect_eq(lived(50, true, ATTACH + 600000000, 0).sleeping_ns.value, 420000000);
	cr_expect_eq(lived(ATTACH + 400000000, true, ATTACH + 600000000, 0).sleeping_ns.value,
		     20000000);
	/* Skew of the read-out never makes it negative. */
	row_ = lived(ATTACH + 900000000, false, 0, 0);
	cr_expect(row_.sleeping_ns.present);
	cr_expect_eq(row_.sleeping_ns.value, 0);
}

/* Suspended for an hour amid the interval: of a task that began or ended in it nobody knows whether
 * it was before or after, and 0 would be a lie. */
Test(cpu_ledger, sleep_beside_a_suspend)
{
	const uint64_t hour_ns = 3600 * SEC, end_ns = ATTACH + hour_ns + SEC;
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading readings[] = {task(5, 50, 0), task(6, 60, 0),
					  task(7, end_ns - SEC / 2, 0)};
	struct record_cpu cpu;

	seed(ledger, readings[0]);
	seed(ledger, readings[1]);
	for (int i = 0; i < 3; i++) {
		readings[i].sums.cpu_ns = 10000000 - (uint64_t)i;
		readings[i].has_runnable = true;
		readings[i].uninterruptible_ns = SOME_U64(0);
	}
	readings[1].exited = true;
	readings[1].end_boot_ns = ATTACH + SEC / 2;
	for (int i = 0; i < 3; i++)
		book(ledger, readings[i]);
	cpu = close_interval(ledger, end_ns);
	cr_assert_eq(cpu.task_count, 3);
	cr_expect(row(&cpu, 5, 50)->sleeping_ns.present);
	cr_expect_eq(row(&cpu, 5, 50)->sleeping_ns.value, SEC - 10000000);
	cr_expect(!row(&cpu, 6, 60)->sleeping_ns.present);
	cr_expect(!row(&cpu, 7, end_ns - SEC / 2)->sleeping_ns.present);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, what_was_not_read_stays_absent)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct record_cpu cpu;

	book(ledger, task(5, ATTACH + 1, 10));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect(!cpu.tasks[0].runnable_ns.present);
	cr_expect(!cpu.tasks[0].sleeping_ns.present);
	cr_expect(!cpu.tasks[0].uninterruptible_ns.present);
	cr_expect(!cpu.tasks[0].stopped_ns.present);
	cr_expect(!cpu.tasks[0].switches_voluntary.present);
	cr_expect(!cpu.tasks[0].switches_involuntary.present);
	cr_expect(!cpu.processes[0].runnable_ns.present);
	cpu_ledger_free(ledger);
}

/* The name of a process is asked for with the start of its leader, so that a pid used again does
 * not get the name of the one before. */
Test(cpu_ledger, identity_of_a_process_is_that_of_its_leader)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);

	seed(ledger, task(100, 77, 10));
	book(ledger, task(101, ATTACH + 1, 10));
	close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(asked_start, 77);
	cpu_ledger_free(ledger);
}
