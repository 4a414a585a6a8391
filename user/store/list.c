/* SPDX-License-Identifier: BSD-2-Clause */
/* Which segments a folder holds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "store/folder.h"

#define INDEX_MAX_BYTES (64u << 20)
#define DIGITS          8

const char *segment_name(char name[SEGMENT_NAME], uint64_t number, bool packed)
{
	snprintf(name, SEGMENT_NAME, "%0*" PRIu64 ".jsonl%s", DIGITS, number % 100000000,
		 packed ? ".zst" : "");
	return name;
}

uint64_t segment_number(const char *name, bool *packed)
{
	char again[SEGMENT_NAME];
	uint64_t number;

	if (strspn(name, "0123456789") != DIGITS)
		return 0;
	number = strtoull(name, NULL, 10);
	*packed = strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".zst");
	return strcmp(name, segment_name(again, number, *packed)) ? 0 : number;
}

static struct store_segment *find(const struct store_list *list, uint64_t number)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (list->items[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->count && list->items[low].number == number ? &list->items[low] : NULL;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct store_segment *)a)->number;
	uint64_t y = ((const struct store_segment *)b)->number;

	return (x > y) - (x < y);
}

static int add(struct store_list *list, size_t *room, uint64_t number, bool packed, uint64_t bytes)
{
	struct store_segment *more;

	if (list->count == *room) {
		*room = *room ? 2 * *room : 64;
		more = realloc(list->items, *room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		list->items = more;
	}
	list->items[list->count++] = (struct store_segment){
		.number = number, .plain = !packed, .packed = packed, .file_bytes = bytes};
	return 0;
}

/* A recorder that died between the end of a compression and the removal of the plain file leaves
 * both. */
static void join_pairs(struct store_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct store_segment *last = kept ? &list->items[kept - 1] : NULL;

		if (last && last->number == list->items[i].number) {
			last->plain = last->packed = true;
			last->file_bytes += list->items[i].file_bytes;
		} else {
			list->items[kept++] = list->items[i];
		}
	}
	list->count = kept;
}

/* Bytes that a compressed segment has inside, as the head of its frame says. */
static uint64_t content_bytes(int dir_fd, const struct store_segment *segment)
{
	char name[SEGMENT_NAME], head[18];
	int fd = openat(dir_fd, segment_name(name, segment->number, true),
			O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? pread(fd, head, sizeof(head), 0) : -1;

	if (fd >= 0)
		close(fd);
	return n > 0 ? ZSTD_getFrameContentSize(head, (size_t)n) : ZSTD_CONTENTSIZE_ERROR;
}

struct joining {
	struct store_list *list;
	int dir_fd;
};

static void take_facts(void *ctx, const struct segment_facts *facts)
{
	struct joining *joining = ctx;
	struct store_segment *segment = find(joining->list, facts->number);

	joining->list->index_lines++;
	if (facts->number > SEGMENT_MAX)
		return;
	if (facts->number > joining->list->last_known)
		joining->list->last_known = facts->number;
	if (facts->removed && facts->number > joining->list->last_removed)
		joining->list->last_removed = facts->number;
	if (!segment || facts->removed)
		return;
	/* A later line of the same segment takes the place of an earlier one. */
	segment->facts = *facts;
	segment->known = true;
}

static void check_facts(struct store_list *list, int dir_fd)
{
	for (size_t i = 0; i < list->count; i++) {
		struct store_segment *segment = &list->items[i];

		if (segment->known && segment->plain && !segment->packed)
			segment->known = segment->file_bytes == segment->facts.bytes;
		else if (segment->known && !segment->plain)
			segment->known = content_bytes(dir_fd, segment) == segment->facts.bytes;
	}
}

static void read_index(struct store_list *list, int dir_fd)
{
	struct joining joining = {list, dir_fd};
	int fd = openat(dir_fd, INDEX_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	char *text = NULL;
	ssize_t n = 0;

	if (fd < 0)
		return;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0 &&
	    status.st_size <= INDEX_MAX_BYTES)
		text = malloc((size_t)status.st_size);
	if (text)
		n = read(fd, text, (size_t)status.st_size);
	close(fd);
	if (n > 0) {
		list->index_bytes = (uint64_t)status.st_size;
		list->index_refused = index_each(text, (size_t)n, take_facts, &joining);
		if (list->last_known <= list->last_removed)
			list->last_known = 0;
		check_facts(list, dir_fd);
	}
	free(text);
}

int store_list_read(struct store_list *list, int dir_fd)
{
	/* An open file of its own, so that no other reading moves its place. */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	struct stat status;
	size_t room = 0;

	*list = (struct store_list){0};
	if (!dir) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (errno = 0, entry = readdir(dir))) {
		bool packed = false;
		uint64_t number = segment_number(entry->d_name, &packed);

		if (!number || fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		err = add(list, &room, number, packed, (uint64_t)status.st_size);
	}
	if (!err && errno)
		err = -errno;
	closedir(dir);
	if (err) {
		store_list_free(list);
		return err;
	}
	if (list->count)
		qsort(list->items, list->count, sizeof(*list->items), by_number);
	join_pairs(list);
	read_index(list, dir_fd);
	return 0;
}

void store_list_free(struct store_list *list)
{
	free(list->items);
	*list = (struct store_list){0};
}
