/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/sched_kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernel/namespaces.h"
#include "sched.skel.h"
#include "util/clock.h"

/* Above this pid_max an array of 128-byte slots would cost more memory than a hash of those that
 * live; 16 MiB. */
#define ARRAY_MAX_TIDS 131072
#define HASH_SLOTS     65536
/* RCU frees the dead in bursts of thousands; the TASK_DEAD switch tells one at a time. */
#define DEATH_RING      (1u << 20)
#define FREED_RING      (1u << 22)
#define TORN_TRIES      64
#define ITERATOR_BUFFER (64 * 1024)
#define GROUP_TIDS      (1u << SCHED_GROUP_SHIFT)

struct sched_kernel {
	struct sched_bpf *skeleton;
	struct bpf_link *switch_link, *free_link, *fork_link, *rename_link, *exec_link,
		*iterator_link;
	struct ring_buffer *ring;
	bool hash, iterator, loopers;
	enum program_variant program;
	size_t slot_count;
	struct task_slot *slots; /* mapped; NULL with the hash */
	struct cpu_slot *cpus;
	struct running_task *running;
	unsigned cpu_count;
	struct bpf_program *switch_program, *rename_program, *free_program, *exec_program;
	task_death_fn death_callback;
	void *death_ctx;
	uint64_t torn_reads;
	/* keys and values of a batch look-up; hash only */
	uint32_t *batch_keys;
	struct task_slot *batch_slots;
	char variant[32];
};

static uint32_t read_pid_max(void)
{
	FILE *file = fopen("/proc/sys/kernel/pid_max", "re");
	unsigned value = 0;

	if (!file)
		return 4 << 20;
	if (fscanf(file, "%u", &value) != 1 || !value)
		value = 4 << 20;
	fclose(file);
	return value;
}

static int on_death(void *ctx, void *data, size_t size)
{
	struct sched_kernel *kernel = ctx;
	struct task_death death;

	if (size < sizeof(death) || !kernel->death_callback)
		return 0;
	memcpy(&death, data, sizeof(death));
	return kernel->death_callback(kernel->death_ctx, &death);
}

static void configure(struct sched_kernel *kernel, const struct sched_kernel_options *options,
		      enum program_variant variant, const struct btf *btf)
{
	struct sched_bpf *skeleton = kernel->skeleton;
	uint32_t pid_max = read_pid_max();
	uint32_t ring_bytes = options->test_death_ring_bytes   ? options->test_death_ring_bytes
			      : options->mode == CPU_MODE_ITER ? FREED_RING
							       : DEATH_RING;
	bool direct = variant == VARIANT_TP_BTF;

	/* No group is marked with the first epochs. */
	skeleton->bss->read_epoch = 8;
	kernel->program = variant;
	kernel->hash = pid_max > ARRAY_MAX_TIDS || options->test_hash;
	kernel->slot_count = options->test_task_slots ? options->test_task_slots
			     : kernel->hash           ? HASH_SLOTS
						      : pid_max + 1;
	if (options->mode == CPU_MODE_ITER)
		kernel->slot_count = 1;
	skeleton->rodata->use_hash = kernel->hash;
	skeleton->rodata->has_prev_state = tracepoint_arguments(btf, "sched_switch") >= 4;
	skeleton->rodata->cpu_count = kernel->cpu_count;
	skeleton->rodata->death_wakeup_bytes = ring_bytes / 2;
	skeleton->rodata->test_skip_every = options->test_skip_every;
	kernel->loopers = options->loopers && options->mode == CPU_MODE_SWITCH;
	skeleton->rodata->watch_loopers = kernel->loopers;
	if (!kernel->loopers) {
		bpf_map__set_max_entries(skeleton->maps.looper_slots, 1);
		bpf_map__set_max_entries(skeleton->maps.looper_stash, 1);
		bpf_map__set_max_entries(skeleton->maps.looper_watched, 1);
		bpf_map__set_max_entries(skeleton->maps.looper_events,
					 (uint32_t)sysconf(_SC_PAGESIZE));
	}
	bpf_program__set_autoload(skeleton->progs.looper_calibrate, kernel->loopers);
	bpf_program__set_autoload(skeleton->progs.looper_is_frozen, kernel->loopers);
	bpf_map__set_max_entries(skeleton->maps.tasks,
				 kernel->hash ? 1 : (uint32_t)kernel->slot_count);
	bpf_map__set_max_entries(skeleton->maps.tasks_hash,
				 kernel->hash ? (uint32_t)kernel->slot_count : 1);
	bpf_map__set_max_entries(skeleton->maps.cpus, kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.running, kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.deaths, ring_bytes);
	if (options->test_overflow_uids)
		bpf_map__set_max_entries(skeleton->maps.overflow, options->test_overflow_uids);

