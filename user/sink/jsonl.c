/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink/json_record.h"

struct jsonl_sink {
	struct sink base;
	int fd;
	bool owned, regular, made, begun;
	off_t good; /* end of the last whole line; regular files only */
	char *path;
};

/* No stdio: a line that was acknowledged is in the kernel, and survives our SIGKILL. */
static int write_all(int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = write(fd, data, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		length -= (size_t)n;
	}
	return 0;
}

static int jsonl_write(struct sink *sink, const struct record *record)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;
	size_t length;
	char *line = record_to_line(record, &length);
	int err;

	if (!line)
		return -ENOMEM;
	/* What the file held before goes only now that there is something to take its place. */
	if (jsonl->regular && !jsonl->begun && ftruncate(jsonl->fd, 0)) {
		err = -errno;
		fprintf(stderr, "jankscope: error: cannot write %s: %s\n", jsonl->path,
			strerror(errno));
		free(line);
		return err;
	}
	jsonl->begun = true;
	err = write_all(jsonl->fd, line, length);
	free(line);
	if (!err) {
		jsonl->good += (off_t)length;
		return 0;
	}
	if (err == -EPIPE)
		return err;
	/* A full disk takes part of a line: cut it off again. */
	if (jsonl->regular && ftruncate(jsonl->fd, jsonl->good))
		fprintf(stderr, "jankscope: warn: %s ends in a torn line: %s\n", jsonl->path,
			strerror(errno));
	fprintf(stderr,
		"jankscope: error: cannot write %s: %s; %lld bytes of whole records are kept\n",
		jsonl->path, strerror(-err), (long long)jsonl->good);
	return err;
}

static int jsonl_close(struct sink *sink)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;
	int err = 0;

	if (jsonl->made && !jsonl->begun)
		unlink(jsonl->path);
	if (jsonl->owned && close(jsonl->fd))
		err = -errno;
	free(jsonl->path);
	free(jsonl);
	return err;
}

static const struct sink_ops jsonl_ops = {
	.name = "jsonl",
	.write = jsonl_write,
	.close = jsonl_close,
};

static struct sink *make(int fd, const char *path, bool owned)
{
	struct jsonl_sink *jsonl = calloc(1, sizeof(*jsonl));
	struct stat status;

	if (jsonl)
		jsonl->path = strdup(path);
	if (!jsonl || !jsonl->path) {
		free(jsonl);
		errno = ENOMEM;
		return NULL;
	}
	jsonl->base.ops = &jsonl_ops;
	jsonl->fd = fd;
	jsonl->owned = owned;
	jsonl->regular = owned && !fstat(fd, &status) && S_ISREG(status.st_mode);
	return &jsonl->base;
}

struct sink *jsonl_sink_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool made = fd >= 0;
	struct sink *sink;

	if (!made)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return NULL;
	sink = make(fd, path, true);
	if (sink)
		((struct jsonl_sink *)sink)->made = made;
	else
		close(fd);
	return sink;
}

struct sink *jsonl_sink_fd(int fd)
{
	return make(fd, "stdout", false);
}
