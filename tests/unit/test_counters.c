/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "jankscope/record.h"

Test(counters, add_get_merge)
{
	struct counter_list a = {0}, b = {0};
	char name[] = "ring_full";

	cr_assert_eq(counter_list_add(&a, "never", 0), 0);
	cr_expect_eq(a.count, 0, "nothing lost makes no key");
	cr_assert_eq(counter_list_add(&a, name, 3), 0);
	name[0] = 'X'; /* the list has its own copy */
	cr_assert_eq(counter_list_add(&a, "map_full", 5), 0);
	cr_assert_eq(counter_list_add(&a, "ring_full", 4), 0);
	cr_expect_eq(a.count, 2);
	cr_expect_eq(counter_list_get(&a, "ring_full"), 7);
	cr_expect_eq(counter_list_get(&a, "ring"), 0);
	cr_assert_eq(counter_list_add(&b, "map_full", 1), 0);
	cr_assert_eq(counter_list_add(&b, "new", 2), 0);
	cr_assert_eq(counter_list_merge(&a, &b), 0);
	cr_expect_eq(counter_list_get(&a, "map_full"), 6);
	cr_expect_eq(counter_list_get(&a, "new"), 2);
	cr_expect_str_eq(a.items[0].name, "ring_full", "order of first use");
	cr_expect_str_eq(a.items[2].name, "new");
	counter_list_free(&a);
	counter_list_free(&a);
	counter_list_free(&b);
	cr_expect_eq(a.count, 0);
}

Test(counters, missing_keeps_the_last_reason)
{
	struct missing_list list = {0};
	char reason[] = "first";

	cr_assert_eq(missing_list_set(&list, "net", reason), 0);
	reason[0] = 'X';
	cr_expect_str_eq(list.items[0].reason, "first");
	cr_assert_eq(missing_list_set(&list, "cpu.idle_ns", "no file"), 0);
	cr_assert_eq(missing_list_set(&list, "net", "second"), 0);
	cr_expect_eq(list.count, 2);
	cr_expect_str_eq(list.items[0].key, "net");
	cr_expect_str_eq(list.items[0].reason, "second");
	/* The reason may be the very text that is replaced. */
	cr_assert_eq(missing_list_set(&list, "net", list.items[0].reason), 0);
	cr_expect_str_eq(list.items[0].reason, "second");
	missing_list_free(&list);
	missing_list_free(&list);
	cr_expect_eq(list.count, 0);
}