	if (options->mode == CPU_MODE_SWITCH)
		kernel->switch_program = direct ? skeleton->progs.sched_switch_btf
						: skeleton->progs.sched_switch_raw;
	else
		kernel->free_program =
			direct ? skeleton->progs.sched_free_btf : skeleton->progs.sched_free_raw;
	if (kernel->switch_program) {
		kernel->rename_program = direct ? skeleton->progs.sched_rename_btf
						: skeleton->progs.sched_rename_raw;
		bpf_program__set_autoload(kernel->switch_program, true);
		bpf_program__set_autoload(kernel->rename_program, true);
	}
	kernel->exec_program =
		direct ? skeleton->progs.sched_exec_btf : skeleton->progs.sched_exec_raw;
	bpf_program__set_autoload(kernel->exec_program, true);
	bpf_program__set_autoload(skeleton->progs.sched_read_running, true);
	if (kernel->free_program) {
		bpf_program__set_autoload(kernel->free_program, true);
		bpf_program__set_autoload(skeleton->progs.sched_fork_btf, true);
	}
	/* raw_tp is the tier of kernels without BTF, which have no iterator either. */
	kernel->iterator = direct;
	bpf_program__set_autoload(skeleton->progs.sched_iterate, direct);
	snprintf(kernel->variant, sizeof(kernel->variant), "%s/%s/%s",
		 options->mode == CPU_MODE_ITER ? "iter" : "switch", program_variant_name(variant),
		 options->mode == CPU_MODE_ITER ? "free"
		 : kernel->hash                 ? "hash"
						: "array");
}

static void *map_memory(const struct bpf_map *map, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int map_all(struct sched_kernel *kernel)
{
	const struct sched_bpf *skeleton = kernel->skeleton;

	kernel->cpus = map_memory(skeleton->maps.cpus, kernel->cpu_count * sizeof(*kernel->cpus));
	kernel->running =
		map_memory(skeleton->maps.running, kernel->cpu_count * sizeof(*kernel->running));
	if (!kernel->cpus || !kernel->running)
		return -errno;
	if (!kernel->hash) {
		kernel->slots = map_memory(skeleton->maps.tasks,
					   kernel->slot_count * sizeof(*kernel->slots));
		return kernel->slots ? 0 : -errno;
	}
	kernel->batch_keys = calloc(kernel->slot_count, sizeof(*kernel->batch_keys));
	kernel->batch_slots = calloc(kernel->slot_count, sizeof(*kernel->batch_slots));
	return kernel->batch_keys && kernel->batch_slots ? 0 : -ENOMEM;
}

/* A CPU is known from its first switch on: visit each, so that idle ones are known at once. */
static void visit_cpus(void)
{
	cpu_set_t before, one;

	if (sched_getaffinity(0, sizeof(before), &before))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (!sched_setaffinity(0, sizeof(one), &one))
			sched_yield();
	}
	sched_setaffinity(0, sizeof(before), &before);
}

static int attach(struct sched_kernel *kernel, const struct sched_kernel_options *options)
{
	if (kernel->loopers) {
		/* Where the kernel has the helper instead, this finds nothing that is used. */
		LIBBPF_OPTS(bpf_test_run_opts, run);

		bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.looper_calibrate),
				       &run);
	}
	if (kernel->switch_program) {
		kernel->switch_link = bpf_program__attach(kernel->switch_program);
		kernel->rename_link = bpf_program__attach(kernel->rename_program);
		if (!kernel->switch_link || !kernel->rename_link)
			return -errno;
		visit_cpus();
	}
	if (kernel->free_program) {
		kernel->free_link = bpf_program__attach(kernel->free_program);
		if (!kernel->free_link)
			return -errno;
		kernel->fork_link = bpf_program__attach(kernel->skeleton->progs.sched_fork_btf);
		if (!kernel->fork_link)
			return -errno;
	}
	kernel->exec_link = bpf_program__attach(kernel->exec_program);
	if (!kernel->exec_link)
		return -errno;
	if (kernel->iterator) {
		kernel->iterator_link =
			bpf_program__attach_iter(kernel->skeleton->progs.sched_iterate, NULL);
		if (!kernel->iterator_link)
			return -errno;
	}
	return 0;
}

