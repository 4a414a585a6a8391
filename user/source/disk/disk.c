/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/disk/disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop.h"
#include "core/rights.h"
#include "jankscope/source.h"
#include "jankscope/target.h"
#include "kernel/disk_kernel.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "source/disk/ledger.h"
#include "source/disk/rows.h"
#include "source/disk/uids.h"
#include "source/declarations.h"
#include "util/clock.h"

static const char *const loss_names[DISK_LOSS_MAX] = {
	[DISK_LOSS_RING_FULL] = "disk_ends_untold",
	[DISK_LOSS_SYNCS_FULL] = "disk_syncs_without_room",
	[DISK_LOSS_SYNCS_MISSED] = "disk_syncs_missed",
};

static const struct loss_info loss_items[] = {
	/* What the task did since the last interval. */
	{"disk_ends_untold", LOSS_LOST, LOSS_OF_NOTHING},
	{"disk_syncs_without_room", LOSS_LOST, LOSS_OF_NOTHING},
	{"disk_syncs_missed", LOSS_LOST, LOSS_OF_NOTHING},
	/* A walk of the tasks failed; the sums are in the next one. */
	{"disk_walks_failed", LOSS_LATE, LOSS_OF_NOTHING},
};

const struct loss_table disk_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items), NULL};

struct disk_source {
	struct source base;
	struct disk_options options;
	size_t thin_top; /* in the place of options.top; 0: none */
	struct loop *loop;
	struct target_set *targets;
	struct disk_kernel *kernel;
	struct disk_ledger *ledger;
	struct disk_rows *rows;
	struct disk_uids *uids;
	int uids_err; /* of its last reading, or of its opening */
	bool watches_ring;
	uint64_t losses[DISK_LOSS_MAX];
};

static struct disk_source *disk_source(struct source *source)
{
	return (struct disk_source *)source;
}

static int take_line(void *ctx, const struct disk_line *line)
{
	return disk_ledger_take(((struct disk_source *)ctx)->ledger, line);
}

static int take_syncs(void *ctx, const struct disk_process *process, const struct disk_syncs *syncs)
{
	return disk_rows_take_syncs(((struct disk_source *)ctx)->rows, process, syncs, false);
}

static int take_first_syncs(void *ctx, const struct disk_process *process,
			    const struct disk_syncs *syncs)
{
	return disk_rows_take_syncs(((struct disk_source *)ctx)->rows, process, syncs, true);
}

static int on_ring_half_full(void *ctx, uint32_t events)
{
	struct disk_source *disk = ctx;

	return disk_kernel_ends(disk->kernel, take_line, disk);
}

static int take_baseline(struct disk_source *disk)
{
	int err = disk_kernel_tasks(disk->kernel, take_line, disk);

	disk_ledger_begin(disk->ledger, clock_now_ns(CLOCK_BOOTTIME));
	return err ? err : disk_kernel_syncs(disk->kernel, take_first_syncs, disk);
}

static int disk_open(struct source *source, const struct source_context *context)
{
	struct disk_source *disk = disk_source(source);
	int err;

	disk->loop = context->loop;
	disk->targets = context->targets;
	disk->kernel = disk_kernel_open(
		&(struct disk_kernel_options){
			.btf_path = disk->options.btf_path,
			.ring_bytes = disk->options.ring_bytes,
			.syncs = disk->options.tracepoints ? DISK_SYNCS_BY_TRACEPOINT
							   : DISK_SYNCS_AUTO,
		},
		source->reason, sizeof(source->reason));
	if (!disk->kernel)
		return -errno;
	disk->ledger = disk_ledger_new();
	disk->rows = disk_rows_new();
	err = disk->ledger && disk->rows ? take_baseline(disk) : -ENOMEM;
	if (err) {
		snprintf(source->reason, sizeof(source->reason), "disk: %s", strerror(-err));
		return err;
	}
	if (disk->loop) {
		int fd = disk_kernel_ends_fd(disk->kernel);

		err = loop_add_fd(disk->loop, fd, EPOLLIN, on_ring_half_full, disk);
		disk->watches_ring = !err;
		if (!err)
			err = loop_urgent_fd(disk->loop, fd);
		if (err)
			return err;
	}
	disk->uids = disk_uids_new(disk->options.uid_io);
	disk->uids_err = disk->uids ? 0 : -errno;
	source->variant = disk_kernel_variant(disk->kernel);
	return 0;
}

/* It called none for long: the kernel side may forget it where it is no more. */
static bool is_gone(const struct disk_process *process)
{
	int dir = proc_open("", (pid_t)process->pid);
	struct proc_stat stat;
	bool gone;

	if (dir < 0)
		return dir == -ENOENT || dir == -ESRCH;
	gone = !proc_stat(dir, &stat) && stat.start_ticks != process->start_boot_ns / PROC_TICK_NS;
	close(dir);
	return gone;
}

