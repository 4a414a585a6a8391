/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/container.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define MAX_DEPTH   4
#define SNIFF_BYTES 4096
#define OUT_BYTES   (128 * 1024)
/* deflate reaches 1032:1 at most; a trace that compresses better than this is an attack. */
#define MAX_RATIO       1100
#define RATIO_FREE      (256ULL << 20)
#define ZIP_HEADER      30
#define TAR_BLOCK       512
#define ZSTD_WINDOW_LOG 25 /* 32 MiB: the largest window that a reader must accept is 8 MiB */

enum wrapping { WRAP_UNDECIDED, WRAP_GZIP, WRAP_ZLIB, WRAP_ZSTD, WRAP_ZIP, WRAP_TAR, WRAP_NONE };

enum zip_state { ZIP_HEAD, ZIP_NAME, ZIP_STORED, ZIP_DEFLATED, ZIP_AFTER, ZIP_DONE };

struct level {
	enum wrapping wrapping;
	enum trace_format format;
	uint8_t sniff[SNIFF_BYTES];
	size_t sniffed;
	bool begun;  /* the bare trace was announced */
	bool ended;  /* the compressed stream is over; what follows is ignored */
	bool inside; /* a stream or a member is open */
	z_stream z;
	bool z_ready;
	ZSTD_DStream *zstd;
	uint8_t *out;
	/* zip and tar */
	enum zip_state zip;
	uint8_t header[TAR_BLOCK];
	size_t header_used;
	uint64_t skip, left;
	unsigned method, flags;
	bool member;
	struct level *inner;
};

struct container {
	const struct container_ops *ops;
	void *ctx;
	struct level *outer;
	uint64_t in_bytes, out_bytes, trailing;
	bool truncated;
	int failed;
	char error[200];
};

static int feed(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		size_t size);
static int finish(struct container *c, struct level *level, unsigned depth);

static int __attribute__((format(printf, 3, 4)))
fail(struct container *c, int err, const char *fmt, ...)
{
	va_list ap;

	if (c->error[0])
		return err;
	va_start(ap, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, ap);
	va_end(ap);
	return err;
}

static struct level *level_new(void)
{
	return calloc(1, sizeof(struct level));
}

static void level_free(struct level *level)
{
	if (!level)
		return;
	if (level->z_ready)
		inflateEnd(&level->z);
	ZSTD_freeDStream(level->zstd);
	level_free(level->inner);
	free(level->out);
	free(level);
}

struct container *container_new(const struct container_ops *ops, void *ctx)
{
	struct container *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ops = ops;
	c->ctx = ctx;
	c->outer = level_new();
	if (!c->outer) {
		free(c);
		return NULL;
	}
	return c;
}

void container_free(struct container *c)
{
	if (!c)
		return;
	level_free(c->outer);
	free(c);
}

/* Text has no control characters but white space and escapes of a terminal. */
static bool is_text(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t b = data[i];

		if (b < 0x20 && b != '\n' && b != '\r' && b != '\t' && b != 0x1b && b != '\f')
			return false;
		if (b == 0x7f)
			return false;
	}
	return size > 0;
}

/* Where the zlib stream behind "TRACE:" starts; 0: there is none. atrace -z prints its progress
 * ("capturing trace... done") before it. */
static size_t find_ctrace(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 8 < size && i < 512; i++) {
		size_t at = i + 6;

		if (memcmp(data + i, "TRACE:", 6))
			continue;
		if (data[at] == '\r')
			at++;
		if (at + 2 < size && data[at] == '\n' && data[at + 1] == 0x78 &&
		    ((data[at + 1] << 8) | data[at + 2]) % 31 == 0)
			return at + 1;
	}
	return 0;
}

