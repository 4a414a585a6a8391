/* SPDX-License-Identifier: BSD-2-Clause */
/* The vectors of user/compat/README.md: what the other tools' own definitions give. */
#include <criterion/criterion.h>
#include <math.h>

#include "compat/compat.h"

#define MS  1000000ull
#define SEC 1000000000ull

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

/* currentTimeMillis() less currentTimeMillis(), and a threshold that must be exceeded. */
Test(compat, blockcanary)
{
	cr_expect_eq(compat_blockcanary_cost_ms(1234 * MS + 999999), 1234);
	cr_expect_eq(compat_blockcanary_thread_ms(999999), 0);
	cr_expect_eq(compat_blockcanary_thread_ms(7 * MS), 7);
	cr_expect_not(compat_blockcanary_is_block(1000 * MS, COMPAT_BLOCKCANARY_MS));
	cr_expect_not(compat_blockcanary_is_block(1000 * MS + 999999, COMPAT_BLOCKCANARY_MS));
	cr_expect(compat_blockcanary_is_block(1001 * MS, COMPAT_BLOCKCANARY_MS));
	cr_expect(compat_blockcanary_is_block(201 * MS, 200));
}

/* A second of 200 user, 0 nice, 50 system, 700 idle, 40 iowait, 5 irq and 5 softirq ticks: the
 * whole is 1000 of them, on however many CPUs. */
Test(compat, shares)
{
	cr_expect(near(compat_gt_cpu_pct(130 * 10 * MS, 1000 * 10 * MS), 13));
	cr_expect(isnan(compat_gt_cpu_pct(1, 0)));
	/* Two threads that do not stop, on a device with eight CPUs. */
	cr_expect(near(compat_top_cpu_pct(2 * SEC, SEC), 200));
	cr_expect(near(compat_dokit_cpu_pct(2 * SEC, SEC, 8), 25));
	cr_expect(near(compat_gt_cpu_pct(2 * SEC, 8 * SEC), 25));
	cr_expect(isnan(compat_top_cpu_pct(1, 0)));
	cr_expect(isnan(compat_dokit_cpu_pct(1, SEC, 0)));
}

/* One thread that does not stop is 6000 jiffies a minute. */
Test(compat, matrix)
{
	cr_expect(near(compat_matrix_jiffies_per_min(60 * SEC, 60 * SEC), 6000));
	cr_expect(near(compat_matrix_jiffies_per_min(10 * SEC, 60 * SEC), 1000));
	cr_expect(near(compat_matrix_jiffies_per_min(5 * SEC, 30 * SEC), 1000));
	cr_expect(isnan(compat_matrix_jiffies_per_min(5 * SEC, 0)));
	cr_expect_not(compat_matrix_overheat(50 * SEC, 300 * SEC), "1000 is not above 1000");
	cr_expect(compat_matrix_overheat(50 * SEC + 10 * MS, 300 * SEC));
	cr_expect_not(compat_matrix_overheat(299 * SEC, 299 * SEC), "less than five minutes");
	cr_expect_not(compat_matrix_overheat(0, 0));
}

/* Half a second at 900 of 1800 MHz and a quarter at 2800 of 2800, in a second of four CPUs. */
Test(compat, perfdog_normalised)
{
	double slices = compat_perfdog_slice_ns(SEC / 2, 900000, 1800000) +
			compat_perfdog_slice_ns(SEC / 4, 2800000, 2800000);

	cr_expect(near(slices, SEC / 2.0));
	cr_expect(near(compat_perfdog_normalised_pct(slices, SEC, 4), 12.5));
	cr_expect_eq(compat_perfdog_slice_ns(SEC, 1, 0), 0);
	cr_expect(isnan(compat_perfdog_normalised_pct(slices, 0, 4)));
	cr_expect(isnan(compat_perfdog_normalised_pct(slices, SEC, 0)));
}

Test(compat, perfdog_drop_fps)
{
	static const double fps[] = {60, 52, 60, 51, 42, 60, 0};
	struct compat_drop_fps drop = {0};

	cr_expect(isnan(compat_drop_fps_per_hour(&drop)));
	for (int i = 0; i < 7; i++)
		compat_drop_fps_add(&drop, fps[i]);
	/* 8 is not more than 8; 60 to 51, 51 to 42 and 60 to 0 are. */
	cr_expect_eq(drop.drops, 3);
	cr_expect(near(compat_drop_fps_per_hour(&drop), 3 * 3600.0 / 7));
	compat_drop_fps_add(&drop, 60);
	compat_drop_fps_gap(&drop);
	compat_drop_fps_add(&drop, 1);
	cr_expect_eq(drop.drops, 3, "not across a second that is missing");
}

Test(compat, perfdog_delta_ftime)
{
	static const int64_t ms[] = {16, 116, 16, 117, 16, 16, 216};
	struct compat_delta_ftime delta = {0};
	int64_t total = 0;

	for (int i = 0; i < 7; i++) {
		compat_delta_ftime_add(&delta, ms[i] * (int64_t)MS);
		total += ms[i] * (int64_t)MS;
	}
	/* 100 is not more than 100; 16 to 117, back, and 16 to 216 are. */
	cr_expect_eq(delta.deltas, 3);
	cr_expect(near(compat_delta_ftime_per_hour(&delta), 3 * 3600e9 / (double)total));
	delta = (struct compat_delta_ftime){0};
	cr_expect(isnan(compat_delta_ftime_per_hour(&delta)));
}
