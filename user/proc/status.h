/* SPDX-License-Identifier: BSD-2-Clause */
/* The texts of /proc/PID/status and /proc/PID/schedstat, and of those of its threads. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/record.h"

/* What the file does not say is absent (numbers of processes: 0). */
struct proc_status {
	pid_t tgid, tracer;
	struct opt_u64 uid;          /* the real one */
	struct opt_u64 capabilities; /* effective */
	struct opt_u64 anon_bytes;   /* RssAnon */
	struct opt_u64 no_new_privs, seccomp;
	struct opt_u64 switches_voluntary, switches_involuntary;
};

/* text ends with a NUL. The kernel escapes newlines in Name, so no process can write a line of its
 * own. */
void proc_parse_status(const char *text, struct proc_status *status);
/* Of a process whose folder is open (proc_open). 0 or -errno; -EBADMSG: a file without a uid. */
int proc_status(int dirfd, struct proc_status *status);

struct proc_schedstat {
	uint64_t cpu_ns, runnable_ns, arrivals; /* arrivals: how often it came to a CPU */
};

/* 0 or -EBADMSG. */
int proc_parse_schedstat(const char *text, struct proc_schedstat *schedstat);
/* 0 or -errno; -ESRCH: the thread is gone. */
int proc_schedstat_of_thread(const char *root, pid_t pid, pid_t tid,
			     struct proc_schedstat *schedstat);
struct proc_kept;
/* Of the thread whose schedstat was kept open (proc/read.h). */
int proc_schedstat_kept(struct proc_kept *kept, struct proc_schedstat *schedstat);
