/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/stat.h"

#define LINE_BYTES 192 /* of a CPU: ten numbers of up to 17 digits */

struct cpu_stat *cpu_stat_new(void)
{
	struct cpu_stat *stat = calloc(1, sizeof(*stat));
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	if (!stat)
		return NULL;
	if (cpus < 1 || cpus > CPU_STAT_MAX)
		cpus = CPU_STAT_MAX;
	stat->size = (size_t)(cpus + 1) * LINE_BYTES;
	stat->text = malloc(stat->size);
	stat->fd = -1;
	if (!stat->text) {
		free(stat);
		return NULL;
	}
	return stat;
}

void cpu_stat_free(struct cpu_stat *stat)
{
	if (!stat)
		return;
	if (stat->fd >= 0)
		close(stat->fd);
	free(stat->text);
	free(stat);
}

/* The kernel's sums of iowait may go back (get_cpu_iowait_time_us), and on some kernels all of a
 * CPU that was offline. */
static struct opt_u64 passed(uint64_t now, uint64_t before)
{
	return (struct opt_u64){now >= before, now >= before ? now - before : 0};
}

static struct record_cpu_stat difference(const struct proc_machine_cpu *now,
					 const struct proc_machine_cpu *before)
{
	return (struct record_cpu_stat){
		.irq_ns = passed(now->irq_ns, before->irq_ns),
		.softirq_ns = passed(now->softirq_ns, before->softirq_ns),
		.steal_ns = passed(now->steal_ns, before->steal_ns),
		.iowait_ns = passed(now->iowait_ns, before->iowait_ns),
	};
}

static bool is_any(const struct record_cpu_stat *stat)
{
	return stat->irq_ns.value || stat->softirq_ns.value || stat->steal_ns.value ||
	       stat->iowait_ns.value;
}

static void add_to(struct opt_u64 *sum, struct opt_u64 part)
{
	sum->present &= part.present;
	sum->value += part.value;
}

/* Put what the exact sums say in the place of the rounded ones, and make the sum of all CPUs. */
static void make_exact(struct cpu_stat *stat, const struct cpu_stat_sums *sums, size_t count,
		       size_t *rows, struct record_cpu *cpu)
{
	const struct opt_u64 none = SOME_U64(0);
	struct record_cpu_stat all = {none, none, none, cpu->stat.iowait_ns};
	size_t rounded = *rows, from = CPU_STAT_MAX;

	/* To the end of the array, so that the new rows are written behind those that are read. */
	for (size_t i = rounded; i-- > 0;)
		stat->rows[--from] = stat->rows[i];
	*rows = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct cpu_stat_sums *before = &stat->sums_before[i];
		struct record_cpu_one one = {.cpu = i, .stat.iowait_ns = SOME_U64(0)};

		while (from < CPU_STAT_MAX && stat->rows[from].cpu < i)
			from++;
		if (from < CPU_STAT_MAX && stat->rows[from].cpu == i)
			one.stat.iowait_ns = stat->rows[from++].stat.iowait_ns;
		one.stat.irq_ns = passed(sums[i].irq_ns, before->irq_ns);
		one.stat.softirq_ns = passed(sums[i].softirq_ns, before->softirq_ns);
		one.stat.steal_ns = passed(sums[i].steal_ns, before->steal_ns);
		add_to(&all.irq_ns, one.stat.irq_ns);
		add_to(&all.softirq_ns, one.stat.softirq_ns);
		add_to(&all.steal_ns, one.stat.steal_ns);
		if (is_any(&one.stat))
			stat->rows[(*rows)++] = one;
	}
	cpu->stat = all;
	cpu->stat_by = CPU_STAT_EXACT;
	cpu->stat_resolution_ns = 1;
}

int cpu_stat_book(struct cpu_stat *stat, const char *text, size_t length, bool timed,
		  const struct cpu_stat_sums *sums, size_t sum_count, struct record_cpu *cpu)
{
	struct proc_machine_cpu all = {0};
	size_t count, rows = 0;
	int err = proc_parse_machine(text, length, &all, stat->now, CPU_STAT_MAX, &count);

	if (err)
		return err;
	if (sum_count > CPU_STAT_MAX)
		sum_count = CPU_STAT_MAX;
	for (size_t i = 0; i < count; i++) {
		const struct proc_machine_cpu *now = &stat->now[i];
		struct proc_kept_stat *before;

		if (now->cpu >= CPU_STAT_MAX)
			continue;
		before = &stat->before[now->cpu];
		if (before->known) {
			stat->rows[rows] =
				(struct record_cpu_one){now->cpu, difference(now, &before->times)};
			rows += is_any(&stat->rows[rows].stat);
		}
		before->known = true;
		before->times = *now;
	}
	if (stat->have_all) {
		cpu->stat_present = true;
		cpu->stat_by = timed ? CPU_STAT_ROUNDED : CPU_STAT_SAMPLED;
		cpu->stat_resolution_ns = PROC_TICK_NS;
		cpu->stat = difference(&all, &stat->all);
		if (timed && sums && stat->have_sums)
			make_exact(stat, sums, sum_count, &rows, cpu);
		cpu->stat_cpus = stat->rows;
		cpu->stat_cpu_count = rows;
	}
	stat->have_all = true;
	stat->all = all;
	stat->have_sums = sums;
	if (sums)
		memcpy(stat->sums_before, sums, sum_count * sizeof(*sums));
	return 0;
}

int cpu_stat_take(struct cpu_stat *stat, bool timed, const struct cpu_stat_sums *sums,
		  size_t sum_count, struct record_cpu *cpu)
{
	ssize_t n;

	if (stat->fd < 0)
		stat->fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	n = stat->fd < 0 ? -1 : pread(stat->fd, stat->text, stat->size, 0);
	if (n < 0)
		return -errno;
	return cpu_stat_book(stat, stat->text, (size_t)n, timed, sums, sum_count, cpu);
}
