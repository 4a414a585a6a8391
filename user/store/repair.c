/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/repair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/folder.h"
#include "store/scan.h"
#include "store/store.h"

#define MAX_SIDE_FILES 100

static int copy_tail(int from, int to, uint64_t offset)
{
	char part[65536];
	ssize_t n;

	while ((n = pread(from, part, sizeof(part), (off_t)offset)) > 0) {
		if (write(to, part, (size_t)n) != n)
			return errno ? -errno : -ENOSPC;
		offset += (uint64_t)n;
	}
	return n < 0 || fsync(to) ? -errno : 0;
}

/* A tail that was cut off before keeps its name. */
static int open_side_file(int dir_fd, const char *name, char side[300])
{
	int fd = -1;

	for (int i = 0; i < MAX_SIDE_FILES && fd < 0; i++) {
		if (i)
			snprintf(side, 300, "%s.torn.%d", name, i);
		else
			snprintf(side, 300, "%s.torn", name);
		fd = openat(dir_fd, side, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

int store_cut_tail(int dir_fd, const char *name, uint64_t offset)
{
	int from = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), to, err;
	struct stat status;
	char side[300];

	if (from < 0)
		return -errno;
	if (fstat(from, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_size < offset) {
		close(from);
		return -EINVAL;
	}
	to = open_side_file(dir_fd, name, side);
	err = to < 0 ? to : copy_tail(from, to, offset);
	if (!err && (ftruncate(from, (off_t)offset) || fdatasync(from)))
		err = -errno;
	if (to >= 0)
		close(to);
	close(from);
	return err;
}

static int write_index(int dir_fd, int fd, const struct store_list *list)
{
	struct segment_facts facts = {.number = list->last_removed,
				      .removed = STORE_FOR_FREE_SPACE};
	char line[INDEX_MAX_LINE];
	size_t length = index_format(line, &facts);

	/* Which segments were removed no segment tells. */
	if (list->last_removed && write(fd, line, length) != (ssize_t)length)
		return errno ? -errno : -ENOSPC;
	for (size_t i = 0; i < list->count; i++) {
		if (store_scan(dir_fd, list->items[i].number, &facts))
			continue;
		length = index_format(line, &facts);
		if (write(fd, line, length) != (ssize_t)length)
			return errno ? -errno : -ENOSPC;
	}
	return fdatasync(fd) ? -errno : 0;
}

int store_index_rebuild(int dir_fd)
{
	struct store_list list;
	int err = store_list_read(&list, dir_fd), fd;

	if (err)
		return err;
	unlinkat(dir_fd, INDEX_NAME ".tmp", 0);
	fd = openat(dir_fd, INDEX_NAME ".tmp", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	err = fd < 0 ? -errno : write_index(dir_fd, fd, &list);
	if (fd >= 0)
		close(fd);
	if (!err && renameat(dir_fd, INDEX_NAME ".tmp", dir_fd, INDEX_NAME))
		err = -errno;
	if (err)
		unlinkat(dir_fd, INDEX_NAME ".tmp", 0);
	store_list_free(&list);
	return err;
}
