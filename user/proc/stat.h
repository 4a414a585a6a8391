/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of /proc/PID/stat and /proc/PID/task/TID/stat. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_TICK_NS  10000000ull /* USER_HZ is 100 on every Linux that we run on */
#define PROC_COMM_LEN 16          /* TASK_COMM_LEN of include/linux/sched.h */

struct proc_stat {
	char comm[PROC_COMM_LEN]; /* as the task has it: the kernel's escapes are undone */
	char state;
	pid_t ppid;
	uint64_t flags; /* PF_* of include/linux/sched.h */
	uint64_t faults_minor, faults_major;
	long threads;         /* a leader may be a zombie while other threads live */
	uint64_t start_ticks; /* field 22, since boot, suspend included */
	uint32_t cpu;         /* field 39; 0 where the text ends before it */
};

/* Comm may hold any byte, also ") R 1 2", so the fields are counted from the last ')'. A text that
 * ends within a number, as one that was cut does, is refused. 0 or -EBADMSG. */
int proc_parse_stat(const char *text, size_t length, struct proc_stat *stat);
/* Of a process whose folder is open (proc_open). 0 or -errno. */
int proc_stat(int dirfd, struct proc_stat *stat);
/* Whether the task has ended, or is about to: it does not run any program any more. */
bool proc_stat_is_over(const struct proc_stat *stat);
bool proc_stat_is_kernel_thread(const struct proc_stat *stat);
/* Of a process whose leader has ended while other threads live, and which the kernel therefore
 * shows without memory and descriptors: the folder of a thread that lives, for the caller to close.
 * process is as of proc_open. -ENOENT: the leader lives, or nobody does; or another -errno. */
int proc_open_survivor(int process);
