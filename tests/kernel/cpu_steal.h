/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
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
