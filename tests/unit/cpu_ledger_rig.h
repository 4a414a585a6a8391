/* SPDX-License-Identifier: BSD-2-Clause */
/* Made-up readings for the tests of the CPU ledger, and what each closed interval must satisfy. */
#pragma once
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "source/cpu/ledger.h"

#define ATTACH 1000000000000ull /* boot time when the ledger began */
#define SEC    1000000000ull

static inline const char *process_of(void *ctx, pid_t pid, uint64_t start_boot_ns)
{
	*(uint64_t *)ctx = start_boot_ns;
	return pid == 100 ? "app" : NULL;
}

static inline const char *package_of(void *ctx, uid_t uid)
{
	return uid == 10001 ? "com.example" : NULL;
}

static inline bool all(void *ctx, const struct record_task *task, uint64_t end_boot_ns)
{
	return true;
}

static inline bool only_100(void *ctx, const struct record_task *task, uint64_t end_boot_ns)
{
	return task->pid == 100;
}

static uint64_t asked_start;
static const struct cpu_ledger_names everyone = {&asked_start, process_of, package_of, all};
static const struct cpu_ledger_names one = {&asked_start, process_of, package_of, only_100};

static inline struct task_reading task(pid_t tid, uint64_t start, uint64_t cpu)
{
	return (struct task_reading){
		.tid = tid,
		.tgid = 100,
		.uid = 10001,
		.start_boot_ns = start,
		.sums.cpu_ns = cpu,
		.comm = "worker\0\0\0\0\0\0\0\0\0",
	};
}

static inline struct task_reading death(pid_t tid, uint64_t start, uint64_t cpu, uint64_t end)
{
	struct task_reading reading = task(tid, start, cpu);

	reading.exited = true;
	reading.end_boot_ns = end;
	return reading;
}

static inline void book(struct cpu_ledger *ledger, struct task_reading reading)
{
	cr_assert_eq(cpu_ledger_update(ledger, &reading), 0);
}

/* As if a slot had that CPU time and so many switches. */
static inline bool unchanged(const struct cpu_ledger *ledger, pid_t tid, uint64_t start,
			     uint64_t cpu, uint64_t switches)
{
	const struct task_sums sums = {.cpu_ns = cpu, .switches_involuntary = switches};

	return cpu_ledger_unchanged(ledger, tid, start, &sums);
}

static inline void seed(struct cpu_ledger *ledger, struct task_reading reading)
{
	cr_assert_eq(cpu_ledger_seed(ledger, &reading), 0);
}

static inline struct record_cpu close_interval(struct cpu_ledger *ledger, uint64_t end)
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

static inline const struct record_task *row(const struct record_cpu *cpu, pid_t tid, uint64_t start)
{
	for (size_t i = 0; i < cpu->task_count; i++)
		if (cpu->tasks[i].tid == tid && cpu->tasks[i].start_boot_ns == start)
			return &cpu->tasks[i];
	return NULL;
}
