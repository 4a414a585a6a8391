/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/sched_kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/looper.h"
#include "kernel/atomics.h"
#include "kernel/namespaces.h"
#include "kernel/sched_private.h"
#include "kernel/types.h"
#include "proc/read.h"

/* Above this pid_max an array of 128-byte slots would cost more memory than a hash of those that
 * live; 16 MiB. */
#define ARRAY_MAX_TIDS 131072
#define HASH_SLOTS     65536
/* For tids above the array, when pid_max was raised meanwhile. */
#define SPARE_SLOTS 2048
/* RCU frees the dead in bursts of thousands; the TASK_DEAD switch tells one at a time. */
#define DEATH_RING (1u << 20)
#define FREED_RING (1u << 22)

static uint32_t read_pid_max(void)
{
	char text[24];
	unsigned value = 0;

	if (proc_read(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)) > 0)
		value = (unsigned)strtoul(text, NULL, 10);
	return value ? value : 4 << 20;
}

static int on_death(void *ctx, void *data, size_t size)
{
	struct sched_kernel *kernel = ctx;
	union {
		struct task_death death;
		struct task_program program;
	} note;

	if (size < sizeof(note.death) || !kernel->death_callback)
		return 0;
	memcpy(&note, data, size < sizeof(note) ? size : sizeof(note));
	if (note.death.kind == TASK_NOTE_PROGRAM && size < sizeof(note))
		return 0;
	return kernel->death_callback(kernel->death_ctx, &note.death);
}

/* The end of a block, and of the sleep before it; each with the header of a ring's record. */
#define EVENT_BYTES_EACH \
	((uint32_t)(sizeof(struct looper_period_event) + sizeof(struct looper_spell_event) + 16))

static void size_watched(struct sched_bpf *skeleton, uint32_t count)
{
	uint32_t ring_bytes = bpf_map__max_entries(skeleton->maps.looper_events);

	if (!count)
		count = LOOPER_DEFAULT_WATCHED;
	if (count > LOOPER_MAX_WATCHED)
		count = LOOPER_MAX_WATCHED;
	bpf_map__set_max_entries(skeleton->maps.looper_slots, count);
	bpf_map__set_max_entries(skeleton->maps.looper_stash, count);
	bpf_map__set_max_entries(skeleton->maps.looper_watched, count);
	/* All of them may end a block while the loop rests for 40 ms. */
	while (ring_bytes < count * EVENT_BYTES_EACH)
		ring_bytes *= 2;
	bpf_map__set_max_entries(skeleton->maps.looper_events, ring_bytes);
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
	skeleton->bss->births_from_boot_ns = UINT64_MAX;
	kernel->program = variant;
	kernel->hash = pid_max > ARRAY_MAX_TIDS || options->test_hash;
	kernel->slot_count = kernel->hash               ? 0
			     : options->test_task_slots ? options->test_task_slots
							: pid_max + 1;
	kernel->hash_count = options->test_hash_slots ? options->test_hash_slots
			     : kernel->hash           ? HASH_SLOTS
						      : SPARE_SLOTS;
	if (options->mode == CPU_MODE_ITER)
		kernel->slot_count = kernel->hash_count = 1;
	skeleton->rodata->array_slots = (uint32_t)kernel->slot_count;
	skeleton->rodata->has_prev_state = tracepoint_arguments(btf, "sched_switch") >= 4;
	skeleton->rodata->cpu_count = kernel->cpu_count;
	skeleton->rodata->death_wakeup_bytes = ring_bytes / 2;
	kernel->loopers = options->loopers && options->mode == CPU_MODE_SWITCH;
	skeleton->rodata->watch_loopers = kernel->loopers;
	if (!kernel->loopers) {
		bpf_map__set_max_entries(skeleton->maps.looper_events,
					 (uint32_t)sysconf(_SC_PAGESIZE));
		bpf_map__set_max_entries(skeleton->maps.looper_wakes,
					 (uint32_t)sysconf(_SC_PAGESIZE));
	}
	size_watched(skeleton, !kernel->loopers ? 1 : options->max_watched);
	bpf_program__set_autoload(skeleton->progs.looper_calibrate, kernel->loopers);
	bpf_program__set_autoload(skeleton->progs.looper_is_frozen, kernel->loopers);
	sched_flight_configure(kernel, options->flight);
	bpf_map__set_max_entries(skeleton->maps.tasks,
				 kernel->hash ? 1 : (uint32_t)kernel->slot_count);
	bpf_map__set_max_entries(skeleton->maps.tasks_hash, (uint32_t)kernel->hash_count);
	bpf_map__set_max_entries(skeleton->maps.cpus, kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.running, kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.fast_cpus, direct ? 1 : kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.cpu_states, kernel->cpu_count);
	bpf_map__set_max_entries(skeleton->maps.cpu_readings, kernel->cpu_count);
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
	bpf_program__set_autoload(skeleton->progs.sched_read_clock, true);
	bpf_program__set_autoload(skeleton->progs.sched_read_running, true);
	bpf_program__set_autoload(skeleton->progs.sched_read_tasks, kernel->slot_count > 1);
	kernel->iterating = options->mode == CPU_MODE_ITER;
	sched_uids_configure(kernel, options, btf, direct);
	bpf_program__set_autoload(skeleton->progs.sched_exit, kernel->iterating);
	sched_cpus_configure(kernel, btf);
	sched_time_configure(kernel,
			     options->mode == CPU_MODE_SWITCH ? options->time_layout : NULL);
	kernel->names = options->names;
	sched_names_configure(kernel);
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
	kernel->cpu_states =
		map_memory(skeleton->maps.cpu_states, kernel->cpu_count * sizeof(struct cpu_state));
	kernel->cpu_readings = map_memory(skeleton->maps.cpu_readings,
					  kernel->cpu_count * sizeof(struct cpu_reading));
	if (!kernel->cpus || !kernel->running || !kernel->cpu_states || !kernel->cpu_readings)
		return -errno;
	sched_kernel_spread_epoch(kernel);
	if (!kernel->hash) {
		kernel->slots = map_memory(skeleton->maps.tasks,
					   kernel->slot_count * sizeof(*kernel->slots));
		kernel->asked =
			map_memory(skeleton->maps.asked, SCHED_ASKED * sizeof(*kernel->asked));
		if (!kernel->slots || !kernel->asked)
			return -errno;
		kernel->asked_slots = calloc(SCHED_ASKED, sizeof(*kernel->asked_slots));
		if (!kernel->asked_slots)
			return -ENOMEM;
	}
	kernel->batch_keys = calloc(kernel->hash_count, sizeof(*kernel->batch_keys));
	kernel->batch_slots = calloc(kernel->hash_count, sizeof(*kernel->batch_slots));
	return kernel->batch_keys && kernel->batch_slots ? 0 : -ENOMEM;
}

