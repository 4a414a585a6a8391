/* SPDX-License-Identifier: BSD-2-Clause */
/* Read a whole BPF hash in as few calls as the kernel allows. */
#pragma once
#include <stdint.h>

/* Returns 0 to go on; anything else ends the read and is returned. May change the map: what is
 * read was copied before. */
typedef int (*net_map_fn)(void *ctx, const void *key, const void *value);

/* Call fn for every element, by bpf_map_lookup_batch (057996380a42, 5.6). value_size is what a
 * lookup gives: for a per-CPU map that of all possible CPUs. An element that comes while the map
 * is read may be missed. 0, fn's return, or a negative errno. */
int net_map_read(int fd, uint32_t key_size, uint32_t value_size, uint32_t max_entries,
		 net_map_fn fn, void *ctx);
