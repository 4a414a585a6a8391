/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "stack/unwinder_debts.h"

#define MS NSEC_PER_MSEC

Test(unwinder_debts, grow_and_shrink)
{
	const struct stack_process one = {10, 1}, reused = {10, 2};
	struct unwinder_debts debts = {0};

	unwinder_debts_add(&debts, &one, DEBT_LEAST_NS - 1, 1000 * MS);
	cr_expect_eq(unwinder_debts_of(&debts, &one, 1000 * MS), 0, "too little to be remembered");
	unwinder_debts_add(&debts, &one, 900 * MS, 1000 * MS);
	unwinder_debts_add(&debts, &one, 900 * MS, 2000 * MS);
	cr_expect_eq(unwinder_debts_of(&debts, &one, 2000 * MS), 1700 * MS);
	cr_expect_eq(unwinder_debts_of(&debts, &reused, 2000 * MS), 0, "another one of the pid");
	cr_expect_eq(unwinder_debts_of(&debts, &one, 12000 * MS), 700 * MS);
	cr_expect_eq(unwinder_debts_of(&debts, &one, 100000 * MS), 0);
}

Test(unwinder_debts, the_smallest_is_forgotten)
{
	struct unwinder_debts debts = {0};

	for (int i = 1; i <= UNWINDER_DEBTORS; i++)
		unwinder_debts_add(&debts, &(struct stack_process){i, 1}, (100 + (uint64_t)i) * MS,
				   MS);
	unwinder_debts_add(&debts, &(struct stack_process){99, 1}, 60 * MS, MS);
	cr_expect_eq(unwinder_debts_of(&debts, &(struct stack_process){99, 1}, MS), 60 * MS);
	cr_expect_eq(unwinder_debts_of(&debts, &(struct stack_process){1, 1}, MS), 0);
	cr_expect_eq(unwinder_debts_of(&debts, &(struct stack_process){2, 1}, MS), 102 * MS);
}