static int attach(struct sched_kernel *kernel, const struct sched_kernel_options *options)
{
	if (kernel->loopers) {
		/* Where the kernel has the helper instead, this finds nothing that is used. */
		LIBBPF_OPTS(bpf_test_run_opts, run);

		bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.looper_calibrate),
				       &run);
	}
	int err;

	err = sched_time_attach(kernel,
				options->mode == CPU_MODE_SWITCH ? options->time_layout : NULL);
	if (err)
		return err;
	if (kernel->switch_program) {
		kernel->switch_link = bpf_program__attach(kernel->switch_program);
		kernel->rename_link = bpf_program__attach(kernel->rename_program);
		if (!kernel->switch_link || !kernel->rename_link)
			return -errno;
	}
	if (kernel->free_program) {
		kernel->free_link = bpf_program__attach(kernel->free_program);
		if (!kernel->free_link)
			return -errno;
		kernel->fork_link = bpf_program__attach(kernel->skeleton->progs.sched_fork_btf);
		if (!kernel->fork_link)
			return -errno;
	}
	if (kernel->iterating) {
		kernel->exit_link = bpf_program__attach(kernel->skeleton->progs.sched_exit);
		if (!kernel->exit_link)
			return -errno;
	}
	err = sched_uids_attach(kernel);
	if (err)
		return err;
	err = sched_cpus_attach(kernel);
	if (err)
		return err;
	kernel->exec_link = bpf_program__attach(kernel->exec_program);
	if (!kernel->exec_link)
		return -errno;
	err = sched_names_attach(kernel);
	if (err)
		return err;
	if (kernel->iterator) {
		kernel->iterator_link =
			bpf_program__attach_iter(kernel->skeleton->progs.sched_iterate, NULL);
		if (!kernel->iterator_link)
			return -errno;
	}
	return 0;
}

