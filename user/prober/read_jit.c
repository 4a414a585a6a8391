/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of a runtime's code (jit_list.h), handed on in memory that the target has no say in. */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prober/jit_list.h"
#include "prober/pool_wire.h"

static int write_all(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t n = write(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ENOMEM;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

/* A sealed memfd of the list, or -errno. */
static int seal(const struct jit_list *list)
{
	int fd = (int)syscall(SYS_memfd_create, "jankscope", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = fd < 0 ? -errno : 0;

	err = err ?: write_all(fd, &list->header, sizeof(list->header));
	err = err ?: write_all(fd, list->entries, list->header.count * sizeof(*list->entries));
	err = err ?: write_all(fd, list->bytes, list->header.bytes);
	if (!err &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ?: fd;
}

int probe_read_jit_list(const struct probe_request *request, struct reply *reply)
{
	struct jit_list_request wanted = {.descriptor = request->address,
					  .known = request->argument,
					  .since = request->offset,
					  .symfiles = request->length};
	int dir = probe_open_process(request), fd = -1, err;
	struct jit_list list;

	if (dir < 0)
		return dir;
	err = jit_list_read_process(request->pid, &wanted, &list);
	if (err > 0) {
		fd = seal(&list);
		reply->value =
			(int64_t)(sizeof(list.header) + list.header.count * sizeof(*list.entries) +
				  list.header.bytes);
		jit_list_free(&list);
		err = fd < 0 ? fd : 0;
	}
	/* The pid may have become another's before the copy. */
	err = err ?: probe_still_there(dir);
	close(dir);
	if (err && fd >= 0)
		close(fd);
	else if (!err && fd >= 0)
		reply->fds[reply->fd_count++] = fd;
	return err;
}
