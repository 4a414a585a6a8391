/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stdint.h>
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
