/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/looper_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/atomics.h"
#include "kernel/looper_private.h"
#include "kernel/percpu.h"
#include "kernel/types.h"

static int reuse_maps(struct looper_bpf *skeleton, const struct sched_kernel_loopers *maps)
{
	const struct {
		struct bpf_map *map;
		int fd;
	} same[] = {
		{skeleton->maps.looper_slots, maps->slots_fd},
		{skeleton->maps.looper_stash, maps->stash_fd},
		{skeleton->maps.looper_watched, maps->watched_fd},
		{skeleton->maps.looper_events, maps->events_fd},
		{skeleton->maps.looper_wakes, maps->wakes_fd},
		{skeleton->maps.looper_losses, maps->losses_fd},
		{skeleton->maps.cpus, maps->cpus_fd},
		{skeleton->maps.flight_threads, maps->flight_threads_fd},
		{skeleton->maps.flight_watched, maps->flight_watched_fd},
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same) && !err; i++)
		err = bpf_map__reuse_fd(same[i].map, same[i].fd);
	return err;
}

static int load(struct looper_kernel *kernel, int detector, const struct kernel_types *types)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types->path);
	bool direct = kernel->maps.variant == VARIANT_TP_BTF;
	struct looper_bpf *skeleton = looper_bpf__open_opts(&options);
	int err;

	kernel->skeleton = skeleton;
	if (!skeleton)
		return -errno;
	bpf_map__set_max_entries(skeleton->maps.cpus, sched_kernel_cpu_count(kernel->sched));
	err = reuse_maps(skeleton, &kernel->maps);
	if (!err && !kernel->fetch)
		err = kernel_make_atomics_plain(skeleton->obj);
	if (err)
		return err;
	skeleton->rodata->registers_offset = kernel->maps.registers_offset;
#ifdef __x86_64__
	skeleton->rodata->preempt_count_place = types->preempt_count;
	skeleton->rodata->preempt_count_distance = types->preempt_count_distance;
