/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <linux/capability.h>

#include "core/rights.h"

Test(rights, gid_of_a_hidden_proc)
{
	cr_expect_eq(rights_proc_gid(""), -1);
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,relatime 0 0\n"), -1);
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,hidepid=0,gid=7 0 0\n"), -1);
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,hidepid=off 0 0"), -1);
	/* Android */
	cr_expect_eq(rights_proc_gid("tmpfs /dev tmpfs rw 0 0\n"
				     "proc /proc proc rw,relatime,gid=3009,hidepid=2 0 0\n"
				     "sysfs /sys sysfs rw 0 0\n"),
		     3009);
	/* since 5.8 it has names */
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,gid=3009,hidepid=invisible 0 0\n"), 3009);
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,hidepid=invisible 0 0\n"), -2);
	/* the last one is seen */
	cr_expect_eq(rights_proc_gid("proc /proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n"),
		     -1);
	cr_expect_eq(rights_proc_gid("proc /srv/proc proc rw,hidepid=2 0 0\n"), -1);
	cr_expect_eq(rights_proc_gid("proc /proc\n\n \n"), -1);
}

Test(rights, table_says_why)
{
	size_t n = 0;

	for (const struct right *right; (right = rights_at(n)); n++) {
		cr_expect_not_null(right->reason);
		cr_expect_neq(right->needs, 0);
		cr_expect(rights_keep(right->needs, right->capability) ||
			  right->capability == CAP_BPF);
	}
	cr_expect_gt(n, 0);
	cr_expect_not(
		rights_keep(RIGHT_MAPS | RIGHT_DUMPS | RIGHT_FILES | RIGHT_EXEC, CAP_SYS_MODULE));
	cr_expect_not(rights_keep(RIGHT_EXEC, CAP_SYS_ADMIN));
	cr_expect(rights_keep(RIGHT_TARGETS, CAP_SYS_MODULE));
}
