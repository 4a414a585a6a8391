/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose switches the kernel side splits by CPU and frequency: the processes of the targets, and no
 * others. What changed since the last look is told to it, and nothing else. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "jankscope/target.h"
#include "kernel/sched_time.h"

/* Zeroed: nobody is watched. */
struct cpu_watched {
	pid_t *pids; /* ascending */
	size_t count, room;
	pid_t *next; /* the list that is made at the next look */
	size_t next_room;
};

/* Watch the processes of the set, and unwatch those that are in it no more. Where there is no
 * memory for a longer list, the processes behind its end are not watched yet. */
void cpu_watched_follow(struct cpu_watched *watched, struct sched_kernel *kernel,
			const struct target_set *targets);
void cpu_watched_free(struct cpu_watched *watched);