static int open_variant(struct sched_kernel *kernel, const struct sched_kernel_options *options,
			enum program_variant variant, const char *btf_path, const struct btf *btf)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf_path);
	int err;

	kernel->skeleton = sched_bpf__open_opts(&open_options);
	if (!kernel->skeleton)
		return -errno;
	configure(kernel, options, variant, btf);
	kernel->fetch = !options->test_plain_atomics && kernel_has_fetch();
	err = kernel->fetch ? 0 : kernel_make_atomics_plain(kernel->skeleton->obj);
	if (err)
		return err;
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
	bpf_link__destroy(kernel->exit_link);
	bpf_link__destroy(kernel->uid_link);
	bpf_link__destroy(kernel->cpu_enter_link);
	bpf_link__destroy(kernel->cpu_exit_link);
	sched_names_release(kernel);
	sched_time_release(kernel);
	ring_buffer__free(kernel->ring);
	if (kernel->slots)
		munmap(kernel->slots, kernel->slot_count * sizeof(*kernel->slots));
	if (kernel->asked)
		munmap(kernel->asked, SCHED_ASKED * sizeof(*kernel->asked));
	if (kernel->cpus)
		munmap(kernel->cpus, cpu_count * sizeof(*kernel->cpus));
	if (kernel->running)
		munmap(kernel->running, cpu_count * sizeof(*kernel->running));
	if (kernel->cpu_states)
		munmap(kernel->cpu_states, cpu_count * sizeof(*kernel->cpu_states));
	if (kernel->cpu_readings)
		munmap(kernel->cpu_readings, cpu_count * sizeof(*kernel->cpu_readings));
	free(kernel->asked_slots);
	free(kernel->batch_keys);
	free(kernel->batch_slots);
	sched_bpf__destroy(kernel->skeleton);
	*kernel = (struct sched_kernel){.cpu_count = cpu_count};
}

unsigned sched_kernel_possible_cpus(void)
{
	int cpus = libbpf_num_possible_cpus();

	return cpus <= 0 ? 0 : cpus > SCHED_MAX_CPUS ? SCHED_MAX_CPUS : (unsigned)cpus;
}

struct sched_kernel *sched_kernel_open(const struct sched_kernel_options *options, char *reason,
				       size_t size)
{
	static const enum program_variant order[] = {VARIANT_TP_BTF, VARIANT_RAW_TP};
	struct sched_kernel *kernel = calloc(1, sizeof(*kernel));
	struct kernel_types types;
	const void *object;
	size_t object_bytes;
	struct btf *btf;
	unsigned cpus = sched_kernel_possible_cpus();
	int err = -ENOTSUP;

	if (!kernel || !cpus) {
		free(kernel);
		errno = ENOMEM;
		return NULL;
	}
	if (namespaces_check(reason, size)) {
		free(kernel);
		errno = ENOTSUP;
		return NULL;
	}
	kernel->cpu_count = cpus;
	if (options->mode == CPU_MODE_ITER && options->variant == VARIANT_RAW_TP) {
		snprintf(reason, size,
			 "--cpu iter: the task iterator is not there for --variant raw_tp; "
			 "use --cpu switch");
		free(kernel);
		errno = ENOTSUP;
		return NULL;
	}
	object = sched_bpf__elf_bytes(&object_bytes);
	kernel_types_open(&types, options->btf_path, object, object_bytes);
	bpf_object_release(object);
	btf = types.path ? btf__parse(types.path, NULL) : btf__load_vmlinux_btf();
	if (types.path && !btf) {
		snprintf(reason, size, "--btf %s: not a BTF file: %s", types.path, strerror(errno));
		kernel_types_close(&types);
		free(kernel);
		return NULL;
	}
	kernel_log_clear();
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		if (options->variant != VARIANT_AUTO && options->variant != order[i])
			continue;
		/* The iterator walks typed pointers: only kernels with BTF have it. */
		if (options->mode == CPU_MODE_ITER && order[i] == VARIANT_RAW_TP)
			continue;
		err = open_variant(kernel, options, order[i], types.path, btf);
		if (err && kernel->has_kprobe) {
			/* The kprobe is what failed, perhaps. */
			struct sched_kernel_options without = *options;

			without.no_kprobe = true;
			release(kernel);
			err = open_variant(kernel, &without, order[i], types.path, btf);
		}
		if (!err)
			break;
		release(kernel);
		if (err == -EPERM)
			break;
	}
	btf__free(btf);
	kernel_types_close(&types);
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

	if ((size_t)tid < kernel->slot_count)
		return true;
	if (!bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.tasks_hash), &key, &slot))
		return true;
	/* Not switched out since the attach, unless the hash has ever been full. */
	return !sched_kernel_losses(kernel, losses, &unused, &unused) &&
	       !losses[SCHED_LOSS_TASK_MAP_FULL];
}

bool sched_kernel_sees_uids(const struct sched_kernel *kernel)
{
	return kernel->uid_link;
}

bool sched_kernel_times_irqs(const struct sched_kernel *kernel)
{
	return kernel->skeleton->bss->times_irqs;
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
		.wakes_fd = bpf_map__fd(skeleton->maps.looper_wakes),
		.losses_fd = bpf_map__fd(skeleton->maps.looper_losses),
		.cpus_fd = bpf_map__fd(skeleton->maps.cpus),
		.is_frozen_fd = bpf_program__fd(skeleton->progs.looper_is_frozen),
		.flight_threads_fd = bpf_map__fd(skeleton->maps.flight_threads),
		.flight_watched_fd = bpf_map__fd(skeleton->maps.flight_watched),
		.variant = kernel->program,
		.registers_offset = skeleton->bss->pt_regs_offset,
	};
	return 0;
}
