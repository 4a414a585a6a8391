/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/pages.h"

#define MAPS_MAX_BYTES    (64u << 20)
#define MAPS_MAX_ENTRIES  (1u << 20)
#define MAPS_CACHED_TASKS 64
#define MAPS_CACHED_BYTES (4u << 20)
#define SETTLED_BYTES     (64u << 10)

static bool parse_line(const char *text, const char *line, const char *end, struct map_entry *out)
{
	struct proc_mapping mapping;

	if (!proc_parse_mapping(line, end, &mapping))
		return false;
	*out = (struct map_entry){
		.start = mapping.start,
		.end = mapping.end,
		.offset = mapping.offset,
		.inode = mapping.inode,
		.dev = mapping.dev,
		.path = (uint32_t)(mapping.path - text),
		.path_len = (uint32_t)mapping.path_length,
		.flags = mapping.flags,
	};
	return true;
}

/* Length of the common prefix of both texts, cut back to whole lines; *lines is their number. */
static size_t common_lines(const struct stack_maps *previous, const char *text, size_t text_len,
			   size_t *lines)
{
	size_t limit = previous->text_len < text_len ? previous->text_len : text_len;
	size_t same = 0, count = 0;

	/* A rejected line has no entry, so that lines and entries would not match. */
	if (previous->rejected)
		limit = 0;
	while (same < limit) {
		const char *newline = memchr(text + same, '\n', limit - same);
		size_t line = newline ? (size_t)(newline - text) + 1 - same : 0;

		if (!line || memcmp(text + same, previous->text + same, line))
			break;
		same += line;
		count++;
	}
	*lines = count;
	return same;
}

/* The same in one block, which takes the place of the parts: pictures come and go for as long as
 * processes do, and would leave holes in the heap. A large one's parts find no such hole, and to
 * copy them makes one line more among 5,000 cost 420 us, not 70 (bench_stack). */
static int settle(struct stack_maps **maps)
{
	struct stack_maps *old = *maps, *settled;
	size_t entries = old->count * sizeof(*old->entries);
	size_t bytes = sizeof(*settled) + entries + old->text_len;

	if (bytes > SETTLED_BYTES)
		return 0;
	settled = pages_new(bytes);
	if (!settled)
		return -ENOMEM;
	*settled = *old;
	settled->settled = true;
	settled->entries = (struct map_entry *)(settled + 1);
	settled->text = (char *)(settled->entries + old->count);
	memcpy(settled->entries, old->entries, entries);
	memcpy(settled->text, old->text, old->text_len);
	maps_put(old);
	*maps = settled;
	return 0;
}

struct stack_maps *maps_parse(char *text, size_t text_len, const struct stack_maps *previous)
{
	struct stack_maps *maps = calloc(1, sizeof(*maps));
	const char *p = text, *text_end = text + text_len;
	size_t room = text_len / 48 + 16, known = 0;
	uint64_t previous_end = 0;

	if (room > MAPS_MAX_ENTRIES)
		room = MAPS_MAX_ENTRIES;
	if (!maps || text_len > MAPS_MAX_BYTES ||
	    !(maps->entries = malloc(room * sizeof(*maps->entries))))
		goto fail;
	maps->references = 1;
	maps->text = text;
	maps->text_len = text_len;
	if (previous) {
		p += common_lines(previous, text, text_len, &known);
		if (known > room || known > previous->count)
			known = 0, p = text;
		memcpy(maps->entries, previous->entries, known * sizeof(*maps->entries));
		maps->count = known;
		previous_end = known ? maps->entries[known - 1].end : 0;
	}
	while (p < text_end) {
		const char *end = memchr(p, '\n', text_end - p);
		struct map_entry entry;

		if (!end)
			end = text_end;
		if (maps->count < MAPS_MAX_ENTRIES && parse_line(text, p, end, &entry) &&
		    entry.start >= previous_end) {
			if (maps->count == room) {
				struct map_entry *more;

				room = room * 2 < MAPS_MAX_ENTRIES ? room * 2 : MAPS_MAX_ENTRIES;
				more = realloc(maps->entries, room * sizeof(*more));
				if (!more)
					goto fail;
				maps->entries = more;
			}
			maps->entries[maps->count++] = entry;
			previous_end = entry.end;
		} else {
			maps->rejected++;
		}
		p = end < text_end ? end + 1 : text_end;
	}
	if (maps->count && maps->count < room) {
		struct map_entry *fit =
			realloc(maps->entries, maps->count * sizeof(*maps->entries));

		maps->entries = fit ? fit : maps->entries;
	}
	if (settle(&maps))
		goto fail;
	return maps;
fail:
	if (maps)
		free(maps->entries);
	free(maps);
	free(text);
	errno = text_len > MAPS_MAX_BYTES ? EFBIG : ENOMEM;
	return NULL;
}

struct stack_maps *maps_get(struct stack_maps *maps)
{
	if (maps)
		maps->references++;
	return maps;
}

void maps_put(struct stack_maps *maps)
{
	if (!maps || --maps->references)
		return;
	if (maps->settled) {
		pages_free(maps);
		return;
	}
	free(maps->entries);
	free(maps->text);
	free(maps);
}

