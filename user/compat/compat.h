/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of other tools, computed from ours, each under the name of the tool that defined it,
 * so that a lab can change the tool and keep its history. Pure: no clock, no I/O. README.md has
 * each definition with its source, and where the value differs from the tool's own because that one
 * is wrong. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* BlockCanary counts a block in whole milliseconds of wall time, and of CPU time of its main thread
 * beside it. It is a block where it is longer than the threshold, 1000 ms unless it was set. */
#define COMPAT_BLOCKCANARY_MS 1000
uint64_t compat_blockcanary_cost_ms(uint64_t wall_ns);
uint64_t compat_blockcanary_thread_ms(uint64_t cpu_ns);
bool compat_blockcanary_is_block(uint64_t wall_ns, uint64_t threshold_ms);

/* A process's share of all that the CPUs counted, in % (GT, and DoKit below Android 8): the whole
 * is seven columns of /proc/stat, user to softirq, without steal. NaN where whole_ns is 0. */
double compat_gt_cpu_pct(uint64_t cpu_ns, uint64_t whole_ns);
/* The CPU column of top: in % of one core. NaN where dur_ns is 0. */
double compat_top_cpu_pct(uint64_t cpu_ns, uint64_t dur_ns);
/* DoKit from Android 8 on: that of top divided by the CPUs. NaN where there is none. */
double compat_dokit_cpu_pct(uint64_t cpu_ns, uint64_t dur_ns, double cpus);

/* Matrix's battery canary: jiffies of 10 ms a minute, whatever the kernel's HZ. NaN where dur_ns is
 * 0. */
double compat_matrix_jiffies_per_min(uint64_t cpu_ns, uint64_t dur_ns);
#define COMPAT_OVERHEAT_NS 300000000000ull
/* It calls a mean above 1000 for at least five minutes an overheat. */
bool compat_matrix_overheat(uint64_t cpu_ns, uint64_t dur_ns);

/* One slice's part of PerfDog's normalised CPU: time by how far the CPU was from its highest
 * frequency. 0 where max_khz is 0. */
double compat_perfdog_slice_ns(uint64_t ns, uint64_t khz, uint64_t max_khz);
/* The sum of slices, in % of all CPUs at their highest frequency. NaN where there is none. */
double compat_perfdog_normalised_pct(double slices_ns, uint64_t dur_ns, double cpus);

/* PerfDog's Drop(FPS): how often in an hour the frames of a second are more than 8 fewer than those
 * of the second before. */
struct compat_drop_fps {
	double last;
	uint64_t seconds, drops;
};
void compat_drop_fps_add(struct compat_drop_fps *drop, double fps);
/* A second is missing: the next one has none before it. */
void compat_drop_fps_gap(struct compat_drop_fps *drop);
/* NaN before the second second. */
double compat_drop_fps_per_hour(const struct compat_drop_fps *drop);

/* PerfDog's Delta(FTime): how often in an hour a frame's time differs from that of the frame before
 * by more than 100 ms. */
struct compat_delta_ftime {
	int64_t last_ns;
	uint64_t frames, deltas;
	int64_t total_ns;
};
void compat_delta_ftime_add(struct compat_delta_ftime *delta, int64_t interval_ns);
/* NaN before the second frame. */
double compat_delta_ftime_per_hour(const struct compat_delta_ftime *delta);
