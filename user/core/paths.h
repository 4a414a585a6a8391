/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of all blocks of a run by path, in bounded memory. */
#pragma once
#include <stdio.h>

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
/* All of them, one folded line each ("a;b;c microseconds"), in the order of their weight. */
int paths_print_folded(struct paths *paths, FILE *out);
/* The paths of two sides, "a;b;c OLD NEW" in microseconds, as flamegraph.pl draws a difference. */
int paths_print_difference(struct paths *old, struct paths *new, FILE *out);
/* Time of paths that gave way, 0: none did. */
uint64_t paths_dropped_ns(const struct paths *paths);