static int open_variant(struct sched_kernel *kernel, const struct sched_kernel_options *options,
			enum program_variant variant, const struct btf *btf)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = options->btf_path);
	int err;

	kernel->skeleton = sched_bpf__open_opts(&open_options);
	if (!kernel->skeleton)
		return -errno;
	configure(kernel, options, variant, btf);
	err = sched_bpf__load(kernel->skeleton);
	if (err)
		return err;
	err = map_all(kernel);
	if (err)
		return err;
	kernel->ring = ring_buffer__new(bpf_map__fd(kernel->skeleton->maps.deaths), on_death,
					kernel, NULL);
	if (!kernel->ring)
		return -errno;
	return attach(kernel, options);
}

/* Back to a bare kernel struct, so that the next variant can be tried. */
static void release(struct sched_kernel *kernel)
{
	unsigned cpu_count = kernel->cpu_count;

	/* The programs go first: they must not write what is being unmapped. */
	bpf_link__destroy(kernel->switch_link);
	bpf_link__destroy(kernel->rename_link);
	bpf_link__destroy(kernel->exec_link);
	bpf_link__destroy(kernel->free_link);
	bpf_link__destroy(kernel->fork_link);
	bpf_link__destroy(kernel->iterator_link);
	ring_buffer__free(kernel->ring);
	if (kernel->slots)
		munmap(kernel->slots, kernel->slot_count * sizeof(*kernel->slots));
	if (kernel->cpus)
		munmap(kernel->cpus, cpu_count * sizeof(*kernel->cpus));
	if (kernel->running)
		munmap(kernel->running, cpu_count * sizeof(*kernel->running));
	free(kernel->batch_keys);
	free(kernel->batch_slots);
	sched_bpf__destroy(kernel->skeleton);
	*kernel = (struct sched_kernel){.cpu_count = cpu_count};
}

struct sched_kernel *sched_kernel_open(const struct sched_kernel_options *options, char *reason,
				       size_t size)
{
	static const enum program_variant order[] = {VARIANT_TP_BTF, VARIANT_RAW_TP};
	struct sched_kernel *kernel = calloc(1, sizeof(*kernel));
	struct btf *btf;
	int cpus = libbpf_num_possible_cpus(), err = -ENOTSUP;

	if (!kernel || cpus <= 0) {
		free(kernel);
		errno = ENOMEM;
		return NULL;
	}
	if (namespaces_check(reason, size)) {
		free(kernel);
		errno = ENOTSUP;
		return NULL;
	}
	kernel->cpu_count = cpus > SCHED_MAX_CPUS ? SCHED_MAX_CPUS : (unsigned)cpus;
	btf = options->btf_path ? btf__parse(options->btf_path, NULL) : btf__load_vmlinux_btf();
	if (options->btf_path && !btf) {
		snprintf(reason, size, "--btf %s: not a BTF file: %s", options->btf_path,
			 strerror(errno));
		free(kernel);
		return NULL;
	}
	if (options->mode == CPU_MODE_ITER && options->variant == VARIANT_RAW_TP) {
		snprintf(reason, size,
			 "--cpu iter: the task iterator is not there for --variant raw_tp; "
			 "use --cpu switch");
		btf__free(btf);
		free(kernel);
		errno = ENOTSUP;
		return NULL;
	}
	kernel_log_clear();
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		if (options->variant != VARIANT_AUTO && options->variant != order[i])
			continue;
		/* The iterator walks typed pointers: only kernels with BTF have it. */
		if (options->mode == CPU_MODE_ITER && order[i] == VARIANT_RAW_TP)
			continue;
		err = open_variant(kernel, options, order[i], btf);
		if (!err)
			break;
		release(kernel);
		if (err == -EPERM)
			break;
	}
	btf__free(btf);
	if (err) {
		kernel_explain(err, "CPU accounting", reason, size);
		free(kernel);
		errno = -err;
		return NULL;
	}
	/* What parsing the BTF took goes back to the system. */
	malloc_trim(0);
	return kernel;
}

