/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the wrapping off a trace: gzip, zlib behind "TRACE:", zstd, zip, tar, in any nesting up to
 * a depth, told by content and never by name. Bytes are pushed in and pushed on; nothing but the
 * windows of the inflaters is kept. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_format {
	TRACE_FORMAT_UNKNOWN = 0,
	TRACE_FORMAT_PROTO = 1,
	TRACE_FORMAT_TEXT = 2,
	TRACE_FORMAT_HTML = 3,
};

/* Where the bare bytes go. Each bare trace (a file, or a member of an archive) is one begin, any
 * number of data, one end. data and end may return a negative errno, which ends the feeding. */
struct container_ops {
	int (*begin)(void *ctx, enum trace_format format);
	int (*data)(void *ctx, const uint8_t *data, size_t size);
	int (*end)(void *ctx);
};

struct container;

/* NULL with errno on failure. */
struct container *container_new(const struct container_ops *ops, void *ctx);
void container_free(struct container *container);

/* Push the next bytes of the file. 0; -EBADMSG: damaged or not a trace; -EFBIG: too deep or it
 * inflates without end; else what a callback returned. container_error says it in words. */
int container_feed(struct container *container, const uint8_t *data, size_t size);

/* No more bytes come. 0, or as container_feed; a stream cut short is not an error but
 * container_truncated. */
int container_finish(struct container *container);

/* The file ends inside a compressed stream or a member. */
bool container_truncated(const struct container *container);
/* The outermost wrapping is none, so that offsets in the trace are offsets in the file. */
bool container_is_bare(const struct container *container);
/* One line about the failure with the offset in the file, "" when there was none. */
const char *container_error(const struct container *container);
