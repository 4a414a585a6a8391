/* SPDX-License-Identifier: BSD-2-Clause */
/* A machine that was suspended between a frame and its record. Times in seconds. */
#include <criterion/criterion.h>

#include "source/frames/suspends.h"

#define S 1000000000ull

static void expect(const struct suspends *suspends, uint64_t from, uint64_t to, uint64_t apart,
		   uint64_t error)
{
	uint64_t error_ns, apart_ns = suspends_between(suspends, from * S, to * S, &error_ns);

	cr_expect_eq(apart_ns, apart * S, "[%lu, %lu): %lu", from, to, apart_ns);
	cr_expect_eq(error_ns, error * S, "[%lu, %lu): error %lu", from, to, error_ns);
}

Test(suspends, a_frame_before_a_suspend_is_told_by_the_clock_of_then)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 5 * S, 100 * S);
	suspends_look(&suspends, 5 * S, 110 * S);
	/* between these two the machine slept for 60 s */
	suspends_look(&suspends, 65 * S, 180 * S);
	suspends_look(&suspends, 65 * S, 190 * S);
	expect(&suspends, 101, 102, 5, 0);
	expect(&suspends, 185, 186, 65, 0);
	/* it was before or after: nobody looked */
	expect(&suspends, 112, 113, 65, 60);
	expect(&suspends, 179, 181, 65, 60);
	expect(&suspends, 109, 111, 65, 60);
}

Test(suspends, two_of_them)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 0, 100 * S);
	suspends_look(&suspends, 10 * S, 120 * S);
	suspends_look(&suspends, 10 * S, 130 * S);
	suspends_look(&suspends, 17 * S, 140 * S);
	expect(&suspends, 90, 91, 0, 0);
	expect(&suspends, 121, 129, 10, 0);
	expect(&suspends, 110, 129, 10, 10);
	expect(&suspends, 121, 135, 17, 7);
	/* the error holds for all that may have been between */
	expect(&suspends, 99, 141, 17, 17);
}

Test(suspends, a_look_that_was_held_up_is_no_suspend)
{
	struct suspends suspends = {0};
	uint64_t error_ns;

	suspends_look(&suspends, 5 * S - 400000, 100 * S);
	suspends_look(&suspends, 5 * S, 101 * S);
	suspends_look(&suspends, 5 * S - 900000, 102 * S);
	expect(&suspends, 50, 200, 5, 0);
	/* Many small steps are none. */
	for (unsigned i = 0; i < 100; i++)
		suspends_look(&suspends, 5 * S - i * 9000, (103 + i) * S);
	cr_expect_eq(suspends_between(&suspends, 150 * S, 151 * S, &error_ns), 5 * S);
	cr_expect_eq(error_ns, 0);
}

Test(suspends, more_than_are_kept)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 0, 100 * S);
	for (uint64_t i = 1; i <= 20; i++)
		suspends_look(&suspends, i * S, (100 + 10 * i) * S);
	expect(&suspends, 301, 302, 20, 0);
	expect(&suspends, 295, 296, 20, 1);
	/* those that were forgotten may have been after it */
	expect(&suspends, 50, 51, 12, 12);
}