static bool starts_like_html(const uint8_t *data, size_t size)
{
	size_t i = 0;

	if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3))
		i = 3;
	while (i < size &&
	       (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t'))
		i++;
	return size - i >= 6 && (!strncasecmp((const char *)data + i, "<!doct", 6) ||
				 !strncasecmp((const char *)data + i, "<html", 5));
}

/* Decide what the level is from its first bytes. skip: bytes before the payload. */
static int sniff(struct container *c, struct level *level, unsigned depth, bool final, size_t *skip)
{
	const uint8_t *d = level->sniff;
	size_t n = level->sniffed, zlib_at;
	bool wrapped = true;

	*skip = 0;
	if (n >= 2 && d[0] == 0x1f && d[1] == 0x8b) {
		level->wrapping = WRAP_GZIP;
	} else if (n >= 4 && !memcmp(d, "\x28\xb5\x2f\xfd", 4)) {
		level->wrapping = WRAP_ZSTD;
	} else if (n >= 4 && !memcmp(d, "PK\3\4", 4)) {
		level->wrapping = WRAP_ZIP;
	} else if (n >= 263 && !memcmp(d + 257, "ustar", 5)) {
		level->wrapping = WRAP_TAR;
	} else if ((zlib_at = find_ctrace(d, n))) {
		level->wrapping = WRAP_ZLIB;
		*skip = zlib_at;
	} else {
		wrapped = false;
		level->wrapping = WRAP_NONE;
	}
	if (wrapped) {
		if (depth + 1 > MAX_DEPTH)
			return fail(c, -EFBIG, "wrapped more than %d times at byte %llu", MAX_DEPTH,
				    (unsigned long long)c->in_bytes);
		level->inside = true;
		return 0;
	}
	if (starts_like_html(d, n))
		level->format = TRACE_FORMAT_HTML;
	else if (is_text(d, n))
		level->format = TRACE_FORMAT_TEXT;
	else if (n && d[0] == 0x0a)
		level->format = TRACE_FORMAT_PROTO;
	else if (depth == 0)
		return fail(c, -EBADMSG, "not a trace: unknown content at byte 0");
	else
		return fail(c, -EBADMSG,
			    "not a trace: unknown content inside the wrapping, near byte %llu",
			    (unsigned long long)c->in_bytes);
	return 0;
}

static int emit(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		size_t size)
{
	c->out_bytes += size;
	if (c->out_bytes > RATIO_FREE + c->in_bytes * MAX_RATIO)
		return fail(c, -EFBIG, "inflates without end: %llu bytes out of %llu",
			    (unsigned long long)c->out_bytes, (unsigned long long)c->in_bytes);
	if (!level->inner) {
		level->inner = level_new();
		if (!level->inner)
			return -ENOMEM;
	}
	return feed(c, level->inner, depth + 1, data, size);
}

/* The member or stream is over: what is inside it ends too. */
static int end_inner(struct container *c, struct level *level, unsigned depth)
{
	int err = 0;

	if (level->inner)
		err = finish(c, level->inner, depth + 1);
	level_free(level->inner);
	level->inner = NULL;
	return err;
}

/* Inflate what comes, and stop at the end of the stream. used: bytes taken from data. */
static int inflate_some(struct container *c, struct level *level, unsigned depth,
			const uint8_t *data, size_t size, size_t *used, bool *over)
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
			return fail(c, -EBADMSG, "damaged deflate stream near byte %llu",
				    (unsigned long long)(c->in_bytes - level->z.avail_in));
		err = emit(c, level, depth, level->out, OUT_BYTES - level->z.avail_out);
		if (err)
			return err;
		*over = rc == Z_STREAM_END;
		if (rc == Z_BUF_ERROR)
			break;
	} while (!*over && (level->z.avail_in || !level->z.avail_out));
	*used = size - level->z.avail_in;
	return 0;
}

static int inflate_start(struct level *level, int window_bits)
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

static int feed_deflate(struct container *c, struct level *level, unsigned depth,
			const uint8_t *data, size_t size)
{
	int window_bits = level->wrapping == WRAP_GZIP ? 15 + 16 : 15;

	while (size) {
		size_t used;
		bool over;
		int err;

		if (level->ended) {
			/* another gzip member, or garbage and padding that nobody needs */
			if (level->wrapping != WRAP_GZIP || data[0] != 0x1f) {
				c->trailing += size;
				return 0;
			}
			level->ended = false;
			level->inside = true;
			err = inflate_start(level, window_bits);
			if (err)
				return err;
		}
		if (!level->z_ready) {
			err = inflate_start(level, window_bits);
			if (err)
				return err;
		}
		err = inflate_some(c, level, depth, data, size, &used, &over);
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

static int feed_zstd(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
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
			if (level->ended) {
				c->trailing += size - in.pos;
				return 0;
			}
			return fail(c, -EBADMSG, "damaged zstd stream near byte %llu: %s",
				    (unsigned long long)(c->in_bytes - (in.size - in.pos)),
				    ZSTD_getErrorName(rc));
		}
		err = emit(c, level, depth, out.dst, out.pos);
		if (err)
			return err;
		level->ended = rc == 0;
		level->inside = rc != 0;
		full = out.pos == OUT_BYTES;
	}
	return 0;
}

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
		return fail(c, -EBADMSG, "the zip is encrypted, near byte %llu",
			    (unsigned long long)c->in_bytes);
	if (level->method != 0 && level->method != 8)
		return fail(c, -EBADMSG, "zip method %u is not supported, near byte %llu",
			    level->method, (unsigned long long)c->in_bytes);
	if (level->method == 0 && (level->flags & 8) && level->left == 0)
		return fail(c, -EBADMSG, "a stored zip member without a size, near byte %llu",
			    (unsigned long long)c->in_bytes);
	level->zip = ZIP_NAME;
	return 0;
}

