/* SPDX-License-Identifier: BSD-2-Clause */
/* What an interval says of CPU time; a part of record.h, whose types it uses. */
#pragma once

/* Time of a task on a CPU, and at a frequency of a cluster. */
struct record_cpu_time {
	uint32_t cpu;
	uint64_t cpu_ns;
};

struct record_frequency_time {
	uint32_t cluster;
	struct opt_u64 khz; /* absent: the frequency is not known */
	uint64_t cpu_ns;
};

/* CPUs that change their frequency together (a cpufreq policy). */
struct record_cluster {
	uint32_t cluster; /* the policy's number */
	const char *cpus; /* "0-3" */
	struct opt_u64 capacity, max_khz;
	uint64_t targets_ns; /* time of the targets' tasks on its CPUs */
	struct record_frequency_time *frequencies;
	size_t frequency_count;
};

/* The strings of a row belong to the source and live until its next sample. */
struct record_task {
	pid_t tid, pid;
	uid_t uid;
	uint64_t start_boot_ns;
	char thread[RECORD_COMM_LEN];
	const char *process, *package; /* NULL: unknown */
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;                                 /* waited on a run queue */
	struct opt_u64 sleeping_ns, uninterruptible_ns, stopped_ns; /* off CPU, by its state */
	struct opt_u64 switches_voluntary, switches_involuntary;
	bool exited;                    /* died in this interval */
	uint64_t process_start_boot_ns; /* 0: not known */
	/* Where it ran, if it is a target's: both lists and unplaced_ns add up to cpu_ns. */
	struct record_cpu_time *cpus;
	size_t cpu_count;
	struct record_frequency_time *frequencies;
	size_t frequency_count;
	struct opt_u64 unplaced_ns; /* on which CPU is not known */
	struct opt_u64 fnorm_ns;    /* cpu_ns x frequency x capacity of where it ran */
};

struct record_uid_cpu {
	uid_t uid;
	uint64_t cpu_ns;
};

struct record_process_cpu {
	pid_t pid;
	uid_t uid;
	const char *process, *package;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	unsigned threads;       /* that ran in the interval */
	uint64_t start_boot_ns; /* two owners of one pid are two rows; 0: not known */
	bool exited;            /* its first thread died in this interval */
};

/* How the kernel came to know of interrupts, steal and waits for disks. */
enum cpu_stat_by {
	CPU_STAT_EXACT = 0,   /* each interrupt is timed, and read in ns */
	CPU_STAT_ROUNDED = 1, /* each interrupt is timed, and told in ticks by /proc/stat */
	CPU_STAT_SAMPLED = 2, /* the timer's tick is charged to what it met */
};

struct record_cpu_stat {
	struct opt_u64 irq_ns, softirq_ns, steal_ns, iowait_ns; /* absent: the kernel's sum went
								   back */
};

struct record_cpu {
	bool present;
	unsigned online_cpus;
	uint64_t busy_ns;       /* tasks + other + overflow */
	struct opt_u64 idle_ns; /* measured on its own, not derived */
	uint64_t online_ns;     /* of all CPUs: online_cpus x dur, unless a CPU came or went */
	/* online_ns - busy - idle: interrupts, steal, read-out skew. The check of the sums. */
	struct opt_i64 unaccounted_ns;
	uint64_t other_ns;    /* tasks that the record does not list */
	uint64_t overflow_ns; /* tasks that found no room in a map; their uids are right */
	struct record_task *tasks;
	size_t task_count;
	/* Rows behind those of task_count that --top cut off: their time is in other_ns. The
	 * summary counts them and the table takes names and switches from them; they are in no
	 * recording. */
	size_t cut_count;
	struct record_uid_cpu *uids;
	size_t uid_count;
	struct record_process_cpu *processes;
	size_t process_count;
	bool stat_present;
	enum cpu_stat_by stat_by;
	uint64_t stat_resolution_ns; /* of each sum, at each read-out; it does not add up */
	struct record_cpu_stat stat; /* of all CPUs */
	struct opt_i64 stat_rest_ns; /* unaccounted_ns without irq, softirq and steal */
	struct record_cpu_one {
		unsigned cpu;
		struct record_cpu_stat stat;
	} * stat_cpus; /* those with any such time */
	size_t stat_cpu_count;
	struct record_cluster *clusters;
	size_t cluster_count;
	/* fnorm_ns of all targets' tasks, and the same of CPUs that run all the time at their
	 * highest frequency: the quotient is device_fnorm_pct. */
	struct opt_u64 targets_fnorm_ns, capacity_ns;
};
