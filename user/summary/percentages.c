/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/percentages.h"

#include <math.h>
#include <string.h>

#include "compat/compat.h"
#include "jankscope/record.h"

static double get(const struct summary_total *totals, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(totals[i].key, key))
			return totals[i].value;
	return NAN;
}

/* Of no number 0: totals may come from a file that somebody made. */
static uint64_t whole(double value)
{
	return !(value > 0) ? 0 : value < 1.8e19 ? (uint64_t)value : UINT64_MAX;
}

int percentages_set(const struct summary_total *totals, size_t count, percentages_set_fn set,
		    void *ctx)
{
	double cpu_ns = get(totals, count, "targets.cpu_ns"), dur_ns = get(totals, count, "dur_ns");
	double online_ns = get(totals, count, "cpu.online_ns");
	double steal_ns = fmax(0, get(totals, count, "cpu.steal_ns"));
	uint64_t cpu = whole(cpu_ns), dur = whole(dur_ns);
	const struct {
		const char *key;
		double value;
	} parts[] = {
		{"cpu.device_pct", 100 * get(totals, count, "cpu.busy_ns") / online_ns},
		{"targets.core_pct", compat_top_cpu_pct(cpu, dur)},
		{"targets.device_pct", 100 * cpu_ns / online_ns},
		{"targets.device_fnorm_pct", 100 * get(totals, count, "targets.fnorm_ns") /
						     get(totals, count, "cpu.capacity_ns")},
		{"compat.top.cpu_pct", compat_top_cpu_pct(cpu, dur)},
		{"compat.dokit.cpu_pct", compat_dokit_cpu_pct(cpu, dur, online_ns / dur_ns)},
		{"compat.gt.cpu_pct", compat_gt_cpu_pct(cpu, whole(online_ns - steal_ns))},
		{"compat.matrix.jiffies_per_min", compat_matrix_jiffies_per_min(cpu, dur)},
		{"compat.matrix.overheat",
		 dur >= COMPAT_OVERHEAT_NS ? compat_matrix_overheat(cpu, dur) : NAN},
	};
	/* Without a target there is the first one alone; without CPU time none. */
	size_t there = !(online_ns > 0) ? 0 : isnan(cpu_ns) ? 1 : sizeof(parts) / sizeof(*parts);
	int err = 0;

	for (size_t i = 0; i < there && !err; i++)
		if (isfinite(parts[i].value))
			err = set(ctx, parts[i].key, parts[i].value);
	return err;
}
