/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of processes that called execve since the last interval: the new one, also where the
 * process is gone before anybody could read it from /proc. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct target_set;
struct renamed_process;

struct cpu_names {
	struct renamed_process *renamed; /* of this interval */
	struct renamed_process *shown;   /* of the last one; found as well */
	struct renamed_process *older;   /* the record of the last one may have its strings */
	uint64_t dropped;                /* for want of room, since the start */
};

/* comm is copied; beyond 4,096 names an interval it is counted as dropped. 0, -ENOMEM. */
int cpu_names_add(struct cpu_names *names, pid_t pid, uint64_t start_boot_ns, const char *comm);
/* Before an interval is closed: the set reads the names of these processes again. */
void cpu_names_apply(struct cpu_names *names, struct target_set *targets);
/* As the set knows it, else as the execve gave it; NULL: neither. Valid until the next but one call
 * of cpu_names_turn. */
const char *cpu_names_find(struct cpu_names *names, struct target_set *targets, pid_t pid,
			   uint64_t start_boot_ns);
/* The interval is closed. */
void cpu_names_turn(struct cpu_names *names);
void cpu_names_free(struct cpu_names *names);
