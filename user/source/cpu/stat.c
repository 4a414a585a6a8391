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
	return now < before ? (struct opt_u64){0} : SOME_U64(now - before);
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

int cpu_stat_book(struct cpu_stat *stat, const char *text, size_t length, bool timed,
		  struct record_cpu *cpu)
{
	struct proc_machine_cpu all = {0};
	size_t count, rows = 0;
	int err = proc_parse_machine(text, length, &all, stat->now, CPU_STAT_MAX, &count);

	if (err)
		return err;
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
		cpu->stat_cpus = stat->rows;
		cpu->stat_cpu_count = rows;
	}
	stat->have_all = true;
	stat->all = all;
	return 0;
}

int cpu_stat_take(struct cpu_stat *stat, bool timed, struct record_cpu *cpu)
{
	ssize_t n;

	if (stat->fd < 0)
		stat->fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	n = stat->fd < 0 ? -1 : pread(stat->fd, stat->text, stat->size, 0);
	if (n < 0)
		return -errno;
	return cpu_stat_book(stat, stat->text, (size_t)n, timed, cpu);
}
