/* SPDX-License-Identifier: BSD-2-Clause */
/* Read a whole BPF hash in as few calls as the kernel allows. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Returns 0 to go on; anything else ends the read and is returned. May change and delete the
 * element: it is a copy. */
typedef int (*map_read_fn)(void *ctx, const void *key, const void *value);

/* Call fn for every element, by bpf_map_lookup_batch (057996380a42, 5.6). value_size is what a
 * lookup gives: for a per-CPU map that of all possible CPUs. An element that comes while the map
 * is read may be missed. 0, fn's return, or a negative errno. */
int map_read(int fd, uint32_t key_size, uint32_t value_size, uint32_t max_entries, map_read_fn fn,
	     void *ctx);

/* A read of a hash a part at a time, in calls that take little time each. */
struct map_walk {
	uint64_t position[8]; /* opaque; a hash uses 4 bytes of it */
	bool begun;
};

/* Call fn for about `some` of the elements, going on behind those of the last call. 1: the end was
 * reached, and the next call begins anew; 0; fn's return, or a negative errno. */
int map_read_some(int fd, uint32_t key_size, uint32_t value_size, uint32_t some,
		  struct map_walk *walk, map_read_fn fn, void *ctx);