void sched_kernel_close(struct sched_kernel *kernel)
{
	if (!kernel)
		return;
	release(kernel);
	free(kernel);
}

const char *sched_kernel_variant(const struct sched_kernel *kernel)
{
	return kernel->variant;
}

bool sched_kernel_has_iterator(const struct sched_kernel *kernel)
{
	return kernel->iterator;
}

bool sched_kernel_has_slot(const struct sched_kernel *kernel, pid_t tid)
{
	struct task_slot slot;
	uint64_t losses[SCHED_LOSS_MAX], unused;
	uint32_t key = (uint32_t)tid;

	if (!kernel->hash)
		return (size_t)tid < kernel->slot_count;
	if (!bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.tasks_hash), &key, &slot))
		return true;
	/* Not switched out since the attach, unless the hash has ever been full. */
	return !sched_kernel_losses(kernel, losses, &unused, &unused) &&
	       !losses[SCHED_LOSS_TASK_MAP_FULL];
}

unsigned sched_kernel_cpu_count(const struct sched_kernel *kernel)
{
	return kernel->cpu_count;
}

int sched_kernel_tasks_fd(const struct sched_kernel *kernel)
{
	return bpf_map__fd(kernel->hash ? kernel->skeleton->maps.tasks_hash
					: kernel->skeleton->maps.tasks);
}

/* se.sum_exec_runtime of a task that runs is up to one tick old: add what passed since, on the
 * clock that the scheduler itself charges by (bpf-accounting.md A2). */
static void add_running_slice(struct task_line *line, int64_t rq_clock_offset_ns)
{
	uint64_t clock_task = line->rq_clock_task;
	int64_t passed_ns = (int64_t)(line->now_ns - line->rq_clock) + rq_clock_offset_ns;

	if (!line->on_cpu || !line->rq_clock)
		return;
	if (passed_ns > 0)
		clock_task += (uint64_t)passed_ns;
	if (clock_task > line->exec_start)
		line->cpu_ns += clock_task - line->exec_start;
}

int sched_kernel_iterate(struct sched_kernel *kernel, task_line_fn callback, void *ctx)
{
	struct task_line *lines;
	ssize_t got;
	size_t have = 0;
	int fd, err = 0;

	if (!kernel->iterator_link)
		return -ENOTSUP;
	lines = malloc(ITERATOR_BUFFER);
	if (!lines)
		return -ENOMEM;
	fd = bpf_iter_create(bpf_link__fd(kernel->iterator_link));
	if (fd < 0) {
		free(lines);
		return -errno;
	}
	while (!err) {
		got = read(fd, (char *)lines + have, ITERATOR_BUFFER - have);
		if (got < 0 && errno == EAGAIN)
			continue;
		if (got <= 0) {
			err = got < 0 ? -errno : 0;
			break;
		}
		have += (size_t)got;
		size_t whole = have / sizeof(*lines);

		for (size_t i = 0; i < whole && !err; i++) {
			add_running_slice(&lines[i], kernel->skeleton->bss->rq_clock_offset_ns);
			err = callback(ctx, &lines[i]);
		}
		have -= whole * sizeof(*lines);
		memmove(lines, lines + whole, have);
	}
	close(fd);
	free(lines);
	return err;
}

int sched_kernel_begin_read(struct sched_kernel *kernel, uint64_t *mono_ns)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	int err;

	kernel->skeleton->bss->read_epoch++;
	/* Makes our own run queue's clock fresh, so that the program can tell how far the
	 * scheduler's clock is from CLOCK_MONOTONIC. */
	clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	err = bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.sched_read_running),
				     &run);
	*mono_ns = err ? clock_now_ns(CLOCK_MONOTONIC) : kernel->skeleton->bss->read_mono_ns;
	return err;
}