#endif
	bpf_program__set_autoload(direct ? skeleton->progs.looper_waking_btf
					 : skeleton->progs.looper_waking_raw,
				  true);
	bpf_program__set_autoload(direct ? skeleton->progs.looper_wakeup_btf
					 : skeleton->progs.looper_wakeup_raw,
				  true);
	bpf_program__set_autoload(
		direct ? skeleton->progs.looper_exec_btf : skeleton->progs.looper_exec_raw, true);
	if (!detector || detector == LOOPER_BY_SYSCALL)
		bpf_program__set_autoload(direct ? skeleton->progs.looper_sys_enter_btf
						 : skeleton->progs.looper_sys_enter_raw,
					  true);
	/* Iterators walk typed pointers, as the tp_btf programs do. */
	kernel->iterator = direct;
	bpf_program__set_autoload(skeleton->progs.looper_task_registers, direct);
	bpf_program__set_autoload(skeleton->progs.looper_mm_locks, direct);
	for (enum looper_probe i = 0; i < LOOPER_PROBES; i++) {
		struct bpf_program *program = looper_probe_program(skeleton, i);

		bpf_program__set_autoload(program, !detector || detector == LOOPER_BY_UPROBE);
		if (kernel->multi)
			bpf_program__set_expected_attach_type(
				program, (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
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

/* Who ended the sleeps of a period is told before the period: its record is made then. */
static int on_period_event(void *ctx, void *data, size_t size)
{
	const struct looper_event *event = data;
	struct looper_kernel *kernel = ctx;
	int n;

	if (size >= sizeof(*event) && event->type == LOOPER_EVENT_PERIOD) {
		n = ring_buffer__consume(kernel->wakers);
		if (n < 0)
			return n;
	}
	return on_event(ctx, data, size);
}

static int map_all(struct looper_kernel *kernel)
{
	int err = looper_view_open(&kernel->view, kernel->maps.slots_fd, kernel->maps.stash_fd,
				   !kernel->fetch);

	if (err)
		return err;
	kernel->events = ring_buffer__new(kernel->maps.events_fd, on_period_event, kernel, NULL);
	if (!kernel->events)
		return -errno;
	kernel->wakers = ring_buffer__new(bpf_map__fd(kernel->skeleton->maps.looper_wakers),
					  on_event, kernel, NULL);
	if (!kernel->wakers)
		return -errno;
	/* Mapped here too, where no other process consumes it. */
	kernel->wakes = ring_buffer__new(kernel->maps.wakes_fd, on_event, kernel, NULL);
	return kernel->wakes ? 0 : -errno;
}

struct looper_kernel *looper_kernel_open(struct sched_kernel *sched,
					 const struct looper_kernel_options *options, char *reason,
					 size_t size)
{
	enum looper_detector detector = options->detector;
	struct kernel_types types;
	const void *object;
	size_t object_bytes;
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
		kernel->fetch = !options->test_plain_atomics && kernel_has_fetch();
		kernel->multi = (!detector || detector == LOOPER_BY_UPROBE) &&
				!options->test_one_by_one && looper_has_multi();
		object = looper_bpf__elf_bytes(&object_bytes);
		kernel_types_open(&types, options->btf_path, object, object_bytes);
		bpf_object_release(object);
		err = load(kernel, detector, &types);
		kernel_types_close(&types);
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
	ring_buffer__free(kernel->events);
	ring_buffer__free(kernel->wakers);
	ring_buffer__free(kernel->wakes);
	looper_view_close(&kernel->view);
	looper_bpf__destroy(kernel->skeleton);
	free(kernel);
}

uint32_t looper_kernel_count(const struct looper_kernel *kernel)
{
	return kernel->view.count;
}

bool looper_kernel_has_fetch(const struct looper_kernel *kernel)
{
	return kernel->fetch;
}

static int loaded_fd(const struct bpf_program *program)
{
	int fd = bpf_program__fd(program);

	return fd < 0 ? -1 : fd;
}

struct looper_fds looper_kernel_fds(const struct looper_kernel *kernel)
{
	struct looper_fds fds = {
		.slots = kernel->maps.slots_fd,
		.stash = kernel->maps.stash_fd,
		.wakes = kernel->maps.wakes_fd,
		.is_frozen = kernel->maps.is_frozen_fd,
		.registers = -1,
		.wanted = -1,
		.mm_locks = -1,
		.multi = kernel->multi,
	};

	if (kernel->iterator) {
		fds.registers = loaded_fd(kernel->skeleton->progs.looper_task_registers);
		fds.wanted = bpf_map__fd(kernel->skeleton->maps.looper_wanted);
		fds.mm_locks = loaded_fd(kernel->skeleton->progs.looper_mm_locks);
	}
	for (enum looper_probe i = 0; i < LOOPER_PROBES; i++)
		fds.programs[i] = loaded_fd(looper_probe_program(kernel->skeleton, i));
	return fds;
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
	const struct looper_bpf *skeleton = kernel->skeleton;
	bool direct = kernel->maps.variant == VARIANT_TP_BTF;
	struct bpf_program *const programs[] = {
		direct ? skeleton->progs.looper_waking_btf : skeleton->progs.looper_waking_raw,
		direct ? skeleton->progs.looper_wakeup_btf : skeleton->progs.looper_wakeup_raw,
		direct ? skeleton->progs.looper_exec_btf : skeleton->progs.looper_exec_raw,
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs) && !err; i++)
		err = keep_link(kernel, programs[i]);
	return err;
}

int looper_kernel_set_own(struct looper_kernel *kernel, const pid_t *tgids, size_t count)
{
	struct looper_own own = {0};
	uint32_t key = 0;

	for (size_t i = 0; i < count && i < LOOPER_OWN_PROCESSES; i++)
		own.tgids[i] = (uint32_t)tgids[i];
	return bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.looper_own), &key, &own,
				   BPF_ANY)
		       ? -errno
		       : 0;
}

