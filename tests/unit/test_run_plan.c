/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "core/run_plan.h"

static void expect(uint64_t interval, uint64_t duration, uint64_t periods, uint64_t last)
{
	struct run_plan plan = run_plan_make(interval, duration);

	cr_expect_eq(plan.periods, periods, "%lu / %lu: %lu periods", (unsigned long)duration,
		     (unsigned long)interval, (unsigned long)plan.periods);
	cr_expect_eq(plan.last_dur_ns, last, "%lu / %lu: then %lu", (unsigned long)duration,
		     (unsigned long)interval, (unsigned long)plan.last_dur_ns);
}

Test(run_plan, multiples_make_exactly_as_many)
{
	expect(1000, 3000, 3, 0);
	expect(1000, 1000, 1, 0);
	expect(50, 86400000, 1728000, 0);
}

Test(run_plan, a_short_rest_is_merged_a_long_one_is_not)
{
	expect(1000, 3001, 2, 1001);
	expect(1000, 3499, 2, 1499);
	expect(1000, 3500, 3, 500);
	expect(1000, 3999, 3, 999);
	expect(1000, 1001, 0, 1001);
}

Test(run_plan, shorter_than_one_interval)
{
	expect(1000, 1, 0, 1);
	expect(1000, 999, 0, 999);
	expect(3600, 200, 0, 200);
	expect(1000, 0, 0, 0);
}

/* Whatever the lengths: all of the run, and no interval below half of one. */
Test(run_plan, covers_the_run)
{
	for (uint64_t interval = 1; interval < 60; interval++) {
		for (uint64_t duration = 1; duration < 400; duration++) {
			struct run_plan plan = run_plan_make(interval, duration);

			cr_expect_eq(plan.periods * interval + plan.last_dur_ns, duration);
			cr_expect(!plan.last_dur_ns || 2 * plan.last_dur_ns >= interval ||
				  duration < interval);
			cr_expect_lt(2 * plan.last_dur_ns, 3 * interval);
		}
	}
}
