/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/sched_time.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/flight.h"
#include "kernel/sched_private.h"

#define TORN_TRIES  64
#define MAX_WATCHED 1024 /* processes */

static size_t row_bytes(const struct sched_kernel *kernel)
{
	return sizeof(struct task_time) + kernel->time_words * sizeof(uint64_t);
}

static struct task_time *row_at(const struct sched_kernel *kernel, uint32_t index)
{
	return (struct task_time *)((char *)kernel->times + index * row_bytes(kernel));
}

/* The first CPU with this base stands for its cluster. */
static bool is_first(const struct sched_time_layout *layout, unsigned cpu)
{
	if (layout->base[cpu] == TIME_NO_STEPS)
		return false;
	for (unsigned i = 0; i < cpu; i++)
		if (layout->base[i] == layout->base[cpu])
			return false;
	return true;
}

/* The flight recorder keeps the changes of each cluster, and is configured by now. */
static void size_changes(struct sched_kernel *kernel, const struct sched_time_layout *layout)
{
	uint32_t clusters = 0;

	for (unsigned cpu = 0; cpu < layout->cpu_count && cpu < kernel->cpu_count; cpu++)
		clusters += is_first(layout, cpu);
	kernel->change_count = kernel->flight ? clusters * FLIGHT_CHANGES : 0;
	if (kernel->change_count)
		bpf_map__set_max_entries(kernel->skeleton->maps.flight_changes,
					 kernel->change_count);
}

void sched_time_configure(struct sched_kernel *kernel, const struct sched_time_layout *layout)
{
	struct sched_bpf *skeleton = kernel->skeleton;
	uint32_t words = layout ? layout->words : 1;

	kernel->time_words = words;
	skeleton->rodata->split_time = layout;
	skeleton->rodata->time_words = words;
	bpf_map__set_value_size(skeleton->maps.task_times, (uint32_t)row_bytes(kernel));
	bpf_program__set_autoload(skeleton->progs.sched_frequency, layout && layout->step_count);
	if (!layout)
		return;
	bpf_map__set_max_entries(skeleton->maps.task_times, TIME_ROWS);
	bpf_map__set_max_entries(skeleton->maps.time_claims, TIME_ROWS);
	bpf_map__set_max_entries(skeleton->maps.time_watched, MAX_WATCHED);
	bpf_map__set_max_entries(skeleton->maps.cpu_frequencies, kernel->cpu_count);
	if (layout->step_count)
		size_changes(kernel, layout);
	if (layout->step_count)
		bpf_map__set_max_entries(skeleton->maps.frequency_steps,
					 (uint32_t)layout->step_count);
}

static void *map_memory(const struct bpf_map *map, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int sched_time_attach(struct sched_kernel *kernel, const struct sched_time_layout *layout)
{
	const struct sched_bpf *skeleton = kernel->skeleton;
	/* An array's values lie 8 bytes aligned, one behind the other. */
	size_t bytes = TIME_ROWS * row_bytes(kernel);
	uint32_t logs = 0;

	if (!layout)
		return 0;
	kernel->times = map_memory(skeleton->maps.task_times, bytes);
	kernel->frequencies = map_memory(skeleton->maps.cpu_frequencies,
					 kernel->cpu_count * sizeof(*kernel->frequencies));
	if (!kernel->times || !kernel->frequencies)
		return -errno;
	for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++) {
		kernel->frequencies[cpu].base =
			cpu < layout->cpu_count ? layout->base[cpu] : TIME_NO_STEPS;
		kernel->frequencies[cpu].slice = 1;
		if (kernel->change_count && cpu < layout->cpu_count && is_first(layout, cpu))
			kernel->frequencies[cpu].log = ++logs;
	}
	for (size_t i = 0; i < layout->step_count; i++)
		if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.frequency_steps),
					&layout->steps[i].key, &layout->steps[i].step, BPF_ANY))
			return -errno;
	if (!layout->step_count)
		return 0;
	kernel->frequency_link = bpf_program__attach(skeleton->progs.sched_frequency);
	/* A frequency whose changes nobody tells is not known; the rest does not need it. */
	for (unsigned cpu = 0; !kernel->frequency_link && cpu < kernel->cpu_count; cpu++)
		kernel->frequencies[cpu].base = TIME_NO_STEPS;
	return 0;
}

void sched_time_release(struct sched_kernel *kernel)
{
	bpf_link__destroy(kernel->frequency_link);
	if (kernel->times)
		munmap(kernel->times, TIME_ROWS * row_bytes(kernel));
	if (kernel->frequencies)
		munmap(kernel->frequencies, kernel->cpu_count * sizeof(*kernel->frequencies));
}

bool sched_kernel_splits_time(const struct sched_kernel *kernel)
{
	return kernel->times;
}

static void filter_add(struct sched_kernel *kernel, pid_t pid, uint32_t by)
{
	uint32_t *filter = kernel->skeleton->bss->time_filter;
	size_t size = sizeof(kernel->skeleton->bss->time_filter) / sizeof(*filter);

	__atomic_fetch_add(&filter[(uint32_t)pid & (size - 1)], by, __ATOMIC_RELAXED);
}

