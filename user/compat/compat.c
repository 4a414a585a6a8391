/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/compat.h"

#include <math.h>

#define NS_PER_MS      1000000ull
#define JIFFY_NS       10000000.0
#define MINUTE_NS      60e9
#define HOUR_NS        3600e9
#define OVERHEAT       1000 /* jiffies a minute, a sixth of a core */
#define DROP_FPS       8
#define DELTA_FTIME_NS 100000000

uint64_t compat_blockcanary_cost_ms(uint64_t wall_ns)
{
	return wall_ns / NS_PER_MS;
}

uint64_t compat_blockcanary_thread_ms(uint64_t cpu_ns)
{
	return cpu_ns / NS_PER_MS;
}

bool compat_blockcanary_is_block(uint64_t wall_ns, uint64_t threshold_ms)
{
	return compat_blockcanary_cost_ms(wall_ns) > threshold_ms;
}

double compat_gt_cpu_pct(uint64_t cpu_ns, uint64_t whole_ns)
{
	return whole_ns ? 100 * (double)cpu_ns / (double)whole_ns : NAN;
}

double compat_top_cpu_pct(uint64_t cpu_ns, uint64_t dur_ns)
{
	return dur_ns ? 100 * (double)cpu_ns / (double)dur_ns : NAN;
}

double compat_dokit_cpu_pct(uint64_t cpu_ns, uint64_t dur_ns, double cpus)
{
	return cpus > 0 ? compat_top_cpu_pct(cpu_ns, dur_ns) / cpus : NAN;
}

double compat_matrix_jiffies_per_min(uint64_t cpu_ns, uint64_t dur_ns)
{
	return dur_ns ? (double)cpu_ns / JIFFY_NS / ((double)dur_ns / MINUTE_NS) : NAN;
}

bool compat_matrix_overheat(uint64_t cpu_ns, uint64_t dur_ns)
{
	return dur_ns >= COMPAT_OVERHEAT_NS &&
	       compat_matrix_jiffies_per_min(cpu_ns, dur_ns) > OVERHEAT;
}

double compat_perfdog_slice_ns(uint64_t ns, uint64_t khz, uint64_t max_khz)
{
	return max_khz ? (double)ns * (double)khz / (double)max_khz : 0;
}

double compat_perfdog_normalised_pct(double slices_ns, uint64_t dur_ns, double cpus)
{
	return dur_ns && cpus > 0 ? 100 * slices_ns / ((double)dur_ns * cpus) : NAN;
}

void compat_drop_fps_add(struct compat_drop_fps *drop, double fps)
{
	if (drop->seconds && !isnan(drop->last))
		drop->drops += drop->last - fps > DROP_FPS;
	drop->seconds++;
	drop->last = fps;
}

void compat_drop_fps_gap(struct compat_drop_fps *drop)
{
	drop->last = NAN;
}

double compat_drop_fps_per_hour(const struct compat_drop_fps *drop)
{
	return drop->seconds < 2 ? NAN : (double)drop->drops * 3600 / (double)drop->seconds;
}

void compat_delta_ftime_add(struct compat_delta_ftime *delta, int64_t interval_ns)
{
	int64_t differs_ns = interval_ns - delta->last_ns;

	if (delta->frames)
		delta->deltas += differs_ns > DELTA_FTIME_NS || differs_ns < -DELTA_FTIME_NS;
	delta->frames++;
	delta->total_ns += interval_ns;
	delta->last_ns = interval_ns;
}

double compat_delta_ftime_per_hour(const struct compat_delta_ftime *delta)
{
	return delta->frames < 2 || delta->total_ns <= 0
		       ? NAN
		       : (double)delta->deltas * HOUR_NS / (double)delta->total_ns;
}
