/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps of a process, as far as a stack can need them. They are read piece by piece: a process
 * may have 65,000 mappings (and root gives it more), and neither the prober nor whoever gets the
 * answer holds more for that. */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prober/maps_filter.h"
#include "prober/pool_wire.h"

/* The sizes of a memfd's pages decide on what a write of it costs. */
#define WRITE_BYTES 4096

struct result {
	int memory;
	size_t bytes, waiting;
	char text[WRITE_BYTES];
};

static int flush(struct result *result)
{
	if (result->waiting &&
	    write(result->memory, result->text, result->waiting) != (ssize_t)result->waiting)
		return -ENOMEM;
	result->bytes += result->waiting;
	result->waiting = 0;
	return 0;
}

static int take(void *ctx, const char *text, size_t length)
{
	struct result *result = ctx;
	int err = 0;

	while (length && !err) {
		size_t n = sizeof(result->text) - result->waiting;

		if (n > length)
			n = length;
		memcpy(result->text + result->waiting, text, n);
		result->waiting += n;
		text += n;
		length -= n;
		if (result->waiting == sizeof(result->text))
			err = flush(result);
	}
	return err;
}

/* Read the file through the filter; buffer has room for PROBE_BYTES. */
static int filter_file(int fd, char *buffer, struct maps_filter *filter)
{
	size_t held = 0;
	bool skips = false; /* the rest of a line that is longer than the buffer */
	ssize_t n;

	while ((n = probe_read_once(fd, buffer + held, PROBE_BYTES - held)) > 0) {
		char *line = buffer, *end = buffer + held + n, *newline;
		int err = 0;

		while (!err && (newline = memchr(line, '\n', (size_t)(end - line)))) {
			if (!skips)
				err = maps_filter_line(filter, line, (size_t)(newline - line));
			skips = false;
			line = newline + 1;
		}
		if (err)
			return err;
		held = (size_t)(end - line);
		if (held == PROBE_BYTES) {
			held = 0;
			skips = true;
		}
		memmove(buffer, line, held);
	}
	return (int)n;
}

int probe_read_maps(const struct probe_request *request, struct reply *reply)
{
	struct result result = {.memory = -1};
	struct maps_filter filter;
	int dir = probe_open_process(request), fd, err;

	if (dir < 0)
		return dir;
	fd = openat(dir, "maps", O_RDONLY | O_CLOEXEC);
	err = fd < 0 ? -errno : 0;
	close(dir);
	if (err)
		return err;
	result.memory =
		(int)syscall(SYS_memfd_create, "jankscope", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (result.memory < 0)
		err = -errno;
	maps_filter_init(&filter, MAPS_FILTER_BYTES, take, &result);
	if (!err)
		err = filter_file(fd, (char *)reply->data, &filter);
	close(fd);
	if (err)
		maps_filter_free(&filter);
	else
		err = maps_filter_end(&filter);
	if (!err)
		err = flush(&result);
	if (!err && fcntl(result.memory, F_ADD_SEALS,
			  F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		err = -errno;
	if (err) {
		if (result.memory >= 0)
			close(result.memory);
		return err;
	}
	reply->value = (int64_t)result.bytes;
	reply->fds[reply->fd_count++] = result.memory;
	return 0;
}
