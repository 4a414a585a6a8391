/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/looper_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "looper.skel.h"

/* 89ae89f53d20 (6.6); newer than the headers of this libbpf */
#define ATTACH_UPROBE_MULTI 48
#define TORN_TRIES          64

struct looper_kernel {
	struct sched_kernel *sched;
	struct sched_kernel_loopers maps;
	struct looper_bpf *skeleton;
	bool multi, syscalls;
	struct looper_slot *slots;
	struct looper_registers *stash;
	struct ring_buffer *ring;
	struct bpf_link *links[3];
	size_t link_count;
	looper_event_fn callback;
	void *callback_ctx;
};

struct looper_probes {
	int fds[2]; /* uprobe_multi links; -1: none */
	struct bpf_link *links[2 * WAIT_STUB_MAX];
	size_t link_count;
};

/* The part of union bpf_attr that BPF_LINK_CREATE reads for uprobe_multi. */
struct uprobe_multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, padding;
};

static int create_multi(int prog_fd, const char *path, const uint64_t *offsets, size_t count,
			pid_t pid)
{
	struct uprobe_multi_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (uint64_t)(uintptr_t)path,
		.offsets = (uint64_t)(uintptr_t)offsets,
		.count = (uint32_t)count,
		.pid = (uint32_t)pid,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* 89ae89f53d20 in one look, without a whole object that does not load: a kernel that knows the link
 * refuses a folder as a file; others refuse the attach type. */
static bool has_multi(void)
{
	static const struct bpf_insn empty[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
	uint64_t offset = 0;
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", empty, 2, &options), fd;

	if (program < 0)
		return false;
	fd = create_multi(program, "/", &offset, 1, 0);
	close(program);
	if (fd >= 0)
		close(fd);
	return fd == -EBADF;
}

static int load(struct looper_kernel *kernel, int detector, const char *btf_path)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = btf_path);
	bool direct = kernel->maps.variant == VARIANT_TP_BTF;
	struct looper_bpf *skeleton = looper_bpf__open_opts(&options);
	int err;

	kernel->skeleton = skeleton;
	if (!skeleton)
		return -errno;
	bpf_map__set_max_entries(skeleton->maps.cpus, sched_kernel_cpu_count(kernel->sched));
	err = bpf_map__reuse_fd(skeleton->maps.looper_slots, kernel->maps.slots_fd);
	if (!err)
		err = bpf_map__reuse_fd(skeleton->maps.looper_stash, kernel->maps.stash_fd);
	if (!err)
		err = bpf_map__reuse_fd(skeleton->maps.looper_watched, kernel->maps.watched_fd);
	if (!err)
		err = bpf_map__reuse_fd(skeleton->maps.looper_events, kernel->maps.events_fd);
	if (!err)
		err = bpf_map__reuse_fd(skeleton->maps.looper_losses, kernel->maps.losses_fd);
	if (!err)
		err = bpf_map__reuse_fd(skeleton->maps.cpus, kernel->maps.cpus_fd);
	if (err)
		return err;
	bpf_program__set_autoload(direct ? skeleton->progs.looper_waking_btf
					 : skeleton->progs.looper_waking_raw,
				  true);
	bpf_program__set_autoload(direct ? skeleton->progs.looper_wakeup_btf
					 : skeleton->progs.looper_wakeup_raw,
				  true);
	if (!detector || detector == LOOPER_BY_SYSCALL)
		bpf_program__set_autoload(direct ? skeleton->progs.looper_sys_enter_btf
						 : skeleton->progs.looper_sys_enter_raw,
					  true);
	if (!detector || detector == LOOPER_BY_UPROBE) {
		bpf_program__set_autoload(skeleton->progs.looper_enter, true);
		bpf_program__set_autoload(skeleton->progs.looper_leave, true);
	}
	if (kernel->multi) {
		bpf_program__set_expected_attach_type(skeleton->progs.looper_enter,
						      (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(skeleton->progs.looper_leave,
						      (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
	}
	return looper_bpf__load(skeleton);
}

static int keep_link(struct looper_kernel *kernel, struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach(program);

	if (!link)
		return -errno;
	kernel->links[kernel->link_count++] = link;
	return 0;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct looper_kernel *kernel = ctx;

	if (size < sizeof(struct looper_event) || !kernel->callback)
		return 0;
	return kernel->callback(kernel->callback_ctx, data, size);
}

static int map_all(struct looper_kernel *kernel)
{
	void *memory = mmap(NULL, LOOPER_MAX_WATCHED * sizeof(*kernel->slots),
			    PROT_READ | PROT_WRITE, MAP_SHARED, kernel->maps.slots_fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	kernel->slots = memory;
	memory = mmap(NULL, LOOPER_MAX_WATCHED * sizeof(*kernel->stash), PROT_READ | PROT_WRITE,
		      MAP_SHARED, kernel->maps.stash_fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	kernel->stash = memory;
	kernel->ring = ring_buffer__new(kernel->maps.events_fd, on_event, kernel, NULL);
	return kernel->ring ? 0 : -errno;
}

struct looper_kernel *looper_kernel_open(struct sched_kernel *sched,
					 const struct looper_kernel_options *options, char *reason,
					 size_t size)
{
	enum looper_detector detector = options->detector;
	struct looper_kernel *kernel = calloc(1, sizeof(*kernel));
	int err;

	if (!kernel) {
		errno = ENOMEM;
		return NULL;
	}
	kernel->sched = sched;
	kernel_log_clear();
	err = sched_kernel_loopers(sched, &kernel->maps);
	if (!err) {
		kernel->multi = (!detector || detector == LOOPER_BY_UPROBE) &&
				!options->test_one_by_one && has_multi();
		err = load(kernel, detector, options->btf_path);
	}
	if (!err)
		err = map_all(kernel);
	if (!err && detector == LOOPER_BY_SYSCALL)
		err = looper_kernel_hook_syscalls(kernel);
	malloc_trim(0);
	if (!err)
		return kernel;
	kernel_explain(err, "block detection", reason, size);
	looper_kernel_close(kernel);
	errno = -err;
	return NULL;
}

void looper_kernel_close(struct looper_kernel *kernel)
{
	if (!kernel)
		return;
	/* The programs go before the memory that they write; the switch program is not ours. */
	for (size_t i = 0; i < kernel->link_count; i++)
		bpf_link__destroy(kernel->links[i]);
	ring_buffer__free(kernel->ring);
	if (kernel->slots)
		munmap(kernel->slots, LOOPER_MAX_WATCHED * sizeof(*kernel->slots));
	if (kernel->stash)
		munmap(kernel->stash, LOOPER_MAX_WATCHED * sizeof(*kernel->stash));
	looper_bpf__destroy(kernel->skeleton);
	free(kernel);
}

int looper_kernel_hook_syscalls(struct looper_kernel *kernel)
{
	int err;

	if (kernel->syscalls)
		return 0;
	err = keep_link(kernel, kernel->maps.variant == VARIANT_TP_BTF
					? kernel->skeleton->progs.looper_sys_enter_btf
					: kernel->skeleton->progs.looper_sys_enter_raw);
	kernel->syscalls = !err;
	return err;
}

int looper_kernel_hook_wakeups(struct looper_kernel *kernel)
{
	bool direct = kernel->maps.variant == VARIANT_TP_BTF;
	int err = keep_link(kernel, direct ? kernel->skeleton->progs.looper_waking_btf
					   : kernel->skeleton->progs.looper_waking_raw);

	return err ? err
		   : keep_link(kernel, direct ? kernel->skeleton->progs.looper_wakeup_btf
					      : kernel->skeleton->progs.looper_wakeup_raw);
}

static int attach_one_by_one(struct looper_probes *probes, struct bpf_program *program, pid_t pid,
			     const char *path, const uint64_t *offsets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bpf_link *link =
			bpf_program__attach_uprobe(program, false, pid, path, offsets[i]);

		if (!link)
			return -errno;
		probes->links[probes->link_count++] = link;
	}
	return 0;
}

struct looper_probes *looper_kernel_probe(struct looper_kernel *kernel, pid_t pid,
					  const struct wait_stub *stub)
{
	struct looper_probes *probes = calloc(1, sizeof(*probes));
	struct bpf_program *enter = kernel->skeleton->progs.looper_enter;
	struct bpf_program *leave = kernel->skeleton->progs.looper_leave;
	int err = 0;

	if (!probes)
		return NULL;
	probes->fds[0] = probes->fds[1] = -1;
	if (kernel->multi) {
		/* leave first: an enter without its leave would last for ever */
		probes->fds[0] = create_multi(bpf_program__fd(leave), stub->path, stub->leave,
					      stub->leave_count, pid);
		if (probes->fds[0] < 0)
			err = probes->fds[0];
		else
			probes->fds[1] = create_multi(bpf_program__fd(enter), stub->path,
						      stub->enter, stub->enter_count, pid);
		if (!err && probes->fds[1] < 0)
			err = probes->fds[1];
	} else {
		err = attach_one_by_one(probes, leave, pid, stub->path, stub->leave,
					stub->leave_count);
		if (!err)
			err = attach_one_by_one(probes, enter, pid, stub->path, stub->enter,
						stub->enter_count);
	}
	if (!err)
		return probes;
	looper_probes_free(probes);
	errno = -err;
	return NULL;
}

void looper_probes_free(struct looper_probes *probes)
{
	if (!probes)
		return;
	for (int i = 0; i < 2; i++)
		if (probes->fds[i] >= 0)
			close(probes->fds[i]);
	for (size_t i = 0; i < probes->link_count; i++)
		bpf_link__destroy(probes->links[i]);
	free(probes);
}

const char *looper_kernel_probe_name(const struct looper_kernel *kernel)
{
	return kernel->multi ? "uprobe_multi" : "uprobe";
}

int looper_kernel_watch(struct looper_kernel *kernel, uint32_t index, pid_t tid)
{
	uint32_t key = (uint32_t)tid;

	if (bpf_map_update_elem(kernel->maps.watched_fd, &key, &index, BPF_ANY))
		return -errno;
	looper_kernel_mark(kernel, index, tid);
	return 0;
}

void looper_kernel_mark(struct looper_kernel *kernel, uint32_t index, pid_t tid)
{
	sched_kernel_mark(kernel->sched, tid, index + 1);
}

void looper_kernel_unwatch(struct looper_kernel *kernel, uint32_t index, pid_t tid)
{
	uint32_t key = (uint32_t)tid;

	sched_kernel_mark(kernel->sched, tid, 0);
	bpf_map_delete_elem(kernel->maps.watched_fd, &key);
}

struct looper_slot *looper_kernel_slot(const struct looper_kernel *kernel, uint32_t index)
{
	return &kernel->slots[index];
}

bool looper_kernel_read(const struct looper_kernel *kernel, uint32_t index, struct looper_slot *to)
{
	const struct looper_slot *from = &kernel->slots[index];

	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t ended = __atomic_load_n(&from->ended, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->begun, __ATOMIC_ACQUIRE) == ended && to->ended == ended)
			return true;
	}
	return false;
}

bool looper_kernel_is_frozen(const struct looper_kernel *kernel, uint32_t index)
{
	uint64_t context = index;
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &context, .ctx_size_in = sizeof(context));

	return !bpf_prog_test_run_opts(kernel->maps.is_frozen_fd, &run) && run.retval == 1;
}

struct looper_registers *looper_kernel_stash(const struct looper_kernel *kernel, uint32_t index)
{
	return &kernel->stash[index];
}

int looper_kernel_events(struct looper_kernel *kernel, looper_event_fn callback, void *ctx)
{
	int n;

	kernel->callback = callback;
	kernel->callback_ctx = ctx;
	n = ring_buffer__consume(kernel->ring);
	return n < 0 ? n : 0;
}

int looper_kernel_events_fd(const struct looper_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->ring);
}

int looper_kernel_losses(const struct looper_kernel *kernel, uint64_t losses[LOOPER_LOSS_MAX])
{
	unsigned cpus = (unsigned)libbpf_num_possible_cpus();
	uint64_t *values = calloc(cpus, sizeof(*values));

	if (!values)
		return -ENOMEM;
	for (uint32_t reason = 0; reason < LOOPER_LOSS_MAX; reason++) {
		losses[reason] = 0;
		if (bpf_map_lookup_elem(kernel->maps.losses_fd, &reason, values))
			continue;
		for (unsigned cpu = 0; cpu < cpus; cpu++)
			losses[reason] += values[cpu];
	}
	free(values);
	return 0;
}
