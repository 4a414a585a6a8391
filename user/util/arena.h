/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is freed all at once. */
#pragma once
#include <stddef.h>

struct arena_part;

struct arena {
	struct arena_part *parts; /* newest first */
	size_t used, room;        /* of the newest */
};

/* Zeroed memory for anything, until arena_free(). NULL with errno ENOMEM. */
void *arena_take(struct arena *arena, size_t size);
void arena_free(struct arena *arena);
