/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/container_private.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Real traces compress 3:1 to 30:1 (deflate) and idle ones 100:1; deflate reaches 1032:1 at most.
 * What is better than this beyond the first part is an attack, or holds nothing. */
#define MAX_RATIO  256
#define RATIO_FREE (256ULL << 20)

static int feed(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		size_t size);
static int finish(struct container *c, struct level *level, unsigned depth);

int container_fail(struct container *c, int err, const char *fmt, ...)
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

int container_emit(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		   size_t size)
{
	c->out_bytes += size;
	if (c->out_bytes > RATIO_FREE + c->in_bytes * MAX_RATIO)
		return container_fail(c, -EFBIG, "inflates without end: %llu bytes out of %llu",
				      (unsigned long long)c->out_bytes,
				      (unsigned long long)c->in_bytes);
	if (!level->inner) {
		level->inner = level_new();
		if (!level->inner)
			return -ENOMEM;
	}
	return feed(c, level->inner, depth + 1, data, size);
}

int container_end_inner(struct container *c, struct level *level, unsigned depth)
{
	int err = 0;

	if (level->inner)
		err = finish(c, level->inner, depth + 1);
	level_free(level->inner);
	level->inner = NULL;
	return err;
}

static int feed_payload(struct container *c, struct level *level, unsigned depth,
			const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (level->wrapping) {
	case WRAP_GZIP:
	case WRAP_ZLIB:
		return container_deflate(c, level, depth, data, size);
	case WRAP_ZSTD:
		return container_zstd(c, level, depth, data, size);
	case WRAP_ZIP:
		return container_zip(c, level, depth, data, size);
	case WRAP_TAR:
		return container_tar(c, level, depth, data, size);
	case WRAP_NONE:
		return c->ops->data(c->ctx, data, size);
	case WRAP_UNDECIDED:
		break;
	}
	return -EINVAL;
}

static int decide(struct container *c, struct level *level, unsigned depth)
{
	size_t skip;
	int err = container_sniff(c, level, depth, &skip);

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
		err = decide(c, level, depth);
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
			return depth ? 0 : container_fail(c, -EBADMSG, "empty: no byte to read");
		err = decide(c, level, depth);
		if (err)
			return err;
	}
	if (level->inside)
		c->truncated = true;
	if (level->inner)
		err = container_end_inner(c, level, depth);
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

bool container_is_bare(const struct container *c)
{
	return c->outer->wrapping == WRAP_NONE;
}

const char *container_error(const struct container *c)
{
	return c->error;
}
