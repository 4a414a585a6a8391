/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/heap.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

/* TCACHE_FILL_COUNT and TCACHE_MAX_BINS of glibc's malloc.c; of another allocator it costs nothing
 * that stays. */
#define SIZES      64
#define BLOCKS     7
#define FIRST_SIZE 24         /* bytes of the smallest block; each next one has 16 more */
#define TRIM_BYTES (64 << 10) /* at the end of the heap, given back with a free() */

void heap_map_pages(void)
{
	mallopt(M_MMAP_THRESHOLD, (int)sysconf(_SC_PAGESIZE));
	mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
}

void heap_fill_cache(void)
{
	void *volatile blocks[SIZES][BLOCKS];

	for (size_t i = 0; i < SIZES; i++)
		for (size_t k = 0; k < BLOCKS; k++)
			blocks[i][k] = malloc(FIRST_SIZE + 16 * i);
	for (size_t i = 0; i < SIZES; i++)
		for (size_t k = 0; k < BLOCKS; k++)
			free(blocks[i][k]);
}
