/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/maps as a sorted table. A picture is immutable and counted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/stack.h"
#include "proc/maps.h"

struct map_entry {
	uint64_t start, end, offset;
	uint64_t inode;
	uint32_t dev;            /* major << 20 | minor */
	uint32_t path, path_len; /* slice of the text; path_len 0: anonymous */
	uint8_t flags;
};

struct stack_maps {
	unsigned references;
	bool settled; /* the rest lies in one block with this */
	char *text;
	size_t text_len;
	struct map_entry *entries;
	size_t count;
	size_t rejected; /* lines that made no sense, or overlapped the one before */
	uint64_t read_mono_ns;
	uint64_t serial; /* unlike that of any other picture of the same cache; 0: not cached */
};

/* Parse text (taken over, malloc'ed, any bytes). Lines that the previous picture starts with are
 * not parsed again; previous may be NULL. NULL with errno (the text is freed). */
struct stack_maps *maps_parse(char *text, size_t text_len, const struct stack_maps *previous);
struct stack_maps *maps_get(struct stack_maps *maps);
void maps_put(struct stack_maps *maps);

/* The mapping that holds address, or NULL. */
const struct map_entry *maps_find(const struct stack_maps *maps, uint64_t address);
/* Path of an entry: not terminated, path_len bytes. */
const char *maps_path(const struct stack_maps *maps, const struct map_entry *entry);
/* Its length without the " (deleted)" of a file that was removed or replaced since. */
size_t maps_file_length(const struct stack_maps *maps, const struct map_entry *entry);
bool maps_path_is(const struct stack_maps *maps, const struct map_entry *entry, const char *path);
/* Number of address bits that user space uses here, by the highest mapping: 39, 42, 47, 48 or 52.
 */
unsigned maps_address_bits(const struct stack_maps *maps);

/* Whether it is not known what is mapped at the address, because there were too many mappings to
 * keep them all. */
bool maps_left_out(const struct stack_maps *maps, uint64_t address);
/* Heap bytes of a picture. */
size_t maps_bytes(const struct stack_maps *maps);

/* The last pictures of 64 processes, of 4 MiB together at the most beside the one that was asked
 * for last. */
struct maps_cache;
/* files is borrowed. NULL: no memory. */
struct maps_cache *maps_cache_new(const struct stack_files *files);
void maps_cache_free(struct maps_cache *cache);
/* A reference to the process' picture, read when there is none or when it is older than max_age_ns
 * (0: always read, and not from what somebody kept). NULL with errno. */
struct stack_maps *maps_cache_get(struct maps_cache *cache, const struct stack_process *process,
				  uint64_t max_age_ns);
