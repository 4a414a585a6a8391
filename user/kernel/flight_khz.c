/* SPDX-License-Identifier: BSD-2-Clause */
/* At which frequency a CPU ran when: by the changes that the program on cpu_frequency keeps of each
 * cluster, so that a switch has nothing to do with it. */
#include "kernel/flight_private.h"

#include "kernel/sched_kernel.h"

/* The CPU that stands for the cluster: the first one of it. NULL: nothing is told of it. */
static const struct cpu_frequency *cluster_of(const struct flight_kernel *kernel, unsigned cpu)
{
	const struct cpu_frequency *all = kernel->frequencies;

	if (!all || cpu >= kernel->cpu_count || all[cpu].base == TIME_NO_STEPS)
		return NULL;
	for (unsigned i = 0; i < kernel->cpu_count; i++)
		if (all[i].base == all[cpu].base)
			return all[i].log ? &all[i] : NULL;
	return NULL;
}

/* The change at this position; false: it was written over, or is being written. */
static bool read_change(const struct flight_kernel *kernel, const struct cpu_frequency *cluster,
			uint64_t position, struct flight_change *to)
{
	const struct flight_change *from = &kernel->changes[(cluster->log - 1) * FLIGHT_CHANGES +
							    (position & (FLIGHT_CHANGES - 1))];
	uint32_t wanted = 2 * (uint32_t)(position / FLIGHT_CHANGES + 1);

	if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != wanted)
		return false;
	*to = *from;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) == wanted;
}

uint32_t flight_kernel_khz(const struct flight_kernel *kernel, unsigned cpu, uint64_t at_ns,
			   uint64_t *until_ns)
{
	const struct cpu_frequency *cluster = cluster_of(kernel, cpu);
	uint64_t low = 0, high, last;
	struct flight_change change;
	uint32_t khz;

	*until_ns = UINT64_MAX;
	if (!cluster)
		return 0;
	high = last = __atomic_load_n(&cluster->changes, __ATOMIC_ACQUIRE);
	if (last > FLIGHT_CHANGES)
		low = last - FLIGHT_CHANGES;
	/* What was before the oldest is known where no other ever was. */
	khz = low ? 0 : __atomic_load_n(&cluster->begin_khz, __ATOMIC_RELAXED);
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (!read_change(kernel, cluster, middle, &change)) {
			/* All up to here is gone. */
			khz = 0;
			low = middle + 1;
		} else if (change.since_ns <= at_ns) {
			khz = change.khz;
			low = middle + 1;
		} else {
			*until_ns = change.since_ns;
			high = middle;
		}
	}
	return khz;
}
