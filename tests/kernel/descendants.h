/* SPDX-License-Identifier: BSD-2-Clause */
/* Which threads descend from this process, as the kernel tells it at each fork: to know whose a
 * line of the kernel's log is on a machine where other recorders run. */
#pragma once
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCENDANTS_CPUS  64
#define DESCENDANTS_PAGES 64 /* of a ring: 4,096 forks on a CPU between two readings */
#define DESCENDANTS_TIDS  (1u << 22)

struct descendants {
	int cpus;   /* 0: the kernel does not tell */
	bool lossy; /* some forks were not told */
	int fds[DESCENDANTS_CPUS];
	struct perf_event_mmap_page *rings[DESCENDANTS_CPUS];
	uint8_t *seen; /* a bit for each thread */
};

static inline void descendants_end(struct descendants *all)
{
	size_t bytes = (DESCENDANTS_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);

	while (all->cpus) {
		munmap(all->rings[--all->cpus], bytes);
		close(all->fds[all->cpus]);
	}
	if (all->seen != MAP_FAILED)
		munmap(all->seen, DESCENDANTS_TIDS / 8);
	all->seen = MAP_FAILED;
}

/* Before the first fork that counts. */
static inline void descendants_begin(struct descendants *all)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.task = 1,
		.inherit = 1,
	};
	size_t bytes = (DESCENDANTS_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	*all = (struct descendants){0};
	all->seen = mmap(NULL, DESCENDANTS_TIDS / 8, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < cpus && i < DESCENDANTS_CPUS && all->seen != MAP_FAILED; i++) {
		int fd = (int)syscall(SYS_perf_event_open, &attr, 0, i, -1, PERF_FLAG_FD_CLOEXEC);
		void *ring = fd < 0 ? MAP_FAILED
				    : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (ring == MAP_FAILED) {
			if (fd >= 0)
				close(fd);
			descendants_end(all);
			return;
		}
		all->fds[all->cpus] = fd;
		all->rings[all->cpus++] = ring;
	}
}

/* Read the forks that the kernel has told of since the last call of this. */
static inline void descendants_read(struct descendants *all)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = DESCENDANTS_PAGES * page;

	for (int i = 0; i < all->cpus; i++) {
		struct perf_event_mmap_page *ring = all->rings[i];
		const uint8_t *data = (const uint8_t *)ring + page;
		uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
		uint64_t tail = ring->data_tail;

		while (tail < head) {
			struct {
				struct perf_event_header header;
				uint32_t pid, ppid, tid, ptid;
			} fork;

			/* A record may cross the end, a word of it does not. */
			for (size_t at = 0; at < sizeof(fork); at += 8)
				memcpy((uint8_t *)&fork + at, data + (tail + at) % size, 8);
			if (fork.header.type == PERF_RECORD_FORK && fork.tid < DESCENDANTS_TIDS)
				all->seen[fork.tid / 8] |= (uint8_t)(1u << fork.tid % 8);
			all->lossy |= fork.header.type == PERF_RECORD_LOST;
			tail += fork.header.size ? fork.header.size : head - tail;
		}
		__atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
	}
}

/* What is not told for certain counts as ours. */
static inline bool descendants_has(const struct descendants *all, uint32_t tid)
{
	return !all->cpus || all->lossy || tid >= DESCENDANTS_TIDS ||
	       all->seen[tid / 8] >> tid % 8 & 1;
}

/* A thread's number is another's some time later. */
static inline void descendants_forget(struct descendants *all)
{
	descendants_read(all);
	if (all->cpus)
		memset(all->seen, 0, DESCENDANTS_TIDS / 8);
}
