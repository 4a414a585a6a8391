/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/flight_private.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/looper_kernel.h"
#include "kernel/sched_kernel.h"

static size_t cpus_bytes(const struct flight_kernel *kernel)
{
	return kernel->cpu_count * sizeof(struct cpu_slot);
}

static size_t turns_bytes(const struct flight_kernel *kernel)
{
	return kernel->cpu_count * FLIGHT_TURNS * sizeof(struct flight_turn);
}

static size_t changes_bytes(const struct flight_kernel *kernel)
{
	return kernel->change_count * sizeof(struct flight_change);
}

static int map_memory(void **memory, int fd, size_t bytes)
{
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*memory != MAP_FAILED)
		return 0;
	*memory = NULL;
	return -errno;
}

struct flight_kernel *flight_kernel_open(struct sched_kernel *sched, struct looper_kernel *loopers)
{
	struct flight_kernel *kernel = calloc(1, sizeof(*kernel));
	struct sched_kernel_flight maps;
	int err;

	if (!kernel) {
		errno = ENOMEM;
		return NULL;
	}
	err = sched_kernel_flight(sched, &maps);
	if (err)
		goto error;
	kernel->sched = sched;
	kernel->watched_fd = maps.watched_fd;
	kernel->near[0] = maps.near;
	kernel->near[1] = looper_kernel_flight_near(loopers);
	kernel->plain = !looper_kernel_has_fetch(loopers);
	kernel->cpu_count = sched_kernel_cpu_count(sched);
	err = map_memory((void **)&kernel->threads, maps.threads_fd, FLIGHT_THREADS_BYTES)
		      ?: map_memory((void **)&kernel->entries, maps.entries_fd, FLIGHT_ENTRIES_BYTES)
		      ?: map_memory((void **)&kernel->cpus, maps.cpus_fd, cpus_bytes(kernel))
		      ?: map_memory((void **)&kernel->turns, maps.turns_fd, turns_bytes(kernel));
	kernel->change_count = maps.change_count;
	if (!err && kernel->change_count)
		err = map_memory((void **)&kernel->changes, maps.changes_fd, changes_bytes(kernel));
	kernel->frequencies = maps.frequencies;
	if (!err)
		return kernel;
error:
	flight_kernel_close(kernel);
	errno = -err;
	return NULL;
}

void flight_kernel_close(struct flight_kernel *kernel)
{
	if (!kernel)
		return;
	for (uint32_t i = 0; i < FLIGHT_THREADS && kernel->threads; i++)
		if (kernel->rows[i].state == ROW_WATCHED)
			flight_kernel_unwatch(kernel, i);
	if (kernel->threads)
		munmap(kernel->threads, FLIGHT_THREADS_BYTES);
	if (kernel->entries)
		munmap(kernel->entries, FLIGHT_ENTRIES_BYTES);
	if (kernel->cpus)
		munmap((void *)kernel->cpus, cpus_bytes(kernel));
	if (kernel->turns)
		munmap(kernel->turns, turns_bytes(kernel));
	if (kernel->changes)
		munmap((void *)kernel->changes, changes_bytes(kernel));
	free(kernel->copies[0]);
	free(kernel->copies[1]);
	free(kernel->few_turns);
	free(kernel);
}

uint64_t flight_kernel_bytes(const struct flight_kernel *kernel)
{
	return FLIGHT_THREADS_BYTES + FLIGHT_ENTRIES_BYTES + cpus_bytes(kernel) +
	       turns_bytes(kernel) + changes_bytes(kernel);
}

/* A free run of so many blocks at a multiple of their number; UINT32_MAX: there is none. */
static uint32_t find_run(const struct flight_kernel *kernel, uint32_t blocks)
{
	for (uint32_t at = 0; at + blocks <= FLIGHT_BLOCKS; at += blocks) {
		uint32_t n = 0;

		while (n < blocks && !kernel->taken[at + n])
			n++;
		if (n == blocks)
			return at;
	}
	return UINT32_MAX;
}

uint32_t flight_kernel_free_blocks(const struct flight_kernel *kernel)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLIGHT_BLOCKS; i++)
		count += !kernel->taken[i];
	return count;
}

static void take_run(struct flight_kernel *kernel, const struct flight_row *row, bool taken)
{
	memset(&kernel->taken[row->block], taken, row->blocks * sizeof(*kernel->taken));
}

