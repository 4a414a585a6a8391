/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's maps, which live with the switch program. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "abi/flight.h"
#include "kernel/sched_private.h"

void sched_flight_configure(struct sched_kernel *kernel, bool wanted)
{
	struct sched_bpf *skeleton = kernel->skeleton;

	kernel->flight = wanted && kernel->loopers;
	skeleton->rodata->watch_flight = kernel->flight;
	if (!kernel->flight)
		return;
	bpf_map__set_max_entries(skeleton->maps.flight_threads, FLIGHT_THREADS);
	bpf_map__set_max_entries(skeleton->maps.flight_watched, FLIGHT_THREADS);
	bpf_map__set_max_entries(skeleton->maps.flight_entries,
				 FLIGHT_BLOCKS * FLIGHT_BLOCK_ENTRIES);
	bpf_map__set_max_entries(skeleton->maps.flight_turns, kernel->cpu_count * FLIGHT_TURNS);
}

int sched_kernel_flight(const struct sched_kernel *kernel, struct sched_kernel_flight *out)
{
	const struct sched_bpf *skeleton = kernel->skeleton;

	if (!kernel->flight)
		return -ENOTSUP;
	*out = (struct sched_kernel_flight){
		.threads_fd = bpf_map__fd(skeleton->maps.flight_threads),
		.watched_fd = bpf_map__fd(skeleton->maps.flight_watched),
		.entries_fd = bpf_map__fd(skeleton->maps.flight_entries),
		.cpus_fd = bpf_map__fd(skeleton->maps.cpus),
		.turns_fd = bpf_map__fd(skeleton->maps.flight_turns),
		.changes_fd = bpf_map__fd(skeleton->maps.flight_changes),
		.near = skeleton->bss->flight_near,
		.frequencies = kernel->change_count ? kernel->frequencies : NULL,
		.change_count = kernel->change_count,
	};
	return 0;
}

void sched_kernel_mark_flight(struct sched_kernel *kernel, pid_t tid, bool watched)
{
	if ((size_t)tid >= kernel->slot_count)
		return;
	if (watched)
		__atomic_fetch_or(&kernel->slots[tid].watch, FLIGHT_MARK, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&kernel->slots[tid].watch, (uint16_t)~FLIGHT_MARK,
				   __ATOMIC_RELAXED);
}

void sched_kernel_mark(struct sched_kernel *kernel, pid_t tid, uint32_t mark)
{
	uint16_t *watch, was;

	if ((size_t)tid >= kernel->slot_count)
		return;
	watch = &kernel->slots[tid].watch;
	was = __atomic_load_n(watch, __ATOMIC_RELAXED);
	__atomic_store_n(watch, (uint16_t)((was & FLIGHT_MARK) | mark), __ATOMIC_RELAXED);
}
