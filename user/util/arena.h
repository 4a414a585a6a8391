/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is freed all at once. */
#pragma once
#include <stddef.h>

/* part_bytes for what is kept for a whole run: it lies apart from the heap, where each small piece
 * that stays would hold a page that one busy interval took. Pages are taken as they are used. */
#define ARENA_KEPT_BYTES (64u << 10)

struct arena_part;

struct arena {
	struct arena_part *parts; /* newest first */
	size_t used, room;        /* of the newest */
	size_t part_bytes;        /* parts are mappings of so many bytes; 0: 4 KiB of the heap */
};

/* Zeroed memory for anything, until arena_free(). NULL with errno ENOMEM. */
void *arena_take(struct arena *arena, size_t size);
void arena_free(struct arena *arena);
