/* SPDX-License-Identifier: BSD-2-Clause */
/* What the CPU source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

static const struct field cpu_time_rows[] = {
	FIELD(struct record_cpu_time, cpu, REQUIRED, ID, "number of the CPU", MERGED(KEY)),
	FIELD(struct record_cpu_time, cpu_ns, REQUIRED, NS, "time on it", MERGED(SUM)),
};
static const struct field_type cpu_time_type =
	FIELD_TYPE("cpu_time", struct record_cpu_time, cpu_time_rows);

static const struct field frequency_time_rows[] = {
	FIELD(struct record_frequency_time, cluster, REQUIRED, ID,
	      "number of the cluster (cpufreq policy)", MERGED(KEY)),
	FIELD(struct record_frequency_time, khz, OPTIONAL, NONE,
	      "frequency; absent: not known, as before its first change", MERGED(KEY)),
	FIELD(struct record_frequency_time, cpu_ns, REQUIRED, NS,
	      "time on a CPU of the cluster while that was its frequency", MERGED(SUM)),
};
static const struct field_type frequency_time_type =
	FIELD_TYPE("frequency_time", struct record_frequency_time, frequency_time_rows);

static const struct field cluster_rows[] = {
	FIELD(struct record_cluster, cluster, REQUIRED, ID, "number of the cpufreq policy",
	      MERGED(KEY)),
	FIELD(struct record_cluster, cpus, REQUIRED, NONE, "its CPUs", TEXT_IS(WORD)),
	FIELD(struct record_cluster, capacity, OPTIONAL, NONE,
	      "of each of its CPUs at max_khz, where 1024 is the strongest (cpu_capacity)",
	      MERGED(LAST)),
	FIELD(struct record_cluster, max_khz, OPTIONAL, NONE, "its highest frequency",
	      MERGED(LAST)),
	FIELD(struct record_cluster, targets_ns, REQUIRED, NS,
	      "time of the targets' tasks on its CPUs", MERGED(SUM)),
	FIELD_ROWS("frequencies", struct record_cluster, frequencies, frequency_count, NONZERO,
		   &frequency_time_type, "the same by frequency"),
};
static const struct field_type cluster_type =
	FIELD_TYPE("cluster", struct record_cluster, cluster_rows);

static const struct field task_rows[] = {
	FIELD(struct record_task, tid, REQUIRED, ID, "thread id", MERGED(KEY)),
	FIELD(struct record_task, pid, REQUIRED, ID, "its process"),
	FIELD(struct record_task, uid, REQUIRED, ID, "its uid at the end of the interval",
	      MERGED(KEY)),
	FIELD(struct record_task, start_boot_ns, REQUIRED, NS,
	      "when the thread began; tid and start_boot_ns are its identity", MERGED(KEY)),
	FIELD(struct record_task, thread, REQUIRED, NAME, "name of the thread"),
	FIELD(struct record_task, process, OPTIONAL, NAME, "name of the process", MERGED(KEY)),
	FIELD(struct record_task, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD(struct record_task, cpu_ns, REQUIRED, NS, "time on a CPU", MERGED(SUM)),
	FIELD(struct record_task, runnable_ns, OPTIONAL, NS, "ready to run, without a CPU",
	      MERGED(SUM)),
	FIELD(struct record_task, sleeping_ns, OPTIONAL, NS,
	      "asleep (state S): locks, binder, timers", MERGED(SUM)),
	FIELD(struct record_task, uninterruptible_ns, OPTIONAL, NS,
	      "asleep in the kernel (state D): disk, page faults", MERGED(SUM)),
	FIELD(struct record_task, stopped_ns, OPTIONAL, NS, "stopped, traced or frozen",
	      MERGED(SUM)),
	FIELD(struct record_task, switches_voluntary, OPTIONAL, COUNT,
	      "how often it left a CPU to wait", MERGED(SUM)),
	FIELD(struct record_task, switches_involuntary, OPTIONAL, COUNT,
	      "how often it left a CPU to another task", MERGED(SUM)),
	FIELD(struct record_task, exited, NONZERO, NONE, "it died in this interval"),
	FIELD_ROWS("cpus", struct record_task, cpus, cpu_count, NONZERO, &cpu_time_type,
		   "where it ran, of tasks of a target: with unplaced_ns that is cpu_ns"),
	FIELD_ROWS("frequencies", struct record_task, frequencies, frequency_count, NONZERO,
		   &frequency_time_type,
		   "how fast it ran, of tasks of a target: with unplaced_ns that is cpu_ns"),
	FIELD(struct record_task, unplaced_ns, OPTIONAL, NS,
	      "time of a target's task on a CPU that is not known: before it was watched, or a "
	      "switch was not shown",
	      MERGED(SUM)),
	FIELD(struct record_task, fnorm_ns, OPTIONAL, NS,
	      "cpu_ns weighted by frequency / max_khz and capacity / 1024 of where it ran; absent "
	      "where that is not known of more than 1 % of cpu_ns",
	      MERGED(SUM)),
};
static const struct field_type task_type = FIELD_TYPE("task", struct record_task, task_rows);

static const struct field process_rows[] = {
	FIELD(struct record_process_cpu, pid, REQUIRED, ID, "process id", MERGED(KEY)),
	FIELD(struct record_process_cpu, uid, REQUIRED, ID, "its uid", MERGED(KEY)),
	FIELD(struct record_process_cpu, start_boot_ns, NONZERO, NS,
	      "when it began: two owners of one pid are two rows", MERGED(KEY)),
	FIELD(struct record_process_cpu, process, OPTIONAL, NAME, "its name", MERGED(KEY)),
	FIELD(struct record_process_cpu, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD(struct record_process_cpu, cpu_ns, REQUIRED, NS, "time on CPUs of all its threads",
	      MERGED(SUM)),
	FIELD(struct record_process_cpu, runnable_ns, OPTIONAL, NS,
	      "ready to run, without a CPU, of all its threads", MERGED(SUM)),
	FIELD(struct record_process_cpu, threads, REQUIRED, COUNT, "its threads that ran",
	      MERGED(MAX)),
	FIELD(struct record_process_cpu, exited, NONZERO, NONE,
	      "its first thread died in this interval"),
};
static const struct field_type process_type =
	FIELD_TYPE("process", struct record_process_cpu, process_rows);

static const struct field uid_rows[] = {
	FIELD(struct record_uid_cpu, uid, REQUIRED, ID, "uid", MERGED(KEY)),
	FIELD(struct record_uid_cpu, cpu_ns, REQUIRED, NS,
	      "time on CPUs of its tasks, while the uid was theirs", MERGED(SUM)),
};
static const struct field_type uid_type = FIELD_TYPE("uid_cpu", struct record_uid_cpu, uid_rows);

#define STAT_ROWS(struct_)                                                                   \
	FIELD_AS("irq_ns", struct_, stat.irq_ns, OPTIONAL, NS, "in interrupt handlers",      \
		 MERGED(SUM)),                                                               \
		FIELD_AS("softirq_ns", struct_, stat.softirq_ns, OPTIONAL, NS,               \
			 "in soft interrupts: network, timers, block devices", MERGED(SUM)), \
		FIELD_AS("steal_ns", struct_, stat.steal_ns, OPTIONAL, NS,                   \
			 "a hypervisor ran others instead", MERGED(SUM)),                    \
		FIELD_AS("iowait_ns", struct_, stat.iowait_ns, OPTIONAL, NS,                 \
			 "part of idle_ns: idle while a task waited for a disk; never busy", \
			 MERGED(SUM))

static const struct field stat_one_rows[] = {
	FIELD(struct record_cpu_one, cpu, REQUIRED, ID, "number of the CPU", MERGED(KEY)),
	STAT_ROWS(struct record_cpu_one),
};
static const struct field_type stat_one_type =
	FIELD_TYPE("cpu_stat_one", struct record_cpu_one, stat_one_rows);

static const char *const stat_by_words[] = {"exact", "rounded", "sampled", NULL};

static const struct field stat_rows[] = {
	{.key = "by",
	 .kind = FIELD_CHOICE,
	 FIELD_PLACE(struct record_cpu, stat_by),
	 .need = FIELD_REQUIRED,
	 .unit = UNIT_NAME,
	 .words = stat_by_words,
	 .meaning =
		 "exact: the kernel times each interrupt, and its sums are read in nanoseconds "
		 "(iowait_ns in ticks); rounded: the same, told in ticks; "
		 "sampled: the timer's tick is charged to what it met, and interrupts are part of "
		 "the busy time of the task that they came in"},
	FIELD_AS("resolution_ns", struct record_cpu, stat_resolution_ns, REQUIRED, NS,
		 "how coarse each sum is; the error of one interval is made good in the next",
		 MERGED(MAX)),
	STAT_ROWS(struct record_cpu),
	FIELD_AS("rest_ns", struct record_cpu, stat_rest_ns, OPTIONAL, NS,
		 "online_ns less busy_ns, irq_ns, softirq_ns, steal_ns and idle time without "
		 "interrupts: read-out skew, the way into and out of idle, the scheduler's own "
		 "search for work",
		 MERGED(SUM)),
	FIELD_ROWS("cpus", struct record_cpu, stat_cpus, stat_cpu_count, REQUIRED, &stat_one_type,
		   "the CPUs that have any of it"),
};
static const struct field_type stat_type = FIELD_TYPE("cpu_stat", struct record_cpu, stat_rows);

static const struct field cpu_rows[] = {
	FIELD(struct record_cpu, online_cpus, REQUIRED, COUNT, "CPUs that are there", MERGED(LAST)),
	FIELD(struct record_cpu, online_ns, NONZERO, NS,
	      "time of all CPUs: online_cpus x dur_ns, unless a CPU came or went", MERGED(SUM)),
	FIELD(struct record_cpu, busy_ns, REQUIRED, NS,
	      "time in which CPUs ran tasks: tasks + other_ns + overflow_ns", MERGED(SUM)),
	FIELD(struct record_cpu, idle_ns, OPTIONAL, NS,
	      "time in which CPUs idled, measured on its own", MERGED(SUM)),
	FIELD(struct record_cpu, unaccounted_ns, OPTIONAL, NS,
	      "online_ns - busy_ns - idle_ns: interrupts, steal, read-out skew", MERGED(SUM)),
	FIELD(struct record_cpu, other_ns, REQUIRED, NS, "tasks that the record does not list",
	      MERGED(SUM)),
	FIELD(struct record_cpu, overflow_ns, REQUIRED, NS,
	      "tasks that found no room in a map; their uids are right", MERGED(SUM)),
	FIELD_ROWS("tasks", struct record_cpu, tasks, task_count, REQUIRED, &task_type,
		   "threads that ran or died, by CPU time"),
	{.key = "processes",
	 .kind = FIELD_LIST,
	 FIELD_PLACE(struct record_cpu, processes),
	 .more_offset = offsetof(struct record_cpu, process_count),
	 .need = FIELD_ALWAYS,
	 .of = &process_type,
	 .meaning = "processes that ran, by CPU time"},
	FIELD_ROWS("uids", struct record_cpu, uids, uid_count, REQUIRED, &uid_type,
		   "uids that ran; they are of all tasks, listed or not"),
	FIELD_ROWS("clusters", struct record_cpu, clusters, cluster_count, NONZERO, &cluster_type,
		   "CPUs that change their frequency together, where a target is watched"),
	FIELD(struct record_cpu, targets_fnorm_ns, OPTIONAL, NS,
	      "fnorm_ns of all tasks of the targets", MERGED(SUM)),
	FIELD(struct record_cpu, capacity_ns, OPTIONAL, NS,
	      "online_ns weighted by capacity / 1024: targets_fnorm_ns is device_fnorm_pct of it",
	      MERGED(SUM)),
	{.key = "stat",
	 .kind = FIELD_OBJECT,
	 .more_offset = offsetof(struct record_cpu, stat_present),
	 .more_size = sizeof(bool),
	 .need = FIELD_OPTIONAL,
	 .of = &stat_type,
	 .meaning = "the kernel's own account of what is neither a task's nor idle, of all CPUs"},
};
static const struct field_type cpu_type = FIELD_TYPE("cpu", struct record_cpu, cpu_rows);

const struct field cpu_part = FIELD_STRUCT_IF("cpu", struct record_interval, cpu, cpu.present,
					      &cpu_type, "CPU time, by the kernel's own sums");
