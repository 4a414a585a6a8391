/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs with loops share: clocks, a sleep that goes on, a line for the test. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void sleep_ms(long ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static inline void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		exit(1);
}
