/* SPDX-License-Identifier: BSD-2-Clause */
/* What the disk source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

#define SUM(member, unit_, meaning_) \
	FIELD(struct record_disk_sums, member, REQUIRED, unit_, meaning_, MERGED(SUM))

static const struct field sums_rows[] = {
	SUM(read_bytes, BYTES, "read from storage"),
	SUM(write_bytes, BYTES,
	    "written to storage, or made dirty in the page cache, which is written later"),
	SUM(cancelled_write_bytes, BYTES,
	    "of write_bytes, of this task's or of another's: never written, because the file was "
	    "cut or removed before"),
	SUM(rchar_bytes, BYTES, "asked for by calls that read, from caches and pipes too"),
	SUM(wchar_bytes, BYTES, "handed over to calls that write"),
	SUM(read_calls, COUNT, "calls that read"),
	SUM(write_calls, COUNT, "calls that write"),
};
static const struct field_type sums_type =
	FIELD_TYPE("disk_sums", struct record_disk_sums, sums_rows);

static const struct field task_rows[] = {
	FIELD(struct record_disk_task, tid, REQUIRED, ID, "thread", MERGED(KEY)),
	FIELD(struct record_disk_task, pid, REQUIRED, ID, "its process"),
	FIELD(struct record_disk_task, uid, REQUIRED, ID, "its uid"),
	FIELD(struct record_disk_task, start_boot_ns, REQUIRED, NS, "when it began", MERGED(KEY)),
	FIELD(struct record_disk_task, thread, REQUIRED, NAME, "its name"),
	FIELD(struct record_disk_task, process, OPTIONAL, NAME, "name of the process"),
	FIELD(struct record_disk_task, package, OPTIONAL, NAME, "package"),
	FIELD_SAME_LEVEL(struct record_disk_task, sums, &sums_type),
	FIELD(struct record_disk_task, exited, NONZERO, NONE, "it has ended"),
};
static const struct field_type task_type =
	FIELD_TYPE("disk_task", struct record_disk_task, task_rows);

static const struct field sync_rows[] = {
	FIELD(struct record_disk_sync, count, REQUIRED, COUNT,
	      "calls that returned 0 in this interval", MERGED(SUM)),
	FIELD(struct record_disk_sync, failed, REQUIRED, COUNT, "calls that returned an error",
	      MERGED(SUM)),
	FIELD(struct record_disk_sync, time_ns, REQUIRED, NS,
	      "how long these calls lasted, from their begin in whatever interval", MERGED(SUM)),
};
static const struct field_type sync_type =
	FIELD_TYPE("disk_sync", struct record_disk_sync, sync_rows);

#define SYNC(member, meaning_)                                                                 \
	FIELD_STRUCT_IF(#member, struct record_disk_process, member, has_##member, &sync_type, \
			meaning_)

static const struct field process_rows[] = {
	FIELD(struct record_disk_process, pid, REQUIRED, ID, "process", MERGED(KEY)),
	FIELD(struct record_disk_process, uid, REQUIRED, ID, "its uid"),
	FIELD(struct record_disk_process, start_boot_ns, REQUIRED, NS, "when it began",
	      MERGED(KEY)),
	FIELD(struct record_disk_process, process, OPTIONAL, NAME, "its name"),
	FIELD(struct record_disk_process, package, OPTIONAL, NAME, "package"),
	FIELD_SAME_LEVEL(struct record_disk_process, sums, &sums_type),
	SYNC(fsync, "calls of fsync"),
	SYNC(fdatasync, "calls of fdatasync"),
	SYNC(msync, "calls of msync with MS_SYNC"),
	SYNC(sync_file_range, "calls of sync_file_range"),
};
static const struct field_type process_type =
	FIELD_TYPE("disk_process", struct record_disk_process, process_rows);

#define GROUND(member, unit_, meaning_) \
	FIELD(struct record_disk_ground, member, REQUIRED, unit_, meaning_, MERGED(SUM))

static const struct field ground_rows[] = {
	GROUND(read_bytes, BYTES, "read from storage"),
	GROUND(write_bytes, BYTES, "written, or made dirty"),
	GROUND(rchar_bytes, BYTES, "asked for by calls that read"),
	GROUND(wchar_bytes, BYTES, "handed over to calls that write"),
	GROUND(fsyncs, COUNT, "calls of fsync"),
};
static const struct field_type ground_type =
	FIELD_TYPE("disk_ground", struct record_disk_ground, ground_rows);

static const struct field uid_rows[] = {
	FIELD(struct record_disk_uid, uid, REQUIRED, ID, "uid", MERGED(KEY)),
	FIELD(struct record_disk_uid, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD_STRUCT("foreground", struct record_disk_uid, foreground, &ground_type,
		     "as Android's kernel accounts it while the uid is in the foreground"),
	FIELD_STRUCT("background", struct record_disk_uid, background, &ground_type,
		     "while it is not"),
};
static const struct field_type uid_type = FIELD_TYPE("disk_uid", struct record_disk_uid, uid_rows);

static const struct field disk_rows[] = {
	FIELD_SAME_LEVEL(struct record_disk, sums, &sums_type),
	FIELD_STRUCT("other", struct record_disk, other, &sums_type,
		     "of tasks that are in no row of tasks"),
	FIELD_ROWS("tasks", struct record_disk, tasks, task_count, REQUIRED, &task_type,
		   "tasks that read or wrote, those that ended too; they and other are the sums "
		   "of all"),
	FIELD_ROWS("processes", struct record_disk, processes, process_count, REQUIRED,
		   &process_type,
		   "processes by these tasks, and by their calls that wait for "
		   "storage"),
	FIELD_STRUCT_IF("targets", struct record_disk, targets, has_targets, &sums_type,
			"of all tasks of the targets"),
	FIELD_STRUCT_IF("targets_sync", struct record_disk, targets_sync, has_targets_sync,
			&sync_type, "calls of the targets that wait for storage, of all kinds"),
	FIELD(struct record_disk, uids_span_ns, NONZERO, NS, "what the uids below are of",
	      MERGED(SUM)),
	{.key = "uids",
	 .kind = FIELD_LIST,
	 FIELD_PLACE(struct record_disk, uids),
	 .more_offset = offsetof(struct record_disk, uid_count),
	 .need = FIELD_NONZERO,
	 .of = &uid_type,
	 .meaning = "uids that read or wrote (/proc/uid_io/stats), every 10 s"},
};
static const struct field_type disk_type = FIELD_TYPE("disk", struct record_disk, disk_rows);

const struct field disk_part =
	FIELD_STRUCT_IF("disk", struct record_interval, disk, disk.present, &disk_type,
			"bytes that tasks read and wrote, by the kernel's own accounting");
