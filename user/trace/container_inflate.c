/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of deflate and zstd. */
#include "trace/container_private.h"
#include <errno.h>
#include <stdlib.h>

#define OUT_BYTES       (128 * 1024)
#define ZSTD_WINDOW_LOG 25 /* 32 MiB: the largest window that a reader must accept is 8 MiB */

int container_inflate(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		      size_t size, size_t *used, bool *over)
{
	int err;

	*over = false;
	level->z.next_in = (uint8_t *)data;
	level->z.avail_in = (unsigned)size;
	do {
		int rc;

		level->z.next_out = level->out;
		level->z.avail_out = OUT_BYTES;
		rc = inflate(&level->z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return container_fail(
				c, -EBADMSG, "damaged deflate stream near byte %llu",
				(unsigned long long)(c->in_bytes - level->z.avail_in));
		err = container_emit(c, level, depth, level->out, OUT_BYTES - level->z.avail_out);
		if (err)
			return err;
		*over = rc == Z_STREAM_END;
		if (rc == Z_BUF_ERROR)
			break;
	} while (!*over && (level->z.avail_in || !level->z.avail_out));
	*used = size - level->z.avail_in;
	return 0;
}

int container_inflate_start(struct level *level, int window_bits)
{
	if (!level->out && !(level->out = malloc(OUT_BYTES)))
		return -ENOMEM;
	if (level->z_ready)
		return inflateReset2(&level->z, window_bits) == Z_OK ? 0 : -ENOMEM;
	if (inflateInit2(&level->z, window_bits) != Z_OK)
		return -ENOMEM;
	level->z_ready = true;
	return 0;
}

int container_deflate(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		      size_t size)
{
	int window_bits = level->wrapping == WRAP_GZIP ? 15 + 16 : 15;

	while (size) {
		size_t used;
		bool over;
		int err;

		if (level->ended) {
			/* another gzip member, or garbage and padding that nobody needs */
			if (level->wrapping != WRAP_GZIP || data[0] != 0x1f)
				return 0;
			level->ended = false;
			level->inside = true;
			err = container_inflate_start(level, window_bits);
			if (err)
				return err;
		}
		if (!level->z_ready) {
			err = container_inflate_start(level, window_bits);
			if (err)
				return err;
		}
		err = container_inflate(c, level, depth, data, size, &used, &over);
		if (err)
			return err;
		data += used;
		size -= used;
		if (over) {
			level->ended = true;
			level->inside = false;
		}
	}
	return 0;
}

int container_zstd(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		   size_t size)
{
	ZSTD_inBuffer in = {data, size, 0};
	bool full = false;

	if (!level->zstd) {
		level->zstd = ZSTD_createDStream();
		level->out = malloc(OUT_BYTES);
		if (!level->zstd || !level->out)
			return -ENOMEM;
		ZSTD_DCtx_setParameter(level->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
	}
	while (in.pos < in.size || full) {
		ZSTD_outBuffer out = {level->out, OUT_BYTES, 0};
		size_t rc = ZSTD_decompressStream(level->zstd, &out, &in);
		int err;

		if (ZSTD_isError(rc)) {
			if (level->ended)
				return 0; /* garbage behind it */
			return container_fail(
				c, -EBADMSG, "damaged zstd stream near byte %llu: %s",
				(unsigned long long)(c->in_bytes - (in.size - in.pos)),
				ZSTD_getErrorName(rc));
		}
		err = container_emit(c, level, depth, out.dst, out.pos);
		if (err)
			return err;
		level->ended = rc == 0;
		level->inside = rc != 0;
		full = out.pos == OUT_BYTES;
	}
	return 0;
}
