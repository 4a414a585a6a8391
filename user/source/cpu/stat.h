/* SPDX-License-Identifier: BSD-2-Clause */
/* Interrupts, steal and waits for disks of each CPU, as the kernel's own account has them. */
#pragma once
#include "jankscope/record.h"
#include "proc/machine.h"

#define CPU_STAT_MAX 512

/* The kernel's own sums of a CPU since boot, to the nanosecond. */
struct cpu_stat_sums {
	uint64_t irq_ns, softirq_ns, steal_ns;
};

struct cpu_stat {
	struct proc_kept_stat {
		bool known;
		struct proc_machine_cpu times;
	} before[CPU_STAT_MAX]; /* by number */
	struct cpu_stat_sums sums_before[CPU_STAT_MAX];
	bool have_sums;
	struct proc_machine_cpu all;
	bool have_all;
	struct record_cpu_one rows[CPU_STAT_MAX];
	struct proc_machine_cpu now[CPU_STAT_MAX];
	char *text;
	size_t size;
	int fd; /* of /proc/stat; -1: not open */
};

/* NULL: no memory. */
struct cpu_stat *cpu_stat_new(void);
void cpu_stat_free(struct cpu_stat *stat);

/* Read the file, and fill in what passed since the call before. The rows are valid until the next
 * call. timed: the kernel times each interrupt. sums: of all possible CPUs, in the place of what
 * the file says rounded; NULL: not known. 0; a negative errno: nothing was filled in. */
int cpu_stat_take(struct cpu_stat *stat, bool timed, const struct cpu_stat_sums *sums,
		  size_t sum_count, struct record_cpu *cpu);
/* The same from the text of such a file. */
int cpu_stat_book(struct cpu_stat *stat, const char *text, size_t length, bool timed,
		  const struct cpu_stat_sums *sums, size_t sum_count, struct record_cpu *cpu);
