/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side of disk accounting: loads bpf/disk.bpf.c and reads its maps. It hands out
 * readings and knows nothing of intervals. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/disk.h"

struct disk_kernel;

/* How calls of fsync and its like are seen, best first. */
enum disk_syncs_by {
	DISK_SYNCS_AUTO = 0,
	DISK_SYNCS_BY_KPROBE = 1,     /* of all file systems, each kind of call */
	DISK_SYNCS_BY_TRACEPOINT = 2, /* of ext4 and f2fs, and only what reaches them */
	DISK_SYNCS_NOT = 3,
};

struct disk_kernel_options {
	const char *btf_path;     /* NULL: the kernel's own */
	uint32_t ring_bytes;      /* of the ends of tasks; 0: the default */
	enum disk_syncs_by syncs; /* this one or one behind it */
};

/* Load and attach. On failure NULL, with errno and a line in reason: no BTF (the task iterator
 * needs it), no CONFIG_TASK_IO_ACCOUNTING, not permitted. */
struct disk_kernel *disk_kernel_open(const struct disk_kernel_options *options, char *reason,
				     size_t size);
void disk_kernel_close(struct disk_kernel *kernel);

/* A negative return ends the reading with it. */
typedef int (*disk_line_fn)(void *ctx, const struct disk_line *line);
/* Ends of tasks since the last call, in their order. 0 or -errno. */
int disk_kernel_ends(struct disk_kernel *kernel, disk_line_fn callback, void *ctx);
/* Every task that is there and has read or written anything, in one walk of iter/task. 0 or -errno.
 */
int disk_kernel_tasks(struct disk_kernel *kernel, disk_line_fn callback, void *ctx);
/* Readable when the ring of ends is half full. */
int disk_kernel_ends_fd(const struct disk_kernel *kernel);

/* How it is measured: "iter/kprobe" and the like. */
const char *disk_kernel_variant(const struct disk_kernel *kernel);
/* NULL: calls of fsync and its like are counted; else why not. */
const char *disk_kernel_no_syncs(const struct disk_kernel *kernel);
typedef int (*disk_syncs_fn)(void *ctx, const struct disk_process *process,
			     const struct disk_syncs *syncs);
/* Every process that has called one since the opening, with its sums since then. 0 or -errno. */
int disk_kernel_syncs(struct disk_kernel *kernel, disk_syncs_fn callback, void *ctx);
/* The process is no more: what it called is not handed out any longer. */
void disk_kernel_forget(struct disk_kernel *kernel, const struct disk_process *process);

/* Cumulative losses. 0 or -errno. */
int disk_kernel_losses(const struct disk_kernel *kernel, uint64_t losses[DISK_LOSS_MAX]);