const struct map_entry *maps_find(const struct stack_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (maps->entries[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == maps->count || address < maps->entries[low].start)
		return NULL;
	return &maps->entries[low];
}

const char *maps_path(const struct stack_maps *maps, const struct map_entry *entry)
{
	return maps->text + entry->path;
}

size_t maps_file_length(const struct stack_maps *maps, const struct map_entry *entry)
{
	static const char deleted[] = " (deleted)";
	size_t length = sizeof(deleted) - 1;

	if (entry->path_len <= length ||
	    memcmp(maps_path(maps, entry) + entry->path_len - length, deleted, length))
		return entry->path_len;
	return entry->path_len - length;
}

bool maps_path_is(const struct stack_maps *maps, const struct map_entry *entry, const char *path)
{
	return entry->path_len == strlen(path) &&
	       !memcmp(maps_path(maps, entry), path, entry->path_len);
}

bool maps_left_out(const struct stack_maps *maps, uint64_t address)
{
	const struct map_entry *entry = maps_find(maps, address);

	return entry && !entry->inode && maps_path_is(maps, entry, PROC_MAPS_LEFT_OUT);
}

size_t maps_bytes(const struct stack_maps *maps)
{
	size_t bytes = sizeof(*maps) + maps->text_len + maps->count * sizeof(*maps->entries);

	return maps->settled ? pages_held_bytes(bytes) : bytes;
}

unsigned maps_address_bits(const struct stack_maps *maps)
{
	static const unsigned bits[] = {39, 42, 47, 48, 52};
	uint64_t top = 0;

	/* [vsyscall] of x86_64 lies in the kernel's half. */
	for (size_t i = maps->count; i-- && !top;) {
		if (maps->entries[i].end >> 52 == 0)
			top = maps->entries[i].end;
	}
	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (top <= 1ull << bits[i])
			return bits[i];
	}
	return 52;
}

struct maps_cache {
	const struct stack_files *files;
	struct cached_maps {
		struct stack_process process;
		uint64_t used;
		struct stack_maps *maps;
	} tasks[MAPS_CACHED_TASKS];
	uint64_t uses, serial;
};

struct maps_cache *maps_cache_new(const struct stack_files *files)
{
	struct maps_cache *cache = calloc(1, sizeof(*cache));

	if (cache)
		cache->files = files;
	return cache;
}

void maps_cache_free(struct maps_cache *cache)
{
	if (!cache)
		return;
	for (unsigned i = 0; i < MAPS_CACHED_TASKS; i++)
		maps_put(cache->tasks[i].maps);
	free(cache);
}

/* The slot of a process, or of the one that was not asked for for longest. */
static struct cached_maps *find_slot(struct maps_cache *cache, const struct stack_process *process)
{
	struct cached_maps *oldest = &cache->tasks[0];

	for (unsigned i = 0; i < MAPS_CACHED_TASKS; i++) {
		struct cached_maps *task = &cache->tasks[i];

		if (task->maps && task->process.pid == process->pid &&
		    task->process.start_ticks == process->start_ticks)
			return task;
		if (task->used < oldest->used)
			oldest = task;
	}
	maps_put(oldest->maps);
	*oldest = (struct cached_maps){.process = *process};
	return oldest;
}

static struct stack_maps *read_maps(struct maps_cache *cache, const struct stack_process *process,
				    bool fresh, struct stack_maps *previous)
{
	struct stack_maps *maps;
	char *text = NULL;
	size_t len = 0;
	int err = cache->files->maps(cache->files->ctx, process, fresh, &text, &len);

	/* A process that is dying has an empty table; a kernel thread never had one. */
	if (!err && !len) {
		free(text);
		err = -ESRCH;
	}
	if (err) {
		errno = -err;
		return NULL;
	}
	if (previous && previous->text_len == len && !memcmp(previous->text, text, len)) {
		free(text);
		maps = maps_get(previous);
	} else {
		maps = maps_parse(text, len, previous);
		if (maps)
			maps->serial = ++cache->serial;
	}
	if (maps)
		maps->read_mono_ns = clock_now_ns(CLOCK_MONOTONIC);
	return maps;
}

/* Drop the pictures that were not asked for for longest until the rest is small enough. */
static void make_room(struct maps_cache *cache, const struct cached_maps *keep)
{
	for (;;) {
		struct cached_maps *oldest = NULL;
		size_t bytes = 0;

		for (unsigned i = 0; i < MAPS_CACHED_TASKS; i++) {
			struct cached_maps *task = &cache->tasks[i];

			if (!task->maps || task == keep)
				continue;
			bytes += maps_bytes(task->maps);
			if (!oldest || task->used < oldest->used)
				oldest = task;
		}
		if (bytes <= MAPS_CACHED_BYTES)
			return;
		maps_put(oldest->maps);
		*oldest = (struct cached_maps){0};
	}
}

struct stack_maps *maps_cache_get(struct maps_cache *cache, const struct stack_process *process,
				  uint64_t max_age_ns)
{
	struct cached_maps *slot = find_slot(cache, process);
	struct stack_maps *maps;

	slot->used = ++cache->uses;
	if (slot->maps && max_age_ns &&
	    clock_now_ns(CLOCK_MONOTONIC) - slot->maps->read_mono_ns < max_age_ns)
		return maps_get(slot->maps);
	maps = read_maps(cache, process, !max_age_ns, slot->maps);
	/* A process that died meanwhile, or cannot be asked now: its last picture serves what was
	 * captured before. */
	if (!maps)
		return maps_get(slot->maps);
	maps_put(slot->maps);
	slot->maps = maps_get(maps);
	make_room(cache, slot);
	return maps;
}
