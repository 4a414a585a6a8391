/* SPDX-License-Identifier: BSD-2-Clause */
/* A machine that was suspended between a frame and its record. Times in seconds. */
#include <criterion/criterion.h>

#include "source/frames/suspends.h"

#define S 1000000000ull

/* What is to be taken off behind and before, and up to where and from where on that is sure. */
static void expect(const struct suspends *suspends, uint64_t from, uint64_t to, uint64_t after,
		   uint64_t before, uint64_t sure_to, uint64_t sure_from)
{
	struct suspends_span span = suspends_between(suspends, from * S, to * S);

	cr_expect_eq(span.after_ns, after * S, "[%lu, %lu): %lu", from, to, span.after_ns);
	cr_expect_eq(span.before_ns, before * S, "[%lu, %lu): %lu", from, to, span.before_ns);
	cr_expect_eq(span.from_boot_ns, sure_to * S, "[%lu, %lu): %lu", from, to,
		     span.from_boot_ns);
	cr_expect_eq(span.until_boot_ns, sure_from * S, "[%lu, %lu): %lu", from, to,
		     span.until_boot_ns);
	cr_expect_eq(span.error_ns, 0, "[%lu, %lu): error %lu", from, to, span.error_ns);
}

Test(suspends, a_frame_before_a_suspend_is_told_by_the_clock_of_then)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 5 * S, 100 * S);
	suspends_look(&suspends, 5 * S, 110 * S);
	/* between these two the machine slept for 60 s */
	suspends_look(&suspends, 65 * S, 180 * S);
	suspends_look(&suspends, 65 * S, 190 * S);
	expect(&suspends, 101, 102, 5, 5, 0, 0);
	expect(&suspends, 185, 186, 65, 65, 0, 0);
	/* it was before or after: nobody looked */
	expect(&suspends, 112, 113, 65, 5, 110, 180);
	expect(&suspends, 179, 181, 65, 5, 110, 180);
	expect(&suspends, 109, 111, 65, 5, 110, 180);
}

Test(suspends, two_of_them)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 0, 100 * S);
	suspends_look(&suspends, 10 * S, 120 * S);
	suspends_look(&suspends, 10 * S, 130 * S);
	suspends_look(&suspends, 17 * S, 140 * S);
	expect(&suspends, 90, 91, 0, 0, 0, 0);
	expect(&suspends, 121, 129, 10, 10, 0, 0);
	expect(&suspends, 110, 129, 10, 0, 100, 120);
	expect(&suspends, 121, 135, 17, 10, 130, 140);
	/* nothing is sure from before the first one to behind the last one */
	expect(&suspends, 99, 141, 17, 0, 100, 140);
}

Test(suspends, a_time_of_the_other_clock)
{
	struct suspends suspends = {0};

	cr_expect_eq(suspends_apart(&suspends, 95 * S), 0);
	suspends_look(&suspends, 5 * S, 100 * S);
	suspends_look(&suspends, 5 * S, 110 * S);
	suspends_look(&suspends, 65 * S, 180 * S);
	suspends_look(&suspends, 70 * S, 200 * S);
	cr_expect_eq(suspends_apart(&suspends, -S), 5 * S);
	cr_expect_eq(suspends_apart(&suspends, 105 * S), 5 * S);
	/* it was before or behind the first one: nobody looked */
	cr_expect_eq(suspends_apart(&suspends, 110 * S), 65 * S);
	cr_expect_eq(suspends_apart(&suspends, 115 * S), 65 * S);
	cr_expect_eq(suspends_apart(&suspends, 116 * S), 70 * S);
	cr_expect_eq(suspends_apart(&suspends, 300 * S), 70 * S);
}

Test(suspends, a_look_that_was_held_up_is_no_suspend)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 5 * S - 400000, 100 * S);
	suspends_look(&suspends, 5 * S, 101 * S);
	suspends_look(&suspends, 5 * S - 900000, 102 * S);
	expect(&suspends, 50, 200, 5, 5, 0, 0);
	/* Many small steps are none. */
	for (unsigned i = 0; i < 100; i++)
		suspends_look(&suspends, 5 * S - i * 9000, (103 + i) * S);
	expect(&suspends, 150, 151, 5, 5, 0, 0);
}

Test(suspends, more_than_are_kept)
{
	struct suspends suspends = {0};

	suspends_look(&suspends, 0, 100 * S);
	for (uint64_t i = 1; i <= 20; i++)
		suspends_look(&suspends, i * S, (100 + 10 * i) * S);
	expect(&suspends, 301, 302, 20, 20, 0, 0);
	expect(&suspends, 295, 296, 20, 19, 290, 300);
	/* those that were forgotten may have been after it */
	cr_expect_eq(suspends_between(&suspends, 50 * S, 51 * S).error_ns, 12 * S);
}
