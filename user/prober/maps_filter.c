/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/maps_filter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A path has 4096 bytes, of which the kernel writes a newline as four. */
#define LINE_BYTES 8192

void maps_filter_init(struct maps_filter *filter, size_t bytes,
		      int (*write)(void *ctx, const char *text, size_t length), void *ctx)
{
	*filter = (struct maps_filter){.write = write, .ctx = ctx, .room = bytes / 2};
}

void maps_filter_free(struct maps_filter *filter)
{
	free(filter->tail);
	filter->tail = NULL;
}

/* Copy bytes of the tail, counted from its first line on. */
static void copy_tail(const struct maps_filter *filter, size_t from, char *to, size_t length)
{
	size_t at = (filter->tail_from + from) % filter->room;
	size_t first = length < filter->room - at ? length : filter->room - at;

	memcpy(to, filter->tail + at, first);
	memcpy(to + first, filter->tail, length - first);
}

static void drop_first_of_tail(struct maps_filter *filter)
{
	size_t length = 0;

	while (filter->tail[(filter->tail_from + length) % filter->room] != '\n')
		length++;
	length++;
	filter->tail_from = (filter->tail_from + length) % filter->room;
	filter->tail_bytes -= length;
	filter->left_out++;
}

/* line ends with a newline, and is not longer than the room. */
static int put_in_tail(struct maps_filter *filter, const char *line, size_t length)
{
	size_t at, first;

	if (!filter->tail && !(filter->tail = malloc(filter->room)))
		return -ENOMEM;
	while (filter->tail_bytes + length > filter->room)
		drop_first_of_tail(filter);
	at = (filter->tail_from + filter->tail_bytes) % filter->room;
	first = length < filter->room - at ? length : filter->room - at;
	memcpy(filter->tail + at, line, first);
	memcpy(filter->tail, line + first, length - first);
	filter->tail_bytes += length;
	return 0;
}

static int put(struct maps_filter *filter, const char *line, size_t length, uint64_t end)
{
	if (filter->tail || filter->head_bytes + length > filter->room)
		return put_in_tail(filter, line, length);
	filter->head_bytes += length;
	filter->head_end = end;
	return filter->write(filter->ctx, line, length);
}

/* A mapping that no code is in: its path says nothing. */
static int put_bare(struct maps_filter *filter, const struct proc_mapping *mapping)
{
	char line[128];
	int n = snprintf(
		line, sizeof(line),
		"%08" PRIx64 "-%08" PRIx64 " %c%c-%c %08" PRIx64 " %02x:%02x %" PRIu64 "\n",
		mapping->start, mapping->end, mapping->flags & MAP_READ ? 'r' : '-',
		mapping->flags & MAP_WRITE ? 'w' : '-', mapping->flags & MAP_IS_SHARED ? 's' : 'p',
		mapping->offset, mapping->dev >> 20, mapping->dev & 0xfffff, mapping->inode);

	return put(filter, line, (size_t)n, mapping->end);
}

static int put_top(struct maps_filter *filter)
{
	int err = filter->top.end ? put_bare(filter, &filter->top) : 0;

	filter->top.end = 0;
	return err;
}

/* The mappings before this one of the same file, lowest first. */
static int put_pending(struct maps_filter *filter, const struct proc_mapping *of)
{
	int err = 0;

	for (unsigned i = 0; i < filter->pending_count && !err; i++)
		if (filter->pending[i].inode == of->inode && filter->pending[i].dev == of->dev)
			err = put_bare(filter, &filter->pending[i]);
	filter->pending_count = 0;
	return err;
}

static void keep_pending(struct maps_filter *filter, const struct proc_mapping *mapping)
{
	if (filter->pending_count == MAPS_FILTER_PENDING)
		memmove(filter->pending, filter->pending + 1,
			--filter->pending_count * sizeof(*filter->pending));
	filter->pending[filter->pending_count++] = *mapping;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t n = strlen(end);

	return length > n && !memcmp(text + length - n, end, n);
}

/* Whether byte code may be in it, by its name: files as ART maps them, and memory that ART names
 * after what it unpacked ("dalvik-classes.dex extracted in memory from ...", "dalvik-DEX data",
 * art/libdexfile/dex/art_dex_file_loader.cc). */
static bool may_have_byte_code(const struct proc_mapping *mapping)
{
	static const char *const ends[] = {".apk", ".jar", ".vdex", ".dex"};
	static const char dalvik[] = "[anon:dalvik-", deleted[] = " (deleted)";
	size_t length = mapping->path_length;

	if (!(mapping->flags & MAP_READ) || !length)
		return false;
	if (length >= strlen(dalvik) && !memcmp(mapping->path, dalvik, strlen(dalvik)))
		return memmem(mapping->path, length, "dex", 3) ||
		       memmem(mapping->path, length, "DEX", 3);
	if (ends_with(mapping->path, length, deleted))
		length -= strlen(deleted);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_with(mapping->path, length, ends[i]))
			return true;
	return false;
}

int maps_filter_line(struct maps_filter *filter, const char *line, size_t length)
{
	struct proc_mapping mapping;
	char text[LINE_BYTES];
	int err = 0;

	/* A longer path is cut. */
	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	if (!proc_parse_mapping(line, line + length, &mapping))
		return 0;
	if (!(mapping.flags & MAP_EXEC) &&
	    (filter->byte_code == MAPS_FILTER_BYTE_CODE || !may_have_byte_code(&mapping))) {
		filter->top = mapping;
		if (mapping.inode)
			keep_pending(filter, &mapping);
		return 0;
	}
	filter->byte_code += !(mapping.flags & MAP_EXEC);
	/* What lies in the kernel's half ([vsyscall]) says nothing of the width. */
	if (mapping.end >> 52)
		err = put_top(filter);
	else
		filter->top.end = 0;
	if (!err)
		err = mapping.inode ? put_pending(filter, &mapping) : 0;
	memcpy(text, line, length);
	text[length] = '\n';
	return err ? err : put(filter, text, length + 1, mapping.end);
}

/* Where the lines in the middle were: from the end of the first half to the first line of the
 * second. */
static int put_left_out(struct maps_filter *filter)
{
	char line[LINE_BYTES], *end;
	size_t length = filter->tail_bytes < sizeof(line) ? filter->tail_bytes : sizeof(line);
	struct proc_mapping next;
	int n;

	copy_tail(filter, 0, line, length);
	end = memchr(line, '\n', length);
	if (!end || !proc_parse_mapping(line, end, &next) || next.start <= filter->head_end)
		return 0;
	n = snprintf(line, sizeof(line),
		     "%08" PRIx64 "-%08" PRIx64 " ---p 00000000 00:00 0 " PROC_MAPS_LEFT_OUT "\n",
		     filter->head_end, next.start);
	return filter->write(filter->ctx, line, (size_t)n);
}

int maps_filter_end(struct maps_filter *filter)
{
	int err = put_top(filter);

	if (!err && filter->tail && filter->left_out)
		err = put_left_out(filter);
	if (!err && filter->tail) {
		size_t first = filter->room - filter->tail_from;

		if (first > filter->tail_bytes)
			first = filter->tail_bytes;
		err = filter->write(filter->ctx, filter->tail + filter->tail_from, first);
		if (!err && first < filter->tail_bytes)
			err = filter->write(filter->ctx, filter->tail, filter->tail_bytes - first);
	}
	maps_filter_free(filter);
	return err;
}
