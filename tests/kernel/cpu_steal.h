/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "util/clock.h"

/* What the hypervisor took is neither a task's nor idle: on a shared host, per cents. */
static inline uint64_t read_steal_ns(void)
{
	unsigned long long ticks[8] = {0};
	FILE *file = fopen("/proc/stat", "r");

	if (file) {
		if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0],
			   &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
			   &ticks[7]) != 8)
			ticks[7] = 0;
		fclose(file);
	}
	return ticks[7] * 10 * NSEC_PER_MSEC;
}

/* Whether what tasks and idle used fills the machine's time within 1 %: nothing twice, and nothing
 * missing but what was stolen or is known to be untold. Steal from a task is in neither; steal from
 * a CPU that was about to leave idle is in its idle time too, so that all may be more than the
 * whole. */
static inline bool closes(uint64_t used_ns, uint64_t missing_ns, uint64_t capacity_ns)
{
	return (double)used_ns < 1.01 * (double)capacity_ns &&
	       (double)(used_ns + missing_ns) > 0.99 * (double)capacity_ns;
}
