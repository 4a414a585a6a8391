/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/stat: what the kernel's own account says of each CPU (struct kernel_cpustat); and
 * /proc/loadavg. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In ns, cut to ticks of 10 ms. With CONFIG_IRQ_TIME_ACCOUNTING interrupts are timed each; without
 * it the timer's tick is charged to what it met (kernel/sched/cputime.c). */
struct proc_machine_cpu {
	unsigned cpu;
	uint64_t user_ns, nice_ns, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns;
};

/* The line of all CPUs, and one a CPU that is online, up to room. A line that is cut off at the end
 * of the text is no line. 0; -EBADMSG: it is no /proc/stat. */
int proc_parse_machine(const char *text, size_t length, struct proc_machine_cpu *all,
		       struct proc_machine_cpu *cpus, size_t room, size_t *count);

/* /proc/loadavg, of the pid namespace of the reader: how many tasks there are, and which number the
 * last new one took (fs/proc/loadavg.c). */
struct proc_load {
	uint32_t tasks;
	pid_t last_pid;
};

/* 0; -EBADMSG. */
int proc_parse_load(const char *text, struct proc_load *load);
/* The file of this machine. 0, or -errno. */
int proc_read_load(struct proc_load *load);
