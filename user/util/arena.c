/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PART_BYTES 4096

struct arena_part {
	struct arena_part *next;
	size_t mapped; /* 0: of the heap */
	alignas(max_align_t) char bytes[];
};

static struct arena_part *new_part(size_t room, bool mapped)
{
	struct arena_part *part;

	if (!mapped) {
		part = malloc(sizeof(*part) + room);
		if (part)
			part->mapped = 0;
		return part;
	}
	part = mmap(NULL, sizeof(*part) + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (part == MAP_FAILED)
		return NULL;
	part->mapped = sizeof(*part) + room;
	return part;
}

void *arena_take(struct arena *arena, size_t size)
{
	size_t room =
		arena->part_bytes ? arena->part_bytes - sizeof(struct arena_part) : PART_BYTES;
	const size_t align = alignof(max_align_t);
	struct arena_part *part;
	void *place;

	if (size > SIZE_MAX / 2) {
		errno = ENOMEM;
		return NULL;
	}
	size = (size + align - 1) / align * align;
	if (arena->room - arena->used < size) {
		room = size > room ? size : room;
		part = new_part(room, arena->part_bytes != 0);
		if (!part)
			return NULL;
		part->next = arena->parts;
		arena->parts = part;
		arena->used = 0;
		arena->room = room;
	}
	place = arena->parts->bytes + arena->used;
	arena->used += size;
	/* Of the heap only what is taken is zeroed; a mapping is. */
	return arena->parts->mapped ? place : memset(place, 0, size);
}

void arena_free(struct arena *arena)
{
	while (arena->parts) {
		struct arena_part *next = arena->parts->next;

		if (arena->parts->mapped)
			munmap(arena->parts, arena->parts->mapped);
		else
			free(arena->parts);
		arena->parts = next;
	}
	arena->used = arena->room = 0;
}
