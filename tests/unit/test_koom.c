/* SPDX-License-Identifier: BSD-2-Clause */
/* KOOM's limits: series of looks, and what its trackers say at the last of them. */
#include <criterion/criterion.h>

#include "summary/koom.h"

#define NONE UINT64_MAX

static unsigned last_look(const uint64_t *values, enum koom_limit limit, bool is_32_bit)
{
	struct koom koom = {0};
	unsigned over = 0;

	for (; *values; values++) {
		struct opt_u64 value = {*values != NONE, *values != NONE ? *values : 0};
		struct opt_u64 none = {0};

		over = koom_look(&koom, limit == KOOM_LIMIT_FDS ? value : none,
				 limit == KOOM_LIMIT_THREADS ? value : none,
				 limit == KOOM_LIMIT_VSS ? value : none, is_32_bit);
	}
	return over;
}

Test(koom, looks)
{
	static const struct {
		enum koom_limit limit;
		uint64_t values[8]; /* 0: the end */
		bool over, is_64_bit;
	} cases[] = {
		{KOOM_LIMIT_FDS, {1001, 1001, 1001}, true, false},
		{KOOM_LIMIT_FDS, {1001, 1001}, false, false},
		{KOOM_LIMIT_FDS, {1000, 1000, 1000, 1000}, false, false},
		{KOOM_LIMIT_FDS, {1001, 1001, 1000, 1001, 1001}, false, false},
		{KOOM_LIMIT_FDS, {1001, 1001, 1000, 1001, 1001, 1001}, true, false},
		{KOOM_LIMIT_FDS, {1100, 1050, 1001}, true, false},  /* falls by up to 50 */
		{KOOM_LIMIT_FDS, {1100, 1049, 1049}, false, false}, /* by 51: begins anew */
		{KOOM_LIMIT_FDS, {2000, 1900, 1900, 1900, 1900}, true, false},
		{KOOM_LIMIT_FDS, {1001, 1001, 1001, 5}, false, false},
		{KOOM_LIMIT_FDS, {1001, 1001, NONE, 1001}, false, false},
		{KOOM_LIMIT_FDS, {1001, 5000, 40000}, true, true},
		{KOOM_LIMIT_THREADS, {751, 751, 751}, true, false},
		{KOOM_LIMIT_THREADS, {750, 750, 750}, false, false},
		{KOOM_LIMIT_THREADS, {900, 849, 849, 849}, false, false},
		{KOOM_LIMIT_THREADS, {900, 850, 800}, true, false},
		{KOOM_LIMIT_VSS, {3650000001, 3650000001, 3650000001}, true, false},
		{KOOM_LIMIT_VSS, {3650000000, 3650000000, 3650000000}, false, false},
		{KOOM_LIMIT_VSS, {1ull << 40, 1ull << 40, 1ull << 40}, false, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_expect_eq(last_look(cases[i].values, cases[i].limit, !cases[i].is_64_bit),
			     (unsigned)cases[i].over << cases[i].limit, "case %zu", i);
}
