/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/disk_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.skel.h"
#include "kernel/load.h"
#include "kernel/namespaces.h"
#include "kernel/percpu.h"
#include "kernel/types.h"

#define ITERATOR_BYTES (64u << 10)
#define MAX_SYNCS      2048 /* of the map */

#ifdef __aarch64__
#define SYSCALL_PREFIX "__arm64_sys_"
#else
#define SYSCALL_PREFIX "__x64_sys_"
#endif

static const char *const sync_names[DISK_SYNC_KINDS] = {
	[DISK_FSYNC] = "fsync",
	[DISK_FDATASYNC] = "fdatasync",
	[DISK_MSYNC] = "msync",
	[DISK_SYNC_FILE_RANGE] = "sync_file_range",
};

struct disk_kernel {
	struct disk_bpf *skeleton;
	struct bpf_link *iterator, *exit, *free;
	/* by the kind of call; by the file system where there are no kprobes */
	struct bpf_link *calls[DISK_SYNC_KINDS], *returns[DISK_SYNC_KINDS];
	enum disk_syncs_by by;
	struct ring_buffer *ring;
	disk_line_fn callback; /* of the reading of the ring that goes on */
	void *ctx;
	char no_syncs[160];
	struct disk_process processes[MAX_SYNCS];
	struct disk_syncs syncs[MAX_SYNCS];
	struct disk_line lines[ITERATOR_BYTES / sizeof(struct disk_line)];
};

static int on_end(void *ctx, void *data, size_t size)
{
	struct disk_kernel *kernel = ctx;
	struct disk_line line;

	if (size < sizeof(line) || !kernel->callback)
		return 0;
	memcpy(&line, data, sizeof(line));
	return kernel->callback(kernel->ctx, &line);
}

static void configure(struct disk_kernel *kernel, uint32_t ring_bytes)
{
	const struct disk_bpf *skeleton = kernel->skeleton;
	struct bpf_program *const always[] = {
		skeleton->progs.disk_iterate,
		skeleton->progs.disk_exit,
		skeleton->progs.disk_free,
	};
	struct bpf_program *const probes[] = {
		skeleton->progs.disk_fsync,        skeleton->progs.disk_fdatasync,
		skeleton->progs.disk_msync,        skeleton->progs.disk_sync_file_range,
		skeleton->progs.disk_sync_returns,
	};
	struct bpf_program *const tracepoints[] = {
		skeleton->progs.disk_ext4_begins,
		skeleton->progs.disk_ext4_ends,
		skeleton->progs.disk_f2fs_begins,
		skeleton->progs.disk_f2fs_ends,
	};

	for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
		bpf_program__set_autoload(always[i], true);
	for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++)
		bpf_program__set_autoload(probes[i], kernel->by == DISK_SYNCS_BY_KPROBE);
	for (size_t i = 0; i < sizeof(tracepoints) / sizeof(*tracepoints); i++)
		bpf_program__set_autoload(tracepoints[i], kernel->by == DISK_SYNCS_BY_TRACEPOINT);
	if (ring_bytes) {
		bpf_map__set_max_entries(skeleton->maps.disk_ends, ring_bytes);
		skeleton->rodata->ring_wakeup_bytes = ring_bytes / 2;
	}
}

static void release(struct disk_kernel *kernel)
{
	for (size_t i = 0; i < DISK_SYNC_KINDS; i++) {
		bpf_link__destroy(kernel->calls[i]);
		bpf_link__destroy(kernel->returns[i]);
		kernel->calls[i] = kernel->returns[i] = NULL;
	}
	bpf_link__destroy(kernel->iterator);
	bpf_link__destroy(kernel->exit);
	bpf_link__destroy(kernel->free);
	kernel->iterator = kernel->exit = kernel->free = NULL;
	ring_buffer__free(kernel->ring);
	kernel->ring = NULL;
	disk_bpf__destroy(kernel->skeleton);
	kernel->skeleton = NULL;
}

/* A call that fails passes the probes like any other. */
static bool probes_run(const struct disk_kernel *kernel)
{
	uint32_t before = __atomic_load_n(&kernel->skeleton->bss->sync_runs, __ATOMIC_RELAXED);

	(void)!fsync(-1);
	return __atomic_load_n(&kernel->skeleton->bss->sync_runs, __ATOMIC_RELAXED) != before;
}