static int zip_end_member(struct container *c, struct level *level, unsigned depth)
{
	level->header_used = 0;
	level->zip = level->flags & 8 ? ZIP_AFTER : ZIP_HEAD;
	level->skip = 0;
	return end_inner(c, level, depth);
}

static int feed_zip(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
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
				err = inflate_start(level, -15);
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
			err = emit(c, level, depth, data, take);
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

			err = inflate_some(c, level, depth, data, size, &take, &over);
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
					return fail(c, -EBADMSG,
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

static int feed_tar(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		    size_t size)
{
	while (size) {
		size_t take;
		int err;

		if (level->left || level->skip) {
			uint64_t *which = level->left ? &level->left : &level->skip;

			take = *which < size ? *which : size;
			if (level->left && level->member) {
				err = emit(c, level, depth, data, take);
				if (err)
					return err;
			}
			*which -= take;
			if (which == &level->left && !level->left && level->member) {
				err = end_inner(c, level, depth);
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

static int feed_payload(struct container *c, struct level *level, unsigned depth,
			const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (level->wrapping) {
	case WRAP_GZIP:
	case WRAP_ZLIB:
		return feed_deflate(c, level, depth, data, size);
	case WRAP_ZSTD:
		return feed_zstd(c, level, depth, data, size);
	case WRAP_ZIP:
		return feed_zip(c, level, depth, data, size);
	case WRAP_TAR:
		return feed_tar(c, level, depth, data, size);
	case WRAP_NONE:
		return c->ops->data(c->ctx, data, size);
	case WRAP_UNDECIDED:
		break;
	}
	return -EINVAL;
}

static int decide(struct container *c, struct level *level, unsigned depth, bool final)
{
	size_t skip;
	int err = sniff(c, level, depth, final, &skip);

	if (err)
		return err;
	if (level->wrapping == WRAP_NONE) {
		err = c->ops->begin(c->ctx, level->format);
		if (err)
			return err;
		level->begun = true;
	}
	return feed_payload(c, level, depth, level->sniff + skip, level->sniffed - skip);
}

static int feed(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		size_t size)
{
	if (level->wrapping == WRAP_UNDECIDED) {
		size_t take = SNIFF_BYTES - level->sniffed;
		int err;

		take = take < size ? take : size;
		memcpy(level->sniff + level->sniffed, data, take);
		level->sniffed += take;
		if (level->sniffed < SNIFF_BYTES)
			return 0;
		err = decide(c, level, depth, false);
		if (err)
			return err;
		data += take;
		size -= take;
	}
	return feed_payload(c, level, depth, data, size);
}

static int finish(struct container *c, struct level *level, unsigned depth)
{
	int err = 0;

	if (level->wrapping == WRAP_UNDECIDED) {
		if (!level->sniffed)
			return depth ? 0 : fail(c, -EBADMSG, "empty: no byte to read");
		err = decide(c, level, depth, true);
		if (err)
			return err;
	}
	if (level->inside)
		c->truncated = true;
	if (level->inner)
		err = end_inner(c, level, depth);
	if (level->begun) {
		int end_err = c->ops->end(c->ctx);

		level->begun = false;
		err = err ? err : end_err;
	}
	return err;
}

/* After a failure what was read so far still counts: tell the innermost trace that it ended. */
static void end_begun(struct container *c, struct level *level)
{
	for (; level; level = level->inner) {
		if (level->begun) {
			level->begun = false;
			c->ops->end(c->ctx);
		}
	}
}

int container_feed(struct container *c, const uint8_t *data, size_t size)
{
	if (c->failed)
		return c->failed;
	c->in_bytes += size;
	c->failed = feed(c, c->outer, 0, data, size);
	return c->failed;
}

int container_finish(struct container *c)
{
	if (!c->failed)
		c->failed = finish(c, c->outer, 0);
	end_begun(c, c->outer);
	return c->failed;
}

bool container_truncated(const struct container *c)
{
	return c->truncated;
}

uint64_t container_trailing_bytes(const struct container *c)
{
	return c->trailing;
}

bool container_is_bare(const struct container *c)
{
	return c->outer->wrapping == WRAP_NONE;
}

const char *container_error(const struct container *c)
{
	return c->error;
}
