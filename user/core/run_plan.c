/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/run_plan.h"

#include <time.h>

#include "util/clock.h"

#define LEAST_NS (50 * NSEC_PER_MSEC)

struct run_plan run_plan_make(uint64_t interval_ns, uint64_t duration_ns)
{
	uint64_t whole = duration_ns / interval_ns, rest_ns = duration_ns % interval_ns;

	if (whole && rest_ns && rest_ns < interval_ns - rest_ns)
		return (struct run_plan){whole - 1, interval_ns + rest_ns};
	return (struct run_plan){whole, rest_ns};
}

uint64_t run_plan_wait(uint64_t interval_ns, uint64_t since_mono_ns)
{
	uint64_t least_ns = interval_ns < LEAST_NS ? interval_ns : LEAST_NS;
	uint64_t so_far_ns = clock_now_ns(CLOCK_MONOTONIC) - since_mono_ns;
	struct timespec wait = {0};

	if (so_far_ns >= least_ns)
		return so_far_ns;
	wait.tv_nsec = (long)(least_ns - so_far_ns);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
	return least_ns;
}