/* Where a return is not seen a call must not be either. */
static int attach_syncs(struct disk_kernel *kernel)
{
	const struct disk_bpf *skeleton = kernel->skeleton;
	struct bpf_program *const programs[DISK_SYNC_KINDS] = {
		[DISK_FSYNC] = skeleton->progs.disk_fsync,
		[DISK_FDATASYNC] = skeleton->progs.disk_fdatasync,
		[DISK_MSYNC] = skeleton->progs.disk_msync,
		[DISK_SYNC_FILE_RANGE] = skeleton->progs.disk_sync_file_range,
	};
	char symbol[64];

	for (size_t i = 0; i < DISK_SYNC_KINDS; i++) {
		snprintf(symbol, sizeof(symbol), SYSCALL_PREFIX "%s", sync_names[i]);
		kernel->returns[i] =
			bpf_program__attach_kprobe(skeleton->progs.disk_sync_returns, true, symbol);
		if (!kernel->returns[i])
			return -errno;
		kernel->calls[i] = bpf_program__attach_kprobe(programs[i], false, symbol);
		if (!kernel->calls[i])
			return -errno;
	}
	return probes_run(kernel) ? 0 : -ENODATA;
}

/* A kernel has the tracepoints of the file systems that it has; the returns are hooked first. 0, or
 * -ENOENT for none of them. */
static int attach_file_systems(struct disk_kernel *kernel)
{
	const struct disk_bpf *skeleton = kernel->skeleton;
	struct bpf_program *const begins[] = {skeleton->progs.disk_ext4_begins,
					      skeleton->progs.disk_f2fs_begins};
	struct bpf_program *const ends[] = {skeleton->progs.disk_ext4_ends,
					    skeleton->progs.disk_f2fs_ends};
	int err = -ENOENT;

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
		kernel->returns[i] = bpf_program__attach(ends[i]);
		kernel->calls[i] = kernel->returns[i] ? bpf_program__attach(begins[i]) : NULL;
		if (kernel->calls[i])
			err = 0;
	}
	return err;
}

static int attach(struct disk_kernel *kernel)
{
	const struct disk_bpf *skeleton = kernel->skeleton;

	kernel->ring =
		ring_buffer__new(bpf_map__fd(skeleton->maps.disk_ends), on_end, kernel, NULL);
	if (!kernel->ring)
		return -errno;
	/* The last reading of a task is told behind the one at its exit: so is it hooked. */
	kernel->exit = bpf_program__attach(skeleton->progs.disk_exit);
	if (!kernel->exit)
		return -errno;
	kernel->free = bpf_program__attach(skeleton->progs.disk_free);
	if (!kernel->free)
		return -errno;
	kernel->iterator = bpf_program__attach_iter(skeleton->progs.disk_iterate, NULL);
	if (!kernel->iterator)
		return -errno;
	return kernel->by == DISK_SYNCS_BY_KPROBE       ? attach_syncs(kernel)
	       : kernel->by == DISK_SYNCS_BY_TRACEPOINT ? attach_file_systems(kernel)
							: 0;
}

static int open_with(struct disk_kernel *kernel, const struct kernel_types *types,
		     uint32_t ring_bytes, enum disk_syncs_by by)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types->path);
	int err;

	kernel->skeleton = disk_bpf__open_opts(&options);
	if (!kernel->skeleton)
		return -errno;
	kernel->by = by;
	configure(kernel, ring_bytes);
	err = disk_bpf__load(kernel->skeleton);
	return err ? err : attach(kernel);
}

static int count_line(void *ctx, const struct disk_line *line)
{
	++*(size_t *)ctx;
	return 0;
}

/* This process has read files by now, so a kernel that accounts has a line of it. */
static bool accounts(struct disk_kernel *kernel)
{
	size_t lines = 0;

	return !disk_kernel_tasks(kernel, count_line, &lines) && lines;
}

/* Load it with the best way to see fsync that works. */
static int open_best(struct disk_kernel *kernel, const struct kernel_types *types,
		     uint32_t ring_bytes, enum disk_syncs_by first)
{
	bool kprobes = !access("/sys/bus/event_source/devices/kprobe/type", R_OK);
	int err = -ENODATA;

	if (kprobes && first <= DISK_SYNCS_BY_KPROBE)
		err = open_with(kernel, types, ring_bytes, DISK_SYNCS_BY_KPROBE);
	if (err && first <= DISK_SYNCS_BY_TRACEPOINT) {
		release(kernel);
		kernel_log_clear();
		err = open_with(kernel, types, ring_bytes, DISK_SYNCS_BY_TRACEPOINT);
	}
	if (!err)
		return 0;
	release(kernel);
	kernel_log_clear();
	snprintf(kernel->no_syncs, sizeof(kernel->no_syncs),
		 "no kprobes (%s), and no ext4 or f2fs with tracepoints",
		 kprobes ? "they do not run" : "CONFIG_KPROBES");
	return open_with(kernel, types, ring_bytes, DISK_SYNCS_NOT);
}

