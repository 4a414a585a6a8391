/* SPDX-License-Identifier: BSD-2-Clause */
/* interval: disk, what tasks read and wrote in it; a part of record.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As in /proc/PID/io. */
struct record_disk_sums {
	uint64_t read_bytes, write_bytes, cancelled_write_bytes;
	uint64_t rchar_bytes, wchar_bytes, read_calls, write_calls;
};

/* The strings of a row belong to the source and live until its next sample. */
struct record_disk_task {
	pid_t tid, pid;
	uid_t uid;
	uint64_t start_boot_ns, process_start_boot_ns;
	char thread[16];               /* RECORD_COMM_LEN */
	const char *process, *package; /* NULL: unknown */
	struct record_disk_sums sums;
	bool exited;
};

/* System calls of one kind that returned in the interval. */
struct record_disk_sync {
	uint64_t count, failed, time_ns;
};

struct record_disk_process {
	pid_t pid;
	uid_t uid;
	uint64_t start_boot_ns;
	const char *process, *package;
	struct record_disk_sums sums;
	struct record_disk_sync fsync, fdatasync, msync, sync_file_range;
	bool has_fsync, has_fdatasync, has_msync, has_sync_file_range;
};

/* A line of /proc/uid_io/stats, since it was read before. */
struct record_disk_uid {
	uid_t uid;
	const char *package;
	struct record_disk_ground {
		uint64_t read_bytes, write_bytes, rchar_bytes, wchar_bytes, fsyncs;
	} foreground, background;
};

struct record_disk {
	bool present;
	struct record_disk_sums sums, other; /* of all tasks; of those in no row of tasks */
	struct record_disk_task *tasks;
	size_t task_count;
	struct record_disk_process *processes;
	size_t process_count;
	/* Of the rows, of all the processes and tasks of the targets, those that were cut off too;
	 * only with targets. */
	struct record_disk_sums targets;
	struct record_disk_sync targets_sync;
	bool has_targets, has_targets_sync, uids_present;
	uint64_t uids_span_ns; /* since it was read before */
	struct record_disk_uid *uids;
	size_t uid_count;
};

/* Who read and wrote most of a run: a task. */
struct footer_disk {
	pid_t tid, pid;
	uid_t uid;
	uint64_t start_boot_ns;
	const char *thread, *process, *package; /* NULL: not known */
	struct record_disk_sums sums;
	bool partial; /* dropped for want of room and made anew: earlier bytes are in other */
};