/* For the programs: one of the watched threads whose tids have the same low bits as this one. */
static void set_near(struct flight_kernel *kernel, uint32_t tid)
{
	uint32_t at = tid & (FLIGHT_NEAR - 1);
	uint8_t near = 0;

	for (uint32_t i = 0; i < FLIGHT_THREADS; i++)
		if (kernel->rows[i].state == ROW_WATCHED &&
		    (kernel->threads[i].tid & (FLIGHT_NEAR - 1)) == at)
			near = (uint8_t)(i + 1);
	__atomic_store_n(&kernel->near[0][at], near, __ATOMIC_RELAXED);
	__atomic_store_n(&kernel->near[1][at], near, __ATOMIC_RELAXED);
}

int flight_kernel_watch(struct flight_kernel *kernel, pid_t tid, pid_t tgid, uint32_t blocks)
{
	uint32_t index = 0, key = (uint32_t)tid, at;
	struct flight_row *row;

	while (index < FLIGHT_THREADS && kernel->rows[index].state != ROW_FREE)
		index++;
	for (at = find_run(kernel, blocks); at == UINT32_MAX && blocks > 1;)
		at = find_run(kernel, blocks /= 2);
	if (index == FLIGHT_THREADS || at == UINT32_MAX)
		return -E2BIG;
	row = &kernel->rows[index];
	*row = (struct flight_row){ROW_WATCHED, at, blocks};
	kernel->threads[index] = (struct flight_thread){
		.tid = key,
		.tgid = (uint32_t)tgid,
		.first = at * FLIGHT_BLOCK_ENTRIES,
		.mask = blocks * FLIGHT_BLOCK_ENTRIES - 1,
		.order = (uint32_t)__builtin_ctz(blocks * FLIGHT_BLOCK_ENTRIES),
		.syscall_nr = -1,
		.last_nr = -1,
	};
	memset(&kernel->entries[at * FLIGHT_BLOCK_ENTRIES], 0,
	       blocks * FLIGHT_BLOCK_ENTRIES * sizeof(*kernel->entries));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (bpf_map_update_elem(kernel->watched_fd, &key, &index, BPF_ANY)) {
		row->state = ROW_FREE;
		return -errno;
	}
	take_run(kernel, row, true);
	set_near(kernel, key);
	flight_kernel_mark(kernel, index);
	return (int)index;
}

void flight_kernel_mark(struct flight_kernel *kernel, uint32_t index)
{
	if (!kernel->threads[index].dead)
		sched_kernel_mark_flight(kernel->sched, (pid_t)kernel->threads[index].tid, true);
}

void flight_kernel_unwatch(struct flight_kernel *kernel, uint32_t index)
{
	uint32_t key = kernel->threads[index].tid;

	if (kernel->rows[index].state != ROW_WATCHED)
		return;
	sched_kernel_mark_flight(kernel->sched, (pid_t)key, false);
	kernel->rows[index].state = ROW_LEFT;
	set_near(kernel, key);
	bpf_map_delete_elem(kernel->watched_fd, &key);
}

void flight_kernel_tidy(struct flight_kernel *kernel)
{
	for (uint32_t i = 0; i < FLIGHT_THREADS; i++) {
		if (kernel->rows[i].state != ROW_LEFT)
			continue;
		kernel->missed_gone += kernel->threads[i].missed;
		kernel->placed_gone += kernel->threads[i].placed;
		kernel->threads[i].missed = kernel->threads[i].placed = 0;
		kernel->threads[i].tid = 0;
		take_run(kernel, &kernel->rows[i], false);
		kernel->rows[i].state = ROW_FREE;
	}
}

void flight_kernel_end(struct flight_kernel *kernel, uint32_t index)
{
	__atomic_store_n(&kernel->threads[index].dead, 1, __ATOMIC_RELEASE);
}

bool flight_kernel_is_dead(const struct flight_kernel *kernel, uint32_t index)
{
	return __atomic_load_n(&kernel->threads[index].dead, __ATOMIC_ACQUIRE);
}

uint64_t flight_kernel_missed(const struct flight_kernel *kernel)
{
	uint64_t sum = kernel->missed_gone;

	for (uint32_t i = 0; i < FLIGHT_THREADS; i++)
		sum += __atomic_load_n(&kernel->threads[i].missed, __ATOMIC_RELAXED);
	return sum;
}

uint64_t flight_kernel_placed(const struct flight_kernel *kernel)
{
	uint64_t sum = kernel->placed_gone;

	for (uint32_t i = 0; i < FLIGHT_THREADS; i++)
		sum += __atomic_load_n(&kernel->threads[i].placed, __ATOMIC_RELAXED);
	return sum;
}

uint64_t flight_kernel_overrun(const struct flight_kernel *kernel)
{
	return kernel->overrun;
}

uint64_t flight_kernel_turns_gone(const struct flight_kernel *kernel)
{
	return kernel->turns_gone;
}
