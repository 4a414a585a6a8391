/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the container share: the levels of wrapping (container.c), how each is told
 * (container_sniff.c) and how it is taken off (container_inflate.c, container_archive.c). */
#pragma once
#include "trace/container.h"
#include <zlib.h>
#include <zstd.h>

#define CONTAINER_MAX_DEPTH 4
#define SNIFF_BYTES         4096
#define TAR_BLOCK           512

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
	uint64_t in_bytes, out_bytes;
	bool truncated;
	int failed;
	char error[200];
};

/* Say what is wrong, if nothing was said before, and give err back. */
int __attribute__((format(printf, 3, 4)))
container_fail(struct container *c, int err, const char *fmt, ...);

/* Decide what a level is from its first bytes. skip: bytes before the payload. 0, -EBADMSG: it is
 * nothing known, -EFBIG: wrapped too often. */
int container_sniff(struct container *c, struct level *level, unsigned depth, size_t *skip);

/* Bytes that came out of a level's wrapping. */
int container_emit(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		   size_t size);
/* The member or stream is over: what is inside it ends too. */
int container_end_inner(struct container *c, struct level *level, unsigned depth);

/* Take off a wrapping, as far as the bytes go. 0, -EBADMSG, -EFBIG, -ENOMEM. */
int container_deflate(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		      size_t size);
int container_zstd(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		   size_t size);
int container_zip(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		  size_t size);
int container_tar(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		  size_t size);

/* Begin a deflate stream. */
int container_inflate_start(struct level *level, int window_bits);
/* Inflate what comes, and stop at the end of the stream. used: bytes taken from data. */
int container_inflate(struct container *c, struct level *level, unsigned depth, const uint8_t *data,
		      size_t size, size_t *used, bool *over);