const struct running_task *sched_kernel_running(const struct sched_kernel *kernel, unsigned cpu)
{
	return kernel->running[cpu].valid ? &kernel->running[cpu] : NULL;
}

bool sched_kernel_idle_ns(const struct sched_kernel *kernel, unsigned cpu, uint64_t *idle_ns)
{
	const volatile struct cpu_slot *slot = &kernel->cpus[cpu];
	uint64_t now_ns = kernel->skeleton->bss->read_mono_ns +
			  (uint64_t)kernel->skeleton->bss->rq_clock_offset_ns;

	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
		uint64_t since_ns = slot->since_ns;
		uint32_t tid = slot->tid;

		*idle_ns = slot->idle_ns;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((sequence & 1) || slot->sequence != sequence)
			continue;
		if (!since_ns)
			return false;
		/* A task that came unseen runs there: its end will tell how long the CPU idled. */
		if (!tid && now_ns > since_ns && !kernel->running[cpu].valid)
			*idle_ns += now_ns - since_ns;
		if (tid)
			*idle_ns += kernel->running[cpu].unseen_idle_ns;
		return true;
	}
	return true;
}

uint64_t sched_kernel_open_off_ns(const struct sched_kernel *kernel, const struct task_slot *slot)
{
	uint64_t now_ns = kernel->skeleton->bss->read_mono_ns +
			  (uint64_t)kernel->skeleton->bss->rq_clock_offset_ns;

	return slot->off_since_ns && now_ns > slot->off_since_ns ? now_ns - slot->off_since_ns : 0;
}

/* The writer may be at it: its two sequence numbers agree around a whole copy. */
static bool copy_slot(const struct task_slot *from, struct task_slot *to)
{
	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t end = __atomic_load_n(&from->sequence_end, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) == end &&
		    to->sequence_end == end)
			return true;
	}
	return false;
}

static int read_hash(struct sched_kernel *kernel, task_slot_fn callback, void *ctx)
{
	uint32_t batch;
	void *in = NULL;
	int err = 0;

	for (;;) {
		uint32_t count = (uint32_t)kernel->slot_count;
		int more =
			bpf_map_lookup_batch(sched_kernel_tasks_fd(kernel), in, &batch,
					     kernel->batch_keys, kernel->batch_slots, &count, NULL);

		if (more && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < count && !err; i++) {
			const struct task_slot *slot = &kernel->batch_slots[i];

			if (!slot->start_boot_ns)
				continue;
			/* Being written: it is left for the next read-out, as below. */
			if (slot->sequence != slot->sequence_end) {
				kernel->torn_reads++;
				continue;
			}
			err = callback(ctx, (pid_t)kernel->batch_keys[i], slot);
			/* Dead, and no room in the ring to say so: it was left for us to take. */
			if (slot->flags & TASK_SLOT_UNREPORTED)
				bpf_map_delete_elem(sched_kernel_tasks_fd(kernel),
						    &kernel->batch_keys[i]);
		}
		if (more || err)
			return err;
		in = &batch;
	}
}

static int read_group(struct sched_kernel *kernel, size_t first,
		      bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot),
		      task_slot_fn callback, void *ctx)
{
	size_t end = first + GROUP_TIDS;
	struct task_slot copy;
	int err = 0;

	if (end > kernel->slot_count)
		end = kernel->slot_count;
	for (size_t tid = first; tid < end && !err; tid++) {
		const struct task_slot *slot = &kernel->slots[tid];

		if (!slot->start_boot_ns || (skip && skip(ctx, (pid_t)tid, slot)))
			continue;
		/* A torn copy is left for the next read-out: the sums are cumulative. */
		if (!copy_slot(slot, &copy)) {
			kernel->torn_reads++;
			continue;
		}
		err = callback(ctx, (pid_t)tid, &copy);
	}
	return err;
}

int sched_kernel_slots(struct sched_kernel *kernel,
		       bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot),
		       task_slot_fn callback, void *ctx)
{
	int err = 0;

	if (!kernel->switch_program)
		return 0;
	if (kernel->hash)
		return read_hash(kernel, callback, ctx);
	for (size_t first = 0; first < kernel->slot_count && !err; first += GROUP_TIDS) {
		uint32_t mark = kernel->skeleton->bss->group_epochs[first >> SCHED_GROUP_SHIFT];

		/* Two epochs back, because a switch may carry the old one over a read-out. */
		if (kernel->skeleton->bss->read_epoch - mark <= 2)
			err = read_group(kernel, first, skip, callback, ctx);
	}
	return err;
}

