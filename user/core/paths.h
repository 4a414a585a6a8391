/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of all blocks of a run by path, in bounded memory. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "jankscope/record.h"

struct paths;

/* Up to 1 MiB of paths. NULL: no memory. */
struct paths *paths_new(void);
/* Another limit; from there on the lightest paths give way to new ones. */
void paths_limit(struct paths *paths, size_t bytes);
void paths_free(struct paths *paths);
/* Count the stacks of one block. 0, -ENOMEM. */
int paths_add(struct paths *paths, const struct record_block *block);
/* The heaviest, heaviest first, at most count; owned by paths, valid until the next call. */
size_t paths_top(struct paths *paths, size_t count, const struct footer_path **top);
/* All of them, "a;b;c" with its weight, in the order of their weight. A take that does not return 0
 * ends it, and is returned. */
int paths_each(struct paths *paths, int (*take)(void *ctx, const char *path, uint64_t weight_ns),
	       void *ctx);
/* False: there is none, and its weight is 0. */
bool paths_find(const struct paths *paths, const char *path, uint64_t *weight_ns);
/* Time of paths that gave way, 0: none did. */
uint64_t paths_dropped_ns(const struct paths *paths);
