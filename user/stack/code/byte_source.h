/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that belong to an app: of a file, of memory of a process, or a copy. They may change or go
 * away between two reads, so that each value is checked as it was read, once. */
#pragma once
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct byte_source {
	/* All of the length bytes at offset, or -errno. */
	int (*read)(void *ctx, uint64_t offset, void *to, size_t length);
	void *ctx;
	uint64_t size; /* bytes that there are */
};

/* 0; -EBADMSG: not inside of the source; what its read says. */
static inline int byte_source_read(const struct byte_source *source, uint64_t offset, void *to,
				   size_t length)
{
	if (offset > source->size || length > source->size - offset)
		return -EBADMSG;
	return source->read(source->ctx, offset, to, length);
}

static inline uint16_t load_le16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t load_le32(const uint8_t *at)
{
	return load_le16(at) | (uint32_t)load_le16(at + 2) << 16;
}
