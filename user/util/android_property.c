/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/android_property.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA_MAGIC   0x504f5250u
#define AREA_VERSION 0xfc6ed0abu
#define HEAD_BYTES   128u /* used, serial, magic, version, 28 words of nothing */
#define NODE_BYTES   20u  /* name_length, property, left, right, children; the name follows */
#define VALUE_AT     4u   /* in a property, behind its serial number */
#define VALUE_BYTES  92u
#define LONG_AT      (VALUE_AT + 56u) /* of a long value: its place, counted from the property */
#define LONG_FLAG    (1u << 16)
#define MAX_AREA     (4u << 20)
#define MAX_BYTES    (64u << 20)
#define MAX_FILES    4096
#define MAX_STEPS    512 /* on the way to one property: a hostile trie may have a ring */

struct area {
	const char *data;
	size_t size;
};

static bool word(const struct area *area, size_t at, uint32_t *value)
{
	if (at > area->size || area->size - at < sizeof(*value))
		return false;
	memcpy(value, area->data + at, sizeof(*value));
	return true;
}

/* bionic sorts the nodes of one level by the length of their names first. */
static int compare(const struct area *area, uint32_t node, const char *name, uint32_t length)
{
	uint32_t own = 0;

	if (!word(area, node, &own) || !word(area, node + NODE_BYTES - 4u, &(uint32_t){0}) ||
	    own > area->size - node - NODE_BYTES)
		return -2;
	if (length != own)
		return length < own ? -1 : 1;
	int order = memcmp(name, area->data + node + NODE_BYTES, length);

	return order < 0 ? -1 : order > 0;
}

/* The place of the property, 0: it is not here. */
static uint32_t find(const struct area *area, const char *name)
{
	uint32_t node = 0, next, property;
	unsigned steps = 0;

	for (;;) {
		uint32_t length = (uint32_t)strcspn(name, ".");

		if (!word(area, (size_t)node + 16, &next))
			return 0;
		do {
			int order;

			if (!next || next >= area->size || ++steps > MAX_STEPS)
				return 0;
			node = next;
			order = compare(area, node, name, length);
			if (order == -2)
				return 0;
			if (!order)
				break;
			if (!word(area, (size_t)node + (order < 0 ? 8u : 12u), &next))
				return 0;
		} while (true);
		if (!name[length])
			break;
		name += length + 1;
	}
	return word(area, (size_t)node + 4, &property) ? property : 0;
}

static bool take(const struct area *area, struct android_property *wanted)
{
	uint32_t at = find(area, wanted->name), serial, to = VALUE_AT;
	size_t room = VALUE_BYTES, length;

	if (!at || !word(area, at, &serial))
		return false;
	if (serial & LONG_FLAG) {
		if (!word(area, (size_t)at + LONG_AT, &to))
			return false;
		room = sizeof(wanted->value);
	}
	if ((size_t)at + to >= area->size)
		return false;
	if (room > area->size - at - to)
		room = area->size - at - to;
	length = strnlen(area->data + at + to, room);
	if (!length || length == room || length >= sizeof(wanted->value))
		return false;
	memcpy(wanted->value, area->data + at + to, length);
	wanted->value[length] = 0;
	return true;
}

/* What is used of a file, for the caller to free; its head is not part of it. */
static char *read_area(int fd, struct area *area)
{
	uint32_t head[4];
	struct stat st;
	ssize_t n = 0;
	char *data;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    pread(fd, head, sizeof(head), 0) != sizeof(head) || head[2] != AREA_MAGIC ||
	    head[3] != AREA_VERSION || head[0] > MAX_AREA)
		return NULL;
	data = malloc(head[0] + 1);
	if (data)
		n = pread(fd, data, head[0], HEAD_BYTES);
	*area = (struct area){data, n > 0 ? (size_t)n : 0};
	return data;
}

static size_t search(int folder, const char *name, struct android_property *wanted, size_t count,
		     size_t *bytes)
{
	/* A FIFO in place of the file must not hold the open up. */
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct area area = {0};
	size_t found = 0;
	char *data;

	if (fd < 0)
		return 0;
	data = read_area(fd, &area);
	for (size_t i = 0; i < count && data; i++)
		found += !wanted[i].value[0] && take(&area, &wanted[i]);
	*bytes += area.size;
	free(data);
	close(fd);
	return found;
}

size_t android_properties_read(const char *path, struct android_property *wanted, size_t count)
{
	size_t found = 0, bytes = 0, files = 0;
	struct dirent *entry;
	DIR *folder;

	for (size_t i = 0; i < count; i++)
		wanted[i].value[0] = 0;
	folder = opendir(path);
	if (!folder)
		return search(AT_FDCWD, path, wanted, count, &bytes);
	while (found < count && bytes < MAX_BYTES && files++ < MAX_FILES &&
	       (entry = readdir(folder)))
		found += search(dirfd(folder), entry->d_name, wanted, count, &bytes);
	closedir(folder);
	return found;
}
