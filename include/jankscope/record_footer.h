/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of a run; a part of record.h, whose types it uses. */
#pragma once

struct record_distribution {
	const char *name; /* key path below summary, e.g. "blocks.wall_ns" */
	uint64_t n;
	double min, max, mean, p50, p90, p95, p99;
};

/* Who used most of a run: a thread, a process or a uid, or several short-lived threads or processes
 * of one name in one row. Sums are exact unless `partial` is set. */
struct footer_usage {
	pid_t pid, tid; /* 0: not of this kind of row, or the row is of several */
	uid_t uid;
	const char *thread, *process, *package; /* NULL: not of this kind of row, or not known */
	uint64_t start_boot_ns;                 /* 0: of several, or not known */
	uint64_t count;                         /* how many threads or processes the row sums up */
	unsigned threads; /* of a process: the most that ran in one interval */
	/* The row was dropped for want of room and made anew: its earlier time is in other_ns. */
	bool partial;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	struct opt_u64 rx_bytes, tx_bytes; /* of a uid */
};

/* The heaviest rows of one kind; they and `other_...` make the totals of the run. */
struct footer_top {
	const struct footer_usage *rows;
	size_t count;
	uint64_t other_ns;
	struct opt_u64 other_rx_bytes, other_tx_bytes; /* of uids */
};

/* Frames of a layer over the run. */
struct footer_layer {
	pid_t pid;                   /* 0: not known */
	const char *package, *layer; /* NULL: not known */
	uint64_t shown, dropped, janky;
	bool partial; /* made anew after rows were dropped: earlier frames may be in the sum of
			 others */
};

/* Blocks by what they did: the functions that tell of their heaviest stack, outermost first. */
struct footer_block_path {
	const char *path; /* "caller;...;function"; NULL: blocks without a stack */
	uint64_t count, total_ns, longest_ns;
	bool partial; /* made anew after rows were dropped: earlier blocks may be in the sum of
			 others */
};

/* Totals over the run by key path ("cpu.busy_ns"); a sink nests them at the dots. */
struct record_footer {
	struct summary_total {
		char *key;
		double value;
	} * totals;
	size_t total_count;
	struct record_distribution *distributions;
	size_t distribution_count;
	/* of the stacks of all blocks, heaviest first: folded, outermost;...;innermost */
	const struct footer_path {
		const char *path;
		uint64_t weight_ns, blocks;
	} * paths;
	size_t path_count;
	bool any_layer, any_block; /* there are rows of them, and what is in none */
	bool top_present;          /* false: nothing was measured, and the sums below are no 0 */
	struct footer_top threads, processes, uids;
	const struct footer_layer *layers; /* by frames shown */
	size_t layer_count;
	struct footer_layer other_layers;            /* the sum of all others */
	const struct footer_block_path *block_paths; /* by time */
	size_t block_path_count;
	struct footer_block_path other_block_paths; /* the sum of all others */
	/* The same of late frames by the stack that tells of each; times are how late they were. */
	const struct footer_block_path *late_paths;
	size_t late_path_count;
	struct footer_block_path other_late_paths;
	bool any_late;
	const struct footer_memory *memory; /* by PSS, else by RSS */
	size_t memory_count;
	uint64_t other_memory;                         /* processes that have no row */
	const struct record_interface_net *interfaces; /* rows of network interfaces, where
							 the net source tells them apart */
	size_t interface_count;
	const struct footer_disk *disks; /* tasks by bytes read from and written to storage */
	size_t disk_count;
	struct record_disk_sums other_disk; /* of tasks that have no row */
	bool any_disk;
	const struct footer_scene *scenes; /* in the order in which they began */
	size_t scene_count;
	struct counter_list lost, late, repaired;
	struct missing_list missing;
};

/* What the run was while a scene was open: its totals and distributions. */
struct footer_scene {
	struct record_footer sums; /* totals and distributions of it only */
	const char *name;
	uint64_t times;   /* how often it began */
	bool open_at_end; /* the run ended in it */
};
