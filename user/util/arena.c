/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define PART_BYTES 4096

struct arena_part {
	struct arena_part *next;
	alignas(max_align_t) char bytes[];
};

void *arena_take(struct arena *arena, size_t size)
{
	const size_t align = alignof(max_align_t);
	struct arena_part *part;
	size_t room;
	void *place;

	if (size > SIZE_MAX / 2) {
		errno = ENOMEM;
		return NULL;
	}
	size = (size + align - 1) / align * align;
	if (arena->room - arena->used < size) {
		room = size > PART_BYTES ? size : PART_BYTES;
		part = calloc(1, sizeof(*part) + room);
		if (!part)
			return NULL;
		part->next = arena->parts;
		arena->parts = part;
		arena->used = 0;
		arena->room = room;
	}
	place = arena->parts->bytes + arena->used;
	arena->used += size;
	return place;
}

void arena_free(struct arena *arena)
{
	while (arena->parts) {
		struct arena_part *next = arena->parts->next;

		free(arena->parts);
		arena->parts = next;
	}
	arena->used = arena->room = 0;
}
