/* SPDX-License-Identifier: BSD-2-Clause */
/* What `status` says of a run: a fold over its records, of fixed size and without a pointer, so
 * that it can lie in memory that a recorder shares with the keeper and with the recorder that takes
 * its place. The fold is the same over the records of a file. */
#pragma once
#include "jankscope/record.h"

struct json_buffer;

#define RUN_LOSSES 32 /* kinds; more are in the last one, "other" */
#define RUN_POINTS 96 /* for slopes */
#define RUN_TEXT   192

struct run_status {
	uint64_t interval_ns;
	uint64_t begun_boot_ns, end_boot_ns; /* end_boot_ns 0: no end was asked for */
	uint64_t disk_limit_bytes;           /* 0: none that is known */
	uint64_t last_record_boot_ns, last_interval_boot_ns, last_seq;
	uint64_t intervals, covered_ns; /* covered_ns: their length, awake */
	uint64_t gaps, gap_ns;          /* recorders that died, and what lies between two of them */
	uint64_t overlong;              /* intervals that took the time of several */
	uint64_t suspends, suspended_ns, clock_jumps;
	uint64_t target_exits, target_restarts;
	uint64_t recorder_restarts, blocks;
	uint64_t self_cpu_ns, stops, stop_max_ns;
	struct opt_u64 anon_bytes, memory_bytes, unwinder_cache_bytes;
	struct {
		uint64_t t_boot_ns, anon_bytes;
	} points[RUN_POINTS]; /* each the last of its stride */
	uint64_t point_stride_ns, point_count;
	struct {
		char name[48];
		uint64_t value;
	} lost[RUN_LOSSES];
	uint64_t lost_count;
	uint64_t degraded;      /* events of that name */
	char warning[RUN_TEXT]; /* the last of them, or a source that is not ok */
	char error[RUN_TEXT];   /* of the recorder that died last */
	bool footer;            /* the last record is one: the run ended in order */
	uint64_t awaited_exits; /* targets that ended, and have not come back */
};

/* Count a record: from its own recorder, or read back from a file. */
void run_status_take(struct run_status *status, const struct record *record);
/* How many intervals the covered time and the gaps would have had. */
uint64_t run_status_expected(const struct run_status *status);
/* Growth of anon_bytes in an hour by Theil-Sen's estimator (Sen, JASA 63, 1968: the median of the
 * slopes of all pairs), without the first ten minutes where there are twenty. Absent below ten
 * points. */
struct opt_i64 run_status_slope(const struct run_status *status);

/* What the records do not say. */
struct run_live {
	const char *state;    /* starting, running, restarting, hangs, ended, died */
	pid_t pid;            /* of the recorder; 0: none */
	uint64_t now_boot_ns; /* for ages; 0: the records are of another boot */
};
/* The object that `status --json` prints. */
void run_status_write(const struct run_status *status, const struct run_live *live,
		      struct json_buffer *to);
