/* SPDX-License-Identifier: BSD-2-Clause */
/* The content of a segment as a stream, whether it is compressed or not. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "store/folder.h"

/* A frame that wants a larger window is none of ours (the levels in use need 8 MiB). */
#define WINDOW_LOG 23
#define IN_BYTES   (128u << 10)

struct unpacking {
	int fd;
	ZSTD_DStream *stream;
	ZSTD_inBuffer in;
	size_t want; /* 0: a frame has ended */
	char bytes[IN_BYTES];
};

static ssize_t unpack(void *cookie, char *to, size_t size)
{
	struct unpacking *u = cookie;
	ZSTD_outBuffer out = {to, size, 0};

	while (!out.pos) {
		if (u->in.pos == u->in.size) {
			ssize_t n = read(u->fd, u->bytes, sizeof(u->bytes));

			if (n < 0)
				return -1;
			if (!n && u->want) {
				errno = EBADMSG; /* cut off inside of a frame */
				return -1;
			}
			if (!n)
				return 0;
			u->in = (ZSTD_inBuffer){u->bytes, (size_t)n, 0};
		}
		u->want = ZSTD_decompressStream(u->stream, &out, &u->in);
		if (ZSTD_isError(u->want)) {
			errno = EBADMSG;
			return -1;
		}
	}
	return (ssize_t)out.pos;
}

static int unpack_close(void *cookie)
{
	struct unpacking *u = cookie;

	ZSTD_freeDStream(u->stream);
	close(u->fd);
	free(u);
	return 0;
}

static FILE *open_packed(int fd)
{
	const cookie_io_functions_t functions = {.read = unpack, .close = unpack_close};
	struct unpacking *u = calloc(1, sizeof(*u));
	FILE *file = NULL;

	if (u)
		u->stream = ZSTD_createDStream();
	if (u && u->stream) {
		u->fd = fd;
		u->want = 1;
		ZSTD_DCtx_setParameter(u->stream, ZSTD_d_windowLogMax, WINDOW_LOG);
		file = fopencookie(u, "r", functions);
	}
	if (file)
		return file;
	if (u)
		ZSTD_freeDStream(u->stream);
	free(u);
	close(fd);
	errno = ENOMEM;
	return NULL;
}

static FILE *open_file(int dir_fd, const char *name, int flags)
{
	static const unsigned char magic[] = {0x28, 0xb5, 0x2f, 0xfd};
	unsigned char head[4];
	FILE *file;
	/* With O_NONBLOCK a FIFO is not waited for. */
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	struct stat status;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) || S_ISDIR(status.st_mode)) {
		close(fd);
		errno = EISDIR;
		return NULL;
	}
	if (!S_ISREG(status.st_mode))
		fcntl(fd, F_SETFL, 0);
	if (S_ISREG(status.st_mode) && pread(fd, head, sizeof(head), 0) == sizeof(head) &&
	    !memcmp(head, magic, sizeof(magic)))
		return open_packed(fd);
	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

FILE *segment_open_file(int dir_fd, const char *name)
{
	return open_file(dir_fd, name, 0);
}

FILE *segment_open(int dir_fd, uint64_t number, bool *packed)
{
	char name[SEGMENT_NAME];
	struct stat status;

	/* It is compressed while it is looked for, maybe. */
	for (int tries = 0; tries < 4; tries++) {
		*packed = tries & 1;
		if (!fstatat(dir_fd, segment_name(name, number, *packed), &status,
			     AT_SYMLINK_NOFOLLOW)) {
			FILE *file;

			if (!S_ISREG(status.st_mode)) {
				errno = ELOOP;
				return NULL;
			}
			file = open_file(dir_fd, name, O_NOFOLLOW);
			if (file || errno != ENOENT)
				return file;
		}
	}
	errno = ENOENT;
	return NULL;
}