int sched_kernel_deaths(struct sched_kernel *kernel, task_death_fn callback, void *ctx)
{
	int n;

	kernel->death_callback = callback;
	kernel->death_ctx = ctx;
	n = ring_buffer__consume(kernel->ring);
	return n < 0 ? n : 0;
}

int sched_kernel_deaths_fd(const struct sched_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->ring);
}

int sched_kernel_overflow(struct sched_kernel *kernel, overflow_fn callback, void *ctx)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.overflow), err = 0;
	uint64_t *values = calloc(kernel->cpu_count, sizeof(*values));
	uint32_t key, next;
	void *from = NULL;

	if (!values)
		return -ENOMEM;
	while (!err && !bpf_map_get_next_key(fd, from, &next)) {
		uint64_t sum = 0;

		key = next;
		from = &key;
		if (bpf_map_lookup_elem(fd, &key, values))
			continue;
		for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++)
			sum += values[cpu];
		err = callback(ctx, key, sum);
	}
	free(values);
	return err;
}

int sched_kernel_loopers(const struct sched_kernel *kernel, struct sched_kernel_loopers *out)
{
	const struct sched_bpf *skeleton = kernel->skeleton;

	if (!kernel->loopers)
		return -ENOTSUP;
	*out = (struct sched_kernel_loopers){
		.slots_fd = bpf_map__fd(skeleton->maps.looper_slots),
		.stash_fd = bpf_map__fd(skeleton->maps.looper_stash),
		.watched_fd = bpf_map__fd(skeleton->maps.looper_watched),
		.events_fd = bpf_map__fd(skeleton->maps.looper_events),
		.losses_fd = bpf_map__fd(skeleton->maps.looper_losses),
		.cpus_fd = bpf_map__fd(skeleton->maps.cpus),
		.is_frozen_fd = bpf_program__fd(skeleton->progs.looper_is_frozen),
		.variant = kernel->program,
	};
	return 0;
}

void sched_kernel_mark(struct sched_kernel *kernel, pid_t tid, uint32_t mark)
{
	if (!kernel->hash && (size_t)tid < kernel->slot_count)
		__atomic_store_n(&kernel->slots[tid].watch, mark, __ATOMIC_RELAXED);
}

uint64_t sched_kernel_idle_now_ns(const struct sched_kernel *kernel)
{
	uint64_t now_ns =
		clock_now_ns(CLOCK_MONOTONIC) + (uint64_t)kernel->skeleton->bss->rq_clock_offset_ns;
	uint64_t sum_ns = 0;

	for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++) {
		const volatile struct cpu_slot *slot = &kernel->cpus[cpu];
		uint64_t since_ns = slot->since_ns;

		sum_ns += slot->idle_ns;
		if (since_ns && !slot->tid && now_ns > since_ns)
			sum_ns += now_ns - since_ns;
	}
	return sum_ns;
}

static uint64_t recursion_misses(const struct bpf_program *program)
{
	struct bpf_prog_info info = {0};
	uint32_t length = sizeof(info);

	if (!program || bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &length))
		return 0;
	return info.recursion_misses;
}

int sched_kernel_losses(const struct sched_kernel *kernel, uint64_t losses[SCHED_LOSS_MAX],
			uint64_t *missed_runs, uint64_t *torn_reads)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.losses);
	uint64_t *values = calloc(kernel->cpu_count, sizeof(*values));

	if (!values)
		return -ENOMEM;
	for (uint32_t reason = 0; reason < SCHED_LOSS_MAX; reason++) {
		losses[reason] = 0;
		if (bpf_map_lookup_elem(fd, &reason, values))
			continue;
		for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++)
			losses[reason] += values[cpu];
	}
	free(values);
	*missed_runs =
		recursion_misses(kernel->switch_program) + recursion_misses(kernel->free_program);
	*torn_reads = kernel->torn_reads;
	return 0;
}
