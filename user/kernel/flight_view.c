/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's maps for another process, which only reads them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/flight_private.h"
#include "kernel/sched_kernel.h"

static void *map_memory(int fd, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct flight_kernel *flight_kernel_view(int threads_fd, int entries_fd, bool plain)
{
	struct flight_kernel *kernel = calloc(1, sizeof(*kernel));
	int err;

	if (!kernel) {
		errno = ENOMEM;
		return NULL;
	}
	kernel->plain = plain;
	kernel->threads = map_memory(threads_fd, FLIGHT_THREADS_BYTES);
	if (kernel->threads)
		kernel->entries = map_memory(entries_fd, FLIGHT_ENTRIES_BYTES);
	if (kernel->threads && kernel->entries)
		return kernel;
	err = errno;
	flight_kernel_close(kernel);
	errno = err;
	return NULL;
}

int flight_kernel_fds(const struct flight_kernel *kernel, struct flight_fds *fds)
{
	struct sched_kernel_flight maps;
	int err = sched_kernel_flight(kernel->sched, &maps);

	if (!err)
		*fds = (struct flight_fds){maps.threads_fd, maps.entries_fd, kernel->plain};
	return err;
}

bool flight_kernel_peek(const struct flight_kernel *kernel, uint32_t index,
			struct flight_thread *to)
{
	const struct flight_thread *from = &kernel->threads[index];
	uint32_t ended = __atomic_load_n(&from->ended, __ATOMIC_ACQUIRE);

	memcpy(to, from, sizeof(*to));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->begun, __ATOMIC_ACQUIRE) == ended && to->ended == ended;
}

bool flight_kernel_sleeps(const struct flight_kernel *kernel, uint32_t index, uint64_t off_ns)
{
	const struct flight_thread *thread = &kernel->threads[index];

	return __atomic_load_n(&thread->state, __ATOMIC_ACQUIRE) == FLIGHT_OFF &&
	       __atomic_load_n(&thread->off_ns, __ATOMIC_ACQUIRE) == off_ns &&
	       !__atomic_load_n(&thread->woken_ns, __ATOMIC_ACQUIRE);
}
