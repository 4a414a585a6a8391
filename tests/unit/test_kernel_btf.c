/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/btf.h"
#include "kernel/features.h"
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint8_t bytes[] = {1};
static const struct embedded_btf list[] = {
	{"android12-5.10", bytes, bytes + 1},
	{"android13-5.10", bytes, bytes + 1},
	{0},
};

Test(kernel_btf, chosen_by_branch_and_version)
{
	static const struct {
		const char *release;
		int row; /* -1: none */
	} cases[] = {
		{"5.10.149-android13-4-00003-g05231a35ff43-ab9850788", 1},
		{"5.10.66-android12-9-00022-g2d6a43c0364d-ab8103786", 0},
		{"5.10.198-android12-9-gki", 0},
		{"5.15.123-android13-8", -1}, /* has BTF of its own, and other layouts */
		{"5.100.1-android12-9", -1},
		{"5.10.0-28-arm64", -1},
		{"5.10.43-android120-1", -1},
		{"15.10.1-android12-9", -1},
		{"", -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(kernel_btf_for_release(list, cases[i].release),
			     cases[i].row < 0 ? NULL : &list[cases[i].row], "%s", cases[i].release);
}

Test(kernel_btf, file_that_is_no_btf)
{
	struct kernel_btf btf;

	libbpf_set_print(NULL);
	cr_assert_lt(kernel_btf_open(&btf, "/dev/null", NULL), 0);
	kernel_btf_close(&btf);
	cr_assert_eq(kernel_btf_open(&btf, "/nonexistent/x.btf", NULL), -ENOENT);
	kernel_btf_close(&btf);
}

Test(kernel_features, every_row_says_something)
{
	struct feature rows[64];
	size_t count, i;
	struct rlimit before, after;

	libbpf_set_print(NULL);
	getrlimit(RLIMIT_MEMLOCK, &before);
	count = features_probe(rows, 64, NULL);
	getrlimit(RLIMIT_MEMLOCK, &after);
	cr_assert_eq(count, features_count());
	for (i = 0; i < count; i++) {
		cr_expect(rows[i].detail[0], "%s", rows[i].name);
		if (rows[i].ok)
			cr_expect(!rows[i].remedy[0], "%s", rows[i].name);
	}
	/* the probe lowers the limit for a moment */
	cr_assert_geq(after.rlim_cur, before.rlim_cur);
	cr_assert(features_find(rows, count, "ptrace")->ok);
	cr_assert_null(features_find(rows, count, "nonsense"));
	if (geteuid() == 0)
		cr_assert(features_find(rows, count, "capabilities")->ok ||
			  features_find(rows, count, "capabilities")->remedy[0]);
	cr_assert_eq(features_probe(rows, 3, NULL), 3);
}

Test(kernel_features, wrong_btf_file_is_named)
{
	struct feature rows[64];
	size_t count;

	libbpf_set_print(NULL);
	count = features_probe(rows, 64, "/nonexistent/x.btf");
	cr_assert_not(features_find(rows, count, "btf")->ok);
}
