/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of zip and tar archives. */
#include "trace/container_private.h"
#include <errno.h>
#include <string.h>

#define ZIP_HEADER 30

static uint32_t le32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t le16(const uint8_t *p)
{
	return p[0] | p[1] << 8;
}

/* A local file header (APPNOTE 4.3.7) is complete. */
static int zip_header(struct container *c, struct level *level)
{
	const uint8_t *h = level->header;

	if (memcmp(h, "PK\3\4", 4)) {
		/* PK\1\2: the central directory. A data descriptor is skipped by its signature. */
		level->zip = ZIP_DONE;
		level->inside = false;
		return 0;
	}
	level->flags = le16(h + 6);
	level->method = le16(h + 8);
	level->left = le32(h + 18);
	level->skip = le16(h + 26) + le16(h + 28);
	if (level->flags & 1)
		return container_fail(c, -EBADMSG, "the zip is encrypted, near byte %llu",
				      (unsigned long long)c->in_bytes);
	if (level->method != 0 && level->method != 8)
		return container_fail(c, -EBADMSG, "zip method %u is not supported, near byte %llu",
				      level->method, (unsigned long long)c->in_bytes);
	if (level->method == 0 && (level->flags & 8) && level->left == 0)
		return container_fail(c, -EBADMSG,
				      "a stored zip member without a size, near byte %llu",
				      (unsigned long long)c->in_bytes);
	level->zip = ZIP_NAME;
	return 0;
}

static int zip_end_member(struct container *c, struct level *level, unsigned depth)
{
	level->header_used = 0;
	level->zip = level->flags & 8 ? ZIP_AFTER : ZIP_HEAD;
	level->skip = 0;
	return container_end_inner(c, level, depth);
}

int container_zip(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		  size_t size)
{
	while (size) {
		size_t take;
		int err;

		switch (level->zip) {
		case ZIP_HEAD:
			level->inside = true;
			take = ZIP_HEADER - level->header_used;
			take = take < size ? take : size;
			memcpy(level->header + level->header_used, data, take);
			level->header_used += take;
			/* the central directory is shorter than a header when it is the last thing
			 */
			if (level->header_used >= 4 && memcmp(level->header, "PK\3\4", 4)) {
				level->zip = ZIP_DONE;
				level->inside = false;
			} else if (level->header_used == ZIP_HEADER) {
				err = zip_header(c, level);
				if (err)
					return err;
			}
			break;
		case ZIP_NAME:
			take = level->skip < size ? level->skip : size;
			level->skip -= take;
			if (level->skip)
				break;
			if (level->method == 8) {
				err = container_inflate_start(level, -15);
				if (err)
					return err;
				level->zip = ZIP_DEFLATED;
			} else {
				level->zip = ZIP_STORED;
			}
			if (level->zip == ZIP_STORED && !level->left) {
				err = zip_end_member(c, level, depth);
				if (err)
					return err;
			}
			break;
		case ZIP_STORED:
			take = level->left < size ? level->left : size;
			err = container_emit(c, level, depth, data, take);
			if (err)
				return err;
			level->left -= take;
			if (!level->left) {
				err = zip_end_member(c, level, depth);
				if (err)
					return err;
			}
			break;
		case ZIP_DEFLATED: {
			bool over;

			err = container_inflate(c, level, depth, data, size, &take, &over);
			if (err)
				return err;
			if (over) {
				err = zip_end_member(c, level, depth);
				if (err)
					return err;
			}
			break;
		}
		case ZIP_AFTER: {
			/* a data descriptor: [PK\7\8] crc, sizes of 4 or 8 bytes; look for the next
			 * signature within its longest form */
			take = 1;
			level->header[level->header_used++] = *data;
			if (level->header_used >= 4) {
				const uint8_t *tail = level->header + level->header_used - 4;

				if (!memcmp(tail, "PK\3\4", 4) || !memcmp(tail, "PK\1\2", 4)) {
					memmove(level->header, tail, 4);
					level->header_used = 4;
					level->zip = ZIP_HEAD;
				} else if (level->header_used > 32) {
					return container_fail(
						c, -EBADMSG,
						"damaged zip after a member, near byte %llu",
						(unsigned long long)c->in_bytes);
				}
			}
			break;
		}
		default:
			return 0;
		}
		data += take;
		size -= take;
	}
	return 0;
}

static uint64_t tar_size(const uint8_t *field)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 12 && field[i]; i++) {
		if (field[i] >= '0' && field[i] <= '7')
			value = value * 8 + (field[i] - '0');
	}
	return value;
}

int container_tar(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		  size_t size)
{
	while (size) {
		size_t take;
		int err;

		if (level->left || level->skip) {
			uint64_t *which = level->left ? &level->left : &level->skip;

			take = *which < size ? *which : size;
			if (level->left && level->member) {
				err = container_emit(c, level, depth, data, take);
				if (err)
					return err;
			}
			*which -= take;
			if (which == &level->left && !level->left && level->member) {
				err = container_end_inner(c, level, depth);
				if (err)
					return err;
				level->member = false;
			}
		} else {
			take = TAR_BLOCK - level->header_used;
			take = take < size ? take : size;
			memcpy(level->header + level->header_used, data, take);
			level->header_used += take;
			if (level->header_used == TAR_BLOCK) {
				level->header_used = 0;
				level->inside = level->header[0] != 0;
				level->left = level->inside ? tar_size(level->header + 124) : 0;
				level->skip = (TAR_BLOCK - level->left % TAR_BLOCK) % TAR_BLOCK;
				/* '0' or NUL: a file; anything else is metadata */
				level->member = level->inside && (level->header[156] == '0' ||
								  level->header[156] == 0);
			}
		}
		data += take;
		size -= take;
	}
	return 0;
}
