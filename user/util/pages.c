/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/pages.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct front {
	size_t mapped_bytes;          /* 0: it lies in the heap */
	_Alignas(16) uint8_t block[]; /* as malloc would align it */
};

size_t pages_held_bytes(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), all = bytes + sizeof(struct front);

	return all < page ? all : (all + page - 1) & ~(page - 1);
}

static struct front *map_front(size_t all)
{
	struct front *front =
		mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (front == MAP_FAILED)
		return NULL;
	front->mapped_bytes = all;
	return front;
}

void *pages_new(size_t bytes)
{
	size_t all = pages_held_bytes(bytes);
	struct front *front;

	if (all < bytes) { /* more than a size_t holds */
		errno = ENOMEM;
		return NULL;
	}
	front = all < (size_t)sysconf(_SC_PAGESIZE) ? calloc(1, all) : map_front(all);
	if (!front)
		return NULL;
	return front->block;
}

void pages_free(void *block)
{
	struct front *front;

	if (!block)
		return;
	front = (struct front *)((uint8_t *)block - offsetof(struct front, block));
	if (front->mapped_bytes)
		munmap(front, front->mapped_bytes);
	else
		free(front);
}
