/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define NSEC_PER_SEC  1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* Nanoseconds of a POSIX clock; 0 only if the kernel does not know the clock. */
static inline uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec ts = {0};

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* CPU time of all threads of a process, by the kernel's own clock for it. False, and *cpu_ns as it
 * was, where the process is gone. */
static inline bool clock_process_cpu_ns(pid_t pid, uint64_t *cpu_ns)
{
	struct timespec ts;
	/* As clock_getcpuclockid makes it, which asks the kernel first whether there is one. */
	clockid_t clock = (clockid_t)((~(unsigned)pid << 3) | 2);

	if (pid <= 0 || clock_gettime(clock, &ts))
		return false;
	*cpu_ns = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
	return true;
}

/* How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time that was spent in suspend. A task
 * that ran between the two looks must not pass for a suspend: then they are taken again. */
static inline uint64_t clock_suspended_ns(void)
{
	uint64_t boot_ns = 0, mono_ns = 0, width_ns = UINT64_MAX;

	/* The tightest of the tries: one that the process was switched out in is no measure. */
	for (int tries = 0; tries < 8 && width_ns >= 100 * NSEC_PER_USEC; tries++) {
		uint64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);
		uint64_t between_ns = clock_now_ns(CLOCK_BOOTTIME);
		uint64_t after_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (after_ns - before_ns >= width_ns)
			continue;
		width_ns = after_ns - before_ns;
		boot_ns = between_ns;
		mono_ns = after_ns;
	}
	return boot_ns > mono_ns ? boot_ns - mono_ns : 0;
}
