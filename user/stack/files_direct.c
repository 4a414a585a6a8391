/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/files_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "prober/jit_list.h"
#include "util/clock.h"

#define MAPS_MAX_BYTES (64u << 20)
#define OPEN_FLAGS     (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

int files_direct_maps(const char *root, pid_t pid, char **text, size_t *length)
{
	size_t len = 0, room = 65536;
	char path[512], *buffer = NULL;
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/proc/%d/maps", root ? root : "", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	buffer = malloc(room);
	err = buffer ? 0 : -ENOMEM;
	while (!err) {
		ssize_t n;

		if (len == room) {
			char *more = room < MAPS_MAX_BYTES ? realloc(buffer, room * 2) : NULL;

			err = more ? 0 : room < MAPS_MAX_BYTES ? -ENOMEM : -EFBIG;
			if (err)
				break;
			buffer = more;
			room *= 2;
		}
		n = read(fd, buffer + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		err = n < 0 ? -errno : 0;
		if (n <= 0)
			break;
		len += n;
	}
	close(fd);
	if (err) {
		free(buffer);
		return err;
	}
	*text = realloc(buffer, len ?: 1) ?: buffer; /* it is kept */
	*length = len;
	return 0;
}

static int read_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		     size_t *length)
{
	return files_direct_maps(ctx, process->pid, text, length);
}

/* By map_files, which also reaches deleted files and other mount namespaces; else by its path
 * there, if that still is the same file. */
static int open_file(const char *path, uint64_t inode, struct stack_file *file)
{
	struct stat st;
	int fd = open(path, OPEN_FLAGS);

	if (fd < 0)
		return -errno;
	/* The device number of maps is the superblock's, which some file systems do not report by
	 * stat: the inode must do. */
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (inode && st.st_ino != inode)) {
		close(fd);
		return -ENOENT;
	}
	*file = (struct stack_file){
		fd,
		st.st_dev,
		st.st_ino,
		(uint64_t)st.st_size,
		(uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec,
		(uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec};
	return 0;
}

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	const char *root = ctx;
	char path[4600];
	int err, len = mapping->path_len < 4096 ? (int)mapping->path_len : 0;

	snprintf(path, sizeof(path), "%s/proc/%d/map_files/%llx-%llx", root, process->pid,
		 (unsigned long long)mapping->start, (unsigned long long)mapping->end);
	err = open_file(path, 0, file);
	if (!err || !len)
		return err;
	snprintf(path, sizeof(path), "%s/proc/%d/root%.*s", root, process->pid, len, mapping->path);
	err = open_file(path, mapping->inode, file);
	if (!err)
		return 0;
	snprintf(path, sizeof(path), "%s%.*s", root, len, mapping->path);
	return open_file(path, mapping->inode, file);
}

static int open_jit_names(void *ctx, const struct stack_process *process)
{
	char path[512];
	struct stat st, owner;
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%d", (const char *)ctx, process->pid);
	if (stat(path, &owner))
		return -ESRCH;
	snprintf(path, sizeof(path), "%s/proc/%d/root/tmp/perf-%d.map", (const char *)ctx,
		 process->pid, process->pid);
	fd = open(path, OPEN_FLAGS | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == owner.st_uid))
		return fd;
	close(fd);
	return -EACCES;
}

static ssize_t read_memory(void *ctx, const struct stack_process *process, uint64_t address,
			   void *to, size_t length)
{
	struct iovec local = {to, length}, remote = {(void *)(uintptr_t)address, length};
	ssize_t n = process_vm_readv(process->pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

static int read_jit_list(void *ctx, const struct stack_process *process,
			 const struct jit_list_request *request, uint8_t **message, size_t *length)
{
	struct jit_list list;
	size_t entries;
	int err = jit_list_read_process(process->pid, request, &list);

	if (err <= 0)
		return err;
	entries = list.header.count * sizeof(*list.entries);
	*length = sizeof(list.header) + entries + list.header.bytes;
	*message = malloc(*length);
	if (*message) {
		memcpy(*message, &list.header, sizeof(list.header));
		memcpy(*message + sizeof(list.header), list.entries, entries);
		memcpy(*message + sizeof(list.header) + entries, list.bytes, list.header.bytes);
	}
	jit_list_free(&list);
	return *message ? 1 : -ENOMEM;
}

struct stack_files files_direct(const char *root)
{
	return (struct stack_files){.open = open_mapping,
				    .open_jit_names = open_jit_names,
				    .maps = read_maps,
				    .memory = read_memory,
				    .jit_list = read_jit_list,
				    .ctx = (void *)(root ? root : "")};
}