/* At most one a reading: there is time. */
static void forget_one(struct disk_source *disk)
{
	const struct disk_process *idle;

	for (size_t n = 0; (idle = disk_rows_idle(disk->rows, n)); n++) {
		struct disk_process process = *idle;

		if (!is_gone(&process))
			continue;
		disk_kernel_forget(disk->kernel, &process);
		disk_rows_forget(disk->rows, &process);
		return;
	}
}

static int read_syncs(struct disk_source *disk, struct record_interval *interval)
{
	const char *why = disk_kernel_no_syncs(disk->kernel);
	int err;

	if (why)
		return missing_list_set(&interval->missing, "disk.processes.fsync", why);
	err = disk_kernel_syncs(disk->kernel, take_syncs, disk);
	if (err == -ENOMEM)
		return err;
	return err ? missing_list_set(&interval->missing, "disk.processes.fsync", strerror(-err))
		   : 0;
}

static const char *explain_uids(int err)
{
	switch (err) {
	case -ENOENT:
		return "no /proc/uid_io/stats: needs Android's CONFIG_UID_SYS_STATS";
	case -EXDEV:
		return "another file system's file stands in its place";
	case -EBADMSG:
		return "the kernel's text makes no sense";
	case -EFBIG:
		return "its text is longer than 1 MiB, or of more than 8192 uids";
	}
	return strerror(-err);
}

static int read_uids(struct disk_source *disk, struct record_interval *interval)
{
	if (disk->uids)
		disk->uids_err =
			disk_uids_read(disk->uids, disk->targets, clock_now_ns(CLOCK_MONOTONIC),
				       interval->final || interval->baseline, &interval->disk);
	if (disk->uids_err == -ENOMEM)
		return -ENOMEM;
	return disk->uids_err ? missing_list_set(&interval->missing, "disk.uids",
						 explain_uids(disk->uids_err))
			      : 0;
}

static void add_losses(struct disk_source *disk, struct counter_list *lost)
{
	uint64_t now[DISK_LOSS_MAX];

	if (disk_kernel_losses(disk->kernel, now))
		return;
	for (int i = 0; i < DISK_LOSS_MAX; i++) {
		counter_list_add(lost, loss_names[i], now[i] - disk->losses[i]);
		disk->losses[i] = now[i];
	}
}

static int disk_sample(struct source *source, struct record_interval *interval)
{
	struct disk_source *disk = disk_source(source);
	int err;

	/* The rows of the interval before are told by now. */
	disk_ledger_turn(disk->ledger);
	/* Ends first: a task that the walk does not meet has told of its end before. */
	err = disk_kernel_ends(disk->kernel, take_line, disk);
	if (!err)
		err = disk_kernel_tasks(disk->kernel, take_line, disk);
	if (err && err != -ENOMEM) {
		counter_list_add(&interval->lost, "disk_walks_failed", 1);
		err = 0;
	}
	if (!err)
		err = disk_kernel_ends(disk->kernel, take_line, disk);
	if (!err)
		err = read_syncs(disk, interval);
	if (!err)
		err = disk_rows_fill(disk->rows, disk->ledger, disk->targets,
				     disk->thin_top ?: disk->options.top, &interval->disk);
	if (disk_kernel_no_syncs(disk->kernel))
		interval->disk.has_targets_sync = false;
	if (!err)
		err = read_uids(disk, interval);
	if (err)
		return err;
	interval->disk.present = true;
	add_losses(disk, &interval->lost);
	forget_one(disk);
	return 0;
}

static void disk_thin(struct source *source, unsigned steps)
{
	disk_source(source)->thin_top = steps & THIN_TASKS ? THIN_LISTED_TASKS : 0;
}

static void disk_close(struct source *source)
{
	struct disk_source *disk = disk_source(source);

	if (disk->watches_ring)
		loop_remove_fd(disk->loop, disk_kernel_ends_fd(disk->kernel));
	disk_kernel_close(disk->kernel);
	disk_ledger_free(disk->ledger);
	disk_rows_free(disk->rows);
	disk_uids_free(disk->uids);
	free(disk);
}

static const struct source_ops ops = {
	.name = "disk",
	.losses = &disk_losses,
	.open = disk_open,
	.sample = disk_sample,
	.thin = disk_thin,
	.close = disk_close,
};

struct source *disk_source_new(const struct disk_options *options)
{
	struct disk_source *disk = calloc(1, sizeof(*disk));

	if (!disk)
		return NULL;
	disk->base.ops = &ops;
	disk->base.rights = RIGHT_MAPS;
	disk->options = *options;
	return &disk->base;
}
