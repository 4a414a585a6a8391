/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/run_plan.h"

struct run_plan run_plan_make(uint64_t interval_ns, uint64_t duration_ns)
{
	uint64_t whole = duration_ns / interval_ns, rest_ns = duration_ns % interval_ns;

	if (whole && rest_ns && rest_ns < interval_ns - rest_ns)
		return (struct run_plan){whole - 1, interval_ns + rest_ns};
	return (struct run_plan){whole, rest_ns};
}