int looper_kernel_watch(struct looper_kernel *kernel, uint32_t index,
			const struct looper_slot *slot)
{
	uint32_t key = slot->tid;

	if (index >= kernel->view.count)
		return -EINVAL;
	if (slot->tid != slot->tgid)
		__atomic_store_n(&kernel->skeleton->bss->any_thread, 1, __ATOMIC_RELEASE);
	memset(&kernel->view.stash[index], 0, sizeof(kernel->view.stash[index]));
	kernel->view.slots[index] = *slot;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (bpf_map_update_elem(kernel->maps.watched_fd, &key, &index, BPF_ANY))
		return -errno;
	looper_kernel_mark(kernel, index, (pid_t)slot->tid);
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

void looper_kernel_loop_closed(struct looper_kernel *kernel, uint32_t index)
{
	struct looper_slot *slot = &kernel->view.slots[index];

	__atomic_store_n(&slot->loop_closed,
			 __atomic_load_n(&slot->loop_changes, __ATOMIC_ACQUIRE) + 1,
			 __ATOMIC_RELEASE);
}

bool looper_kernel_correct(struct looper_kernel *kernel, uint32_t index,
			   const struct looper_slot *slot)
{
	struct looper_slot *live = &kernel->view.slots[index];
	uint32_t begun = slot->begun;

	/* From here on the switch program takes the slot for one that a program is amid, and keeps
	 * off it; a uprobe's program does not, but then the thread has moved on, and says so. */
	if (!__atomic_compare_exchange_n(&live->begun, &begun, begun + 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return false;
	memcpy((char *)live + offsetof(struct looper_slot, busy_since_ns),
	       (const char *)slot + offsetof(struct looper_slot, busy_since_ns),
	       offsetof(struct looper_slot, called) - offsetof(struct looper_slot, busy_since_ns));
	live->begin_cpu_ns = slot->begin_cpu_ns;
	live->begin_delay_ns = slot->begin_delay_ns;
	__atomic_fetch_add(&live->ended, 1, __ATOMIC_SEQ_CST);
	return true;
}

struct looper_slot *looper_kernel_slot(const struct looper_kernel *kernel, uint32_t index)
{
	return &kernel->view.slots[index];
}

struct looper_view *looper_kernel_view(struct looper_kernel *kernel)
{
	return &kernel->view;
}

bool looper_kernel_read(struct looper_kernel *kernel, uint32_t index, struct looper_slot *to)
{
	return looper_read_slot(&kernel->view, index, to);
}

uint64_t looper_kernel_resynced(const struct looper_kernel *kernel)
{
	return kernel->view.resynced;
}

bool looper_is_frozen(int is_frozen_fd, uint32_t index)
{
	uint64_t context = index;
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &context, .ctx_size_in = sizeof(context));

	return !bpf_prog_test_run_opts(is_frozen_fd, &run) && run.retval == 1;
}

bool looper_kernel_is_frozen(const struct looper_kernel *kernel, uint32_t index)
{
	return looper_is_frozen(kernel->maps.is_frozen_fd, index);
}

static int consume(struct looper_kernel *kernel, struct ring_buffer *ring, looper_event_fn callback,
		   void *ctx)
{
	int n;

	kernel->callback = callback;
	kernel->callback_ctx = ctx;
	n = ring_buffer__consume(ring);
	return n < 0 ? n : 0;
}

int looper_kernel_events(struct looper_kernel *kernel, looper_event_fn callback, void *ctx)
{
	int err = consume(kernel, kernel->wakers, callback, ctx);

	return err ? err : consume(kernel, kernel->events, callback, ctx);
}

void looper_kernel_want_waker_stacks(struct looper_kernel *kernel)
{
	kernel->skeleton->bss->waker_stacks = 1;
}

uint8_t *looper_kernel_flight_near(const struct looper_kernel *kernel)
{
	return kernel->skeleton->bss->flight_near;
}

int looper_kernel_events_fd(const struct looper_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->events);
}

int looper_kernel_wakes(struct looper_kernel *kernel, looper_event_fn callback, void *ctx)
{
	return consume(kernel, kernel->wakes, callback, ctx);
}

int looper_kernel_losses(const struct looper_kernel *kernel, uint64_t losses[LOOPER_LOSS_MAX])
{
	return percpu_sum(kernel->maps.losses_fd, LOOPER_LOSS_MAX, 1, losses);
}
