/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/maps as a sorted table. A picture is immutable and counted: captures keep the one that
 * was valid for them while the process maps on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MAP_READ = 1, MAP_WRITE = 2, MAP_EXEC = 4, MAP_IS_SHARED = 8 };

struct map_entry {
	uint64_t start, end, offset;
	uint64_t inode;
	uint32_t dev;            /* major << 20 | minor */
	uint32_t path, path_len; /* slice of the text; path_len 0: anonymous */
	uint8_t flags;
};

struct stack_maps {
	unsigned references;
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
/* Read and parse the maps of a process. When nothing changed since previous, that picture is
 * returned with one more reference and a new read time. NULL with errno: ENOENT or ESRCH when the
 * process is gone, EACCES, EFBIG above 64 MiB. */
struct stack_maps *maps_read(const char *root, pid_t pid, struct stack_maps *previous);
struct stack_maps *maps_get(struct stack_maps *maps);
void maps_put(struct stack_maps *maps);

/* The mapping that holds address, or NULL. */
const struct map_entry *maps_find(const struct stack_maps *maps, uint64_t address);
/* Path of an entry: not terminated, path_len bytes. */
const char *maps_path(const struct stack_maps *maps, const struct map_entry *entry);
bool maps_path_is(const struct stack_maps *maps, const struct map_entry *entry, const char *path);
/* Number of address bits that user space uses here, by the highest mapping: 39, 42, 47, 48 or 52.
 */
unsigned maps_address_bits(const struct stack_maps *maps);

/* The last picture of each process that was captured lately. Locks; the rest of this file does not.
 */
struct maps_cache;
struct bounded_calls;
struct maps_cache *maps_cache_new(const char *root);
void maps_cache_free(struct maps_cache *cache);
/* A reference to the process' picture, read when there is none or when it is older than max_age_ns
 * (0: always read). start_ticks tells users of one pid apart. NULL with errno. */
struct stack_maps *maps_cache_get(struct maps_cache *cache, pid_t pid, uint64_t start_ticks,
				  uint64_t max_age_ns);
/* The same, of any age, and waited for no longer than a bounded call takes (util/bounded_call.h):
 * else NULL with ETIMEDOUT or EBUSY. */
struct stack_maps *maps_cache_get_bounded(struct maps_cache *cache, struct bounded_calls *calls,
					  pid_t pid, uint64_t start_ticks);