int sched_kernel_time_watch(struct sched_kernel *kernel, pid_t pid)
{
	uint32_t key = (uint32_t)pid, one = 1;

	if (bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.time_watched), &key, &one,
				BPF_NOEXIST))
		return errno == EEXIST ? 0 : -errno;
	filter_add(kernel, pid, 1);
	return 0;
}

void sched_kernel_time_unwatch(struct sched_kernel *kernel, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	if (!bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.time_watched), &key))
		filter_add(kernel, pid, (uint32_t)-1);
}

void sched_kernel_time_begin_step(struct sched_kernel *kernel, unsigned cpu, uint32_t step,
				  uint32_t khz)
{
	uint32_t unknown = 0;

	if (kernel->frequencies && cpu < kernel->cpu_count &&
	    __atomic_compare_exchange_n(&kernel->frequencies[cpu].step, &unknown, step, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_store_n(&kernel->frequencies[cpu].begin_khz, khz, __ATOMIC_RELAXED);
}

static uint64_t sum_of_cpus(const struct sched_kernel *kernel, const uint64_t *words)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++)
		sum += words[cpu];
	return sum;
}

bool sched_kernel_time_read(struct sched_kernel *kernel, uint32_t index, uint64_t *buffer,
			    struct sched_time *out)
{
	const struct task_time *row = row_at(kernel, index);
	uint32_t tid = __atomic_load_n(&row->tid, __ATOMIC_ACQUIRE);
	struct task_time head;

	for (int tries = 0; tid && tries < TORN_TRIES; tries++) {
		head = *(const volatile struct task_time *)row;
		memcpy(buffer, row->words, kernel->time_words * sizeof(*buffer));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&row->until_ns, __ATOMIC_RELAXED) != head.until_ns ||
		    __atomic_load_n(&row->place, __ATOMIC_RELAXED) != head.place ||
		    head.tid != tid ||
		    sum_of_cpus(kernel, buffer) + head.unseen_ns != head.until_ns - head.begin_ns)
			continue;
		*out = (struct sched_time){
			.tid = (pid_t)tid,
			.start_boot_ns = head.start_boot_ns,
			.until_ns = head.until_ns,
			.unseen_ns = head.unseen_ns,
			.read_ns = head.read_ns,
			.left_ns = head.left_ns,
			.place = head.place,
			.dead = head.dead,
			.words = buffer,
		};
		return true;
	}
	return false;
}

bool sched_kernel_time_is_used(const struct sched_kernel *kernel, uint32_t index)
{
	return __atomic_load_n(&row_at(kernel, index)->tid, __ATOMIC_RELAXED);
}

void sched_kernel_time_free(struct sched_kernel *kernel, uint32_t index)
{
	struct task_time *row = row_at(kernel, index);

	__atomic_store_n(&row->tid, 0, __ATOMIC_RELEASE);
	row->start_boot_ns = row->begin_ns = row->until_ns = row->unseen_ns = row->read_ns = 0;
	row->dead = row->place = 0;
	memset(row->words, 0, kernel->time_words * sizeof(uint64_t));
	/* A system call, behind all that was written: only now another task may take it. */
	bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.time_claims), &index);
}

/* As split_slice of the kernel side. */
void sched_kernel_time_parts(const struct sched_kernel *kernel, unsigned cpu, uint64_t slice_ns,
			     uint64_t now_ns, uint64_t parts[TIME_MAX_STEPS])
{
	const struct cpu_frequency *frequency = &kernel->frequencies[cpu];
	struct cpu_frequency copy = *(const volatile struct cpu_frequency *)frequency;
	uint64_t part_ns;

	if (copy.base == TIME_NO_STEPS || copy.step >= TIME_MAX_STEPS ||
	    copy.first >= TIME_MAX_STEPS)
		return;
	if (copy.slice != __atomic_load_n(&kernel->cpus[cpu].sequence, __ATOMIC_ACQUIRE)) {
		parts[copy.step] += slice_ns;
		return;
	}
	part_ns = now_ns > copy.changed_ns ? now_ns - copy.changed_ns : 0;
	part_ns = part_ns < slice_ns ? part_ns : slice_ns;
	parts[copy.step] += part_ns;
	slice_ns -= part_ns;
	for (size_t i = 0; i < TIME_MAX_STEPS; i++) {
		part_ns = copy.step_ns[i] < slice_ns ? copy.step_ns[i] : slice_ns;
		parts[i] += part_ns;
		slice_ns -= part_ns;
	}
	parts[copy.first] += slice_ns;
}

uint64_t sched_kernel_time_unlisted(const struct sched_kernel *kernel)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; kernel->frequencies && cpu < kernel->cpu_count; cpu++)
		sum += __atomic_load_n(&kernel->frequencies[cpu].unlisted, __ATOMIC_RELAXED);
	return sum;
}

int sched_kernel_time_program(const struct sched_kernel *kernel)
{
	return kernel->frequency_link ? bpf_program__fd(kernel->skeleton->progs.sched_frequency)
				      : -1;
}
