/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/disk.bpf.c and user space both read of the bytes that tasks read and write, and of their
 * calls that wait for storage. Fixed width, sizes asserted, no pointers; an address is one of the
 * kernel's, by which tasks are told apart. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define DISK_COMM_LEN 16

/* task_struct.ioac: since the task began. */
struct disk_sums {
	__u64 read_bytes, write_bytes, cancelled_write_bytes;
	__u64 rchar_bytes, wchar_bytes, read_calls, write_calls;
};

enum disk_line_kind {
	DISK_LINE_ALIVE = 0, /* iter/task met it */
	/* It ends: its time of day is over, its files are not closed yet. */
	DISK_LINE_EXIT = 1,
	DISK_LINE_FREE = 2, /* its memory is freed: nothing comes after this */
};

/* The sums of a task at one moment. */
struct disk_line {
	__u64 task; /* address of its task_struct, which is nobody else's until DISK_LINE_FREE */
	__u64 start_boot_ns, process_start_boot_ns, at_boot_ns;
	__u32 tid, tgid, uid;
	__u32 kind; /* enum disk_line_kind */
	struct disk_sums sums;
	char comm[DISK_COMM_LEN];
};

/* System calls that return when storage has what was written. */
enum disk_sync_kind {
	DISK_FSYNC = 0,
	DISK_FDATASYNC = 1,
	DISK_MSYNC = 2, /* with MS_SYNC */
	DISK_SYNC_FILE_RANGE = 3,
	DISK_SYNC_KINDS = 4,
};

/* A process, by its leader; words are added to by atomic adds, and read one by one. */
struct disk_process {
	__u64 start_boot_ns;
	__u32 pid;
	__u32 reserved;
};

struct disk_syncs {
	struct disk_sync {
		__u64 count, failed, time_ns; /* that returned 0; that did not; of both */
	} kind[DISK_SYNC_KINDS];
	__u32 uid;
	__u32 reserved;
};

/* A call that stands, by its thread. */
struct disk_call {
	__u64 since_ns;
	__u32 kind;
	__u32 reserved;
};

enum disk_loss {
	DISK_LOSS_RING_FULL = 0,    /* ends of tasks that could not be told */
	DISK_LOSS_SYNCS_FULL = 1,   /* calls of processes, or of threads, without room */
	DISK_LOSS_SYNCS_MISSED = 2, /* whose return was not seen */
	DISK_LOSS_MAX = 3,
};

_Static_assert(sizeof(struct disk_line) == 120, "struct disk_line has no holes");
_Static_assert(sizeof(struct disk_process) == 16, "struct disk_process has no holes");
_Static_assert(sizeof(struct disk_syncs) == 104, "struct disk_syncs has no holes");
_Static_assert(sizeof(struct disk_call) == 16, "struct disk_call has no holes");
