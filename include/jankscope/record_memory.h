/* SPDX-License-Identifier: BSD-2-Clause */
/* What a record says of memory; a part of record.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The rows of a process in smaps, summed up by what the mappings are for. */
struct record_memory_kind {
	unsigned kind; /* enum memory_kind of proc/memory.h */
	uint64_t mappings, pss_bytes, swap_pss_bytes, private_dirty_bytes;
};

/* What a reading of smaps cost, and the longest time that the process's mmap_lock was held for it.
 */
struct record_memory_cost {
	uint64_t wall_ns, cpu_ns;
};

/* A process of the targets. What is read every --smaps only is absent in the intervals between. */
struct record_memory_process {
	pid_t pid;
	uid_t uid;
	uint64_t start_boot_ns;
	const char *process, *package; /* NULL: unknown */
	/* of status, every interval */
	struct opt_u64 rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes, swap_bytes;
	struct opt_u64 hugetlb_bytes, vss_bytes, threads, fds;
	/* of smaps_rollup, every --smaps */
	struct opt_u64 pss_bytes, pss_anon_bytes, pss_file_bytes, pss_shmem_bytes;
	struct opt_u64 private_clean_bytes, private_dirty_bytes, swap_pss_bytes;
	struct opt_u64 dmabuf_bytes, dmabufs, gpu_bytes;
	struct opt_u64 t_boot_ns; /* when that was read */
	bool has_rollup, has_kinds;
	struct record_memory_cost rollup_cost, kinds_cost;
	const struct record_memory_kind *kinds; /* those that have mappings */
	size_t kind_count;
	struct missing_list missing;
};

struct record_memory_system {
	struct opt_u64 total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
	/* since the interval before: some tasks, or all that had work, waited for memory */
	struct opt_u64 pressure_some_ns, pressure_full_ns;
	struct opt_u64 dmabuf_bytes, gpu_bytes;
};

struct record_memory {
	bool present;
	struct record_memory_process *processes;
	size_t process_count;
	struct record_memory_system system;
};

/* Of a distribution, as in the footer's totals. */
struct record_spread {
	uint64_t n, min, max;
	double mean;
	uint64_t p50, p90, p95, p99;
};

/* Memory of one process over a run. Slopes are by Theil and Sen, low and high the bounds of their
 * 95 % interval (util/theil_sen.h). */
struct footer_memory {
	pid_t pid;
	const char *process, *package; /* NULL: not known */
	uint64_t start_boot_ns;
	bool exited;
	struct record_spread pss, rss;
	bool has_pss, has_rss;
	struct opt_i64 pss_slope, low, high, rss_slope, rss_low, rss_high; /* bytes per hour */
	struct opt_u64 threads_max, fds_max, vss_max_bytes;
};
