/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc tells of every task: the baseline for kernels without a task iterator, and the whole
 * source where BPF is refused. Blind to tasks that live and die between two walks. */
#pragma once
#include "source/cpu/ledger.h"

typedef int (*task_reading_fn)(void *ctx, const struct task_reading *reading);

/* Walk /proc/PID/task/TID/{stat,schedstat}; 6 to 9 us a task. start_boot_ns is coarse. *unreadable
 * counts tasks whose files were there and could not be read. 0, or the callback's error, -errno. */
int cpu_proc_walk(task_reading_fn callback, void *ctx, uint64_t *unreadable);

/* One task, into reading; comm goes to the caller's buffer of RECORD_COMM_LEN. 0, -ESRCH, -EBADMSG.
 */
int cpu_proc_read_task(pid_t pid, pid_t tid, struct task_reading *reading, char *comm);

/* Idle time of all CPUs since boot in ns, to 10 ms a CPU, from /proc/stat. 0, -errno. */
int cpu_proc_idle_ns(uint64_t *idle_ns);
