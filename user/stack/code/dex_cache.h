/* SPDX-License-Identifier: BSD-2-Clause */
/* Indexes of DEX files that were met, within DEX_CACHE_BYTES; those that were not used for longest
 * go first. */
#pragma once
#include "jankscope/stack.h"
#include "stack/code/dex_file.h"

#define DEX_CACHE_BYTES (4u << 20)
#define DEX_CACHE_FILES 256

/* Whose bytes they are: of a file as it was (version), or of a process (pid, start_ticks, zeros).
 */
struct dex_owner {
	uint64_t words[4];
};

struct dex_cache;
/* NULL: no memory. */
struct dex_cache *dex_cache_new(void);
void dex_cache_free(struct dex_cache *cache);

/* The method at offset of the source, in the DEX file whose header is at start. 0; -ENOENT: it is
 * in none of its methods. *line 0: the file does not tell; as dex_file_open and dex_index_build,
 * also where it failed before. */
int dex_cache_find(struct dex_cache *cache, const struct dex_owner *owner,
		   const struct byte_source *source, uint64_t start, uint64_t offset,
		   struct dex_place *place, char name[DEX_NAME_BYTES], uint32_t *line);
/* Uses from now on are numbered from here. */
void dex_cache_begin(struct dex_cache *cache, uint64_t use);
/* When the index was used that was not for longest; UINT64_MAX: there is none. */
uint64_t dex_cache_oldest(const struct dex_cache *cache);
/* Free it. False: there is none. */
bool dex_cache_give_back(struct dex_cache *cache);
/* Heap bytes of the indexes. */
size_t dex_cache_bytes(const struct dex_cache *cache);
/* Add what was lost so far: files that make no sense, and that could not be read. */
void dex_cache_losses(const struct dex_cache *cache, struct stack_unwind_losses *losses);
/* The same for a file that DEX files are in. */
void dex_cache_count(struct dex_cache *cache, int err);