struct disk_kernel *disk_kernel_open(const struct disk_kernel_options *options, char *reason,
				     size_t size)
{
	struct disk_kernel *kernel = calloc(1, sizeof(*kernel));
	size_t object_bytes;
	const void *object;
	struct kernel_types types;
	int err;

	if (!kernel || namespaces_check(reason, size)) {
		err = kernel ? -ENOTSUP : -ENOMEM;
		free(kernel);
		errno = -err;
		return NULL;
	}
	object = disk_bpf__elf_bytes(&object_bytes);
	kernel_types_open(&types, options->btf_path, object, object_bytes);
	bpf_object_release(object);
	kernel_log_clear();
	err = open_best(kernel, &types, options->ring_bytes, options->syncs);
	kernel_types_close(&types);
	malloc_trim(0);
	if (!err && accounts(kernel))
		return kernel;
	if (err)
		kernel_explain(err, "disk", reason, size);
	else
		snprintf(reason, size,
			 "disk: this kernel accounts no bytes of tasks: needs "
			 "CONFIG_TASK_IO_ACCOUNTING");
	disk_kernel_close(kernel);
	errno = err ? -err : ENOTSUP;
	return NULL;
}

void disk_kernel_close(struct disk_kernel *kernel)
{
	if (!kernel)
		return;
	release(kernel);
	free(kernel);
}

int disk_kernel_ends(struct disk_kernel *kernel, disk_line_fn callback, void *ctx)
{
	int n;

	kernel->callback = callback;
	kernel->ctx = ctx;
	n = ring_buffer__consume(kernel->ring);
	return n < 0 ? n : 0;
}

int disk_kernel_ends_fd(const struct disk_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->ring);
}

int disk_kernel_tasks(struct disk_kernel *kernel, disk_line_fn callback, void *ctx)
{
	size_t have = 0, whole;
	int fd = bpf_iter_create(bpf_link__fd(kernel->iterator)), err = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	while (!err) {
		got = read(fd, (char *)kernel->lines + have, sizeof(kernel->lines) - have);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got <= 0) {
			err = got < 0 ? -errno : 0;
			break;
		}
		have += (size_t)got;
		whole = have / sizeof(*kernel->lines);
		for (size_t i = 0; i < whole && !err; i++)
			err = callback(ctx, &kernel->lines[i]);
		have -= whole * sizeof(*kernel->lines);
		memmove(kernel->lines, kernel->lines + whole, have);
	}
	close(fd);
	return err;
}

const char *disk_kernel_variant(const struct disk_kernel *kernel)
{
	return kernel->by == DISK_SYNCS_BY_KPROBE       ? "iter/kprobe"
	       : kernel->by == DISK_SYNCS_BY_TRACEPOINT ? "iter/sync_file"
							: "iter";
}

const char *disk_kernel_no_syncs(const struct disk_kernel *kernel)
{
	return kernel->no_syncs[0] ? kernel->no_syncs : NULL;
}

int disk_kernel_syncs(struct disk_kernel *kernel, disk_syncs_fn callback, void *ctx)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.disk_syncs), more = 0, err = 0;
	uint32_t batch, count;
	void *in = NULL;

	while (!more && !err) {
		count = MAX_SYNCS;
		more = bpf_map_lookup_batch(fd, in, &batch, kernel->processes, kernel->syncs,
					    &count, NULL);
		if (more && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < count && !err; i++)
			err = callback(ctx, &kernel->processes[i], &kernel->syncs[i]);
		in = &batch;
	}
	return err;
}

void disk_kernel_forget(struct disk_kernel *kernel, const struct disk_process *process)
{
	bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.disk_syncs), process);
}

int disk_kernel_losses(const struct disk_kernel *kernel, uint64_t losses[DISK_LOSS_MAX])
{
	return percpu_sum(bpf_map__fd(kernel->skeleton->maps.disk_losses), DISK_LOSS_MAX, 1,
			  losses);
}
