/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "source/cpu/ledger.h"

#define ATTACH 1000000000000ull /* boot time when the ledger began */
#define SEC    1000000000ull

static const char *process_of(void *ctx, pid_t pid, uint64_t start_boot_ns)
{
	*(uint64_t *)ctx = start_boot_ns;
	return pid == 100 ? "app" : NULL;
}

static const char *package_of(void *ctx, uid_t uid)
{
	return uid == 10001 ? "com.example" : NULL;
}

static bool all(void *ctx, const struct record_task *task, uint64_t end_boot_ns)
{
	return true;
}

static bool only_100(void *ctx, const struct record_task *task, uint64_t end_boot_ns)
{
	return task->pid == 100;
}

static uint64_t asked_start;
static const struct cpu_ledger_names everyone = {&asked_start, process_of, package_of, all};
static const struct cpu_ledger_names one = {&asked_start, process_of, package_of, only_100};

static struct task_reading task(pid_t tid, uint64_t start, uint64_t cpu)
{
	return (struct task_reading){
		.tid = tid,
		.tgid = 100,
		.uid = 10001,
		.start_boot_ns = start,
		.cpu_ns = cpu,
		.comm = "worker\0\0\0\0\0\0\0\0\0",
	};
}

static struct task_reading death(pid_t tid, uint64_t start, uint64_t cpu, uint64_t end)
{
	struct task_reading reading = task(tid, start, cpu);

	reading.exited = true;
	reading.end_boot_ns = end;
	return reading;
}

static void book(struct cpu_ledger *ledger, struct task_reading reading)
{
	cr_assert_eq(cpu_ledger_update(ledger, &reading), 0);
}

static void seed(struct cpu_ledger *ledger, struct task_reading reading)
{
	cr_assert_eq(cpu_ledger_seed(ledger, &reading), 0);
}

static struct record_cpu close_interval(struct cpu_ledger *ledger, uint64_t end)
{
	struct record_cpu cpu = {0};
	uint64_t tasks = 0, uids = 0, processes = 0;

	cr_assert_eq(cpu_ledger_close(ledger, end, SEC, 0, &everyone, &cpu), 0);
	for (size_t i = 0; i < cpu.task_count; i++)
		tasks += cpu.tasks[i].cpu_ns;
	for (size_t i = 0; i < cpu.uid_count; i++)
		uids += cpu.uids[i].cpu_ns;
	for (size_t i = 0; i < cpu.process_count; i++)
		processes += cpu.processes[i].cpu_ns;
	/* The closure of the contract, on every interval of every test. */
	cr_expect_eq(tasks + cpu.other_ns + cpu.overflow_ns, cpu.busy_ns);
	cr_expect_eq(uids, cpu.busy_ns);
	cr_expect_eq(processes, tasks);
	return cpu;
}

static const struct record_task *row(const struct record_cpu *cpu, pid_t tid, uint64_t start)
{
	for (size_t i = 0; i < cpu->task_count; i++)
		if (cpu->tasks[i].tid == tid && cpu->tasks[i].start_boot_ns == start)
			return &cpu->tasks[i];
	return NULL;
}

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

	reading.runnable_ns = SOME_U64(300);
	reading.switches_voluntary = SOME_U64(7);
	book(ledger, reading);
	/* The slice that runs was counted to now, and then turned out shorter. */
	reading.cpu_ns = 990;
	reading.runnable_ns = SOME_U64(200);
	reading.switches_voluntary = SOME_U64(6);
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.busy_ns, 1000);
	cr_expect_eq(cpu.tasks[0].runnable_ns.value, 300);
	cr_expect_eq(cpu.tasks[0].switches_voluntary.value, 7);
	book(ledger, reading);
	cr_expect_eq(close_interval(ledger, ATTACH + 2 * SEC).busy_ns, 0);
	reading.cpu_ns = 1005;
	reading.runnable_ns = SOME_U64(301);
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
	cr_expect(!cpu_ledger_unchanged(ledger, 5, exact, 7000, 0));
	book(ledger, task(5, exact, 7001));
	cr_expect(cpu_ledger_unchanged(ledger, 5, exact, 7001, 0));
	cpu = close_interval(ledger, ATTACH + SEC);
	cr_expect_eq(cpu.task_count, 1);
	cr_expect_eq(row(&cpu, 5, exact)->cpu_ns, 1);
	/* Having the exact time, another one in the same tick is another task... */
	book(ledger, task(5, exact + 1, 50));
	/* ...but a coarse reading still fits. */
	reading.cpu_ns = 55;
	book(ledger, reading);
	cpu = close_interval(ledger, ATTACH + 2 * SEC);
	cr_expect_eq(cpu_ledger_missed_seeds(ledger), 1);
	cr_expect_eq(cpu.busy_ns, 5);
	/* The next tick is someone else. */
	reading.start_boot_ns = ATTACH + 10000000;
	reading.cpu_ns = 3;
	book(ledger, reading);
	cr_expect_eq(close_interval(ledger, ATTACH + 3 * SEC).busy_ns, 3);
	cpu_ledger_free(ledger);
}

Test(cpu_ledger, unchanged)
{
	struct cpu_ledger *ledger = cpu_ledger_new(ATTACH);
	struct task_reading reading = task(5, 50, 100);

	cr_expect(!cpu_ledger_unchanged(ledger, 5, 50, 100, 0));
	cr_expect(!cpu_ledger_unchanged(ledger, -1, 50, 100, 0));
	cr_expect(!cpu_ledger_unchanged(ledger, INT32_MAX, 50, 100, 0));
	reading.switches_voluntary = SOME_U64(2);
	reading.switches_involuntary = SOME_U64(3);
	seed(ledger, reading);
	cr_expect(cpu_ledger_unchanged(ledger, 5, 50, 100, 5));
	cr_expect(!cpu_ledger_unchanged(ledger, 5, 50, 101, 5));
	cr_expect(!cpu_ledger_unchanged(ledger, 5, 51, 100, 5));
	cr_expect(!cpu_ledger_unchanged(ledger, 5, 50, 100, 6), "it ran, for 0 ns");
	cr_expect(cpu_ledger_unchanged(ledger, 5, 50, 90, 4), "the copy in its slot is older");
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

		reading.runnable_ns = SOME_U64(2);
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
		reading.cpu_ns -= 1000;
	reading.runnable_ns = SOME_U64(50000000);
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
