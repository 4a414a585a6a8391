/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that a prober opens for others. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "proc/maps.h"
#include "util/clock.h"

/* File systems whose files no other process can hold up (linux/magic.h and fs/). */
static bool is_local(int fd)
{
	static const uint32_t local[] = {
		0x0000ef53, /* ext2, ext3, ext4 */
		0xf2f52010, /* f2fs */
		0xe0f5e1e2, /* erofs */
		0x73717368, /* squashfs */
		0x01021994, /* tmpfs, memfd */
		0x858458f6, /* ramfs, rootfs */
		0x58465342, /* xfs */
		0x9123683e, /* btrfs */
		0x00004d44, /* vfat */
		0x2011bab0, /* exfat */
		0x794c7630, /* overlayfs */
		0x958458f6, /* hugetlbfs, memfd */
	};
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++)
		if ((uint32_t)fs.f_type == local[i])
			return true;
	return false;
}

static int copy_file(int fd, uint64_t size, void *buffer)
{
	int copy = (int)syscall(SYS_memfd_create, "jankscope", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t done = 0;
	int err = copy < 0 ? -errno : 0;

	while (!err && done < size) {
		ssize_t n = pread(fd, buffer, PROBE_BYTES, (off_t)done);

		if (n < 0)
			err = errno == EINTR ? 0 : -errno;
		else if (n == 0)
			break;
		else if (done + (uint64_t)n > PROBE_COPY_BYTES)
			err = -EFBIG;
		else if (write(copy, buffer, (size_t)n) != n)
			err = -ENOMEM;
		else
			done += (uint64_t)n;
	}
	if (!err &&
	    fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		err = -errno;
	if (err && copy >= 0)
		close(copy);
	return err ? err : copy;
}

/* Open the file that a path stands for, if it is a regular one: to open a device may do something,
 * so it is looked at before it is opened. inode 0: any. */
static int open_regular(int dir, const char *path, uint64_t inode)
{
	char link[40];
	struct stat st;
	int handle = openat(dir, path, O_PATH | O_CLOEXEC), fd;

	if (handle < 0)
		return -errno;
	/* The device number of maps is the superblock's, which some file systems do not report by
	 * stat: the inode must do. */
	if (fstat(handle, &st))
		fd = -errno;
	else if (!S_ISREG(st.st_mode))
		fd = -EACCES;
	else if (inode && st.st_ino != inode)
		fd = -ESTALE;
	else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			fd = -errno;
	}
	close(handle);
	return fd;
}

/* Hand on a file, or a copy of it. Takes fd over. */
static int hand_on(int fd, struct reply *reply)
{
	struct probe_file file = {0};
	struct stat st;
	int copy;

	if (fstat(fd, &st)) {
		copy = -errno;
		close(fd);
		return copy;
	}
	file.device = st.st_dev;
	file.inode = st.st_ino;
	file.size_bytes = (uint64_t)st.st_size;
	file.mtime_ns = (uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
	file.ctime_ns = (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
	if (!is_local(fd)) {
		copy = file.size_bytes > PROBE_COPY_BYTES
			       ? -EFBIG
			       : copy_file(fd, file.size_bytes, reply->data);
		close(fd);
		if (copy < 0)
			return copy;
		file.copied = 1;
		fd = copy;
	}
	memcpy(reply->data, &file, sizeof(file));
	reply->length = sizeof(file);
	reply->value = (int64_t)file.size_bytes;
	reply->fds[reply->fd_count++] = fd;
	return 0;
}

int probe_open_exe(const struct probe_request *request, struct reply *reply)
{
	int dir = probe_open_process(request), fd;

	if (dir < 0)
		return dir;
	fd = open_regular(dir, "exe", 0);
	close(dir);
	return fd < 0 ? fd : hand_on(fd, reply);
}

static bool is_name_of_mapping(int dir, const char *link, const struct probe_request *request)
{
	char name[sizeof(request->name)];
	ssize_t n = readlinkat(dir, link, name, sizeof(name));

	return n > 0 && n < (ssize_t)sizeof(name) && name[0] == '/' &&
	       strlen(request->name) == (size_t)n && !memcmp(name, request->name, (size_t)n);
}

/* By map_files, which also reaches deleted files and other mount namespaces; else by its path there
 * or here, if that still is the same file. */
int probe_open_mapping(const struct probe_request *request, struct reply *reply)
{
	char path[64 + sizeof(request->name)];
	int dir = probe_open_process(request), fd;

	if (dir < 0)
		return dir;
	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, request->address,
		 request->end);
	fd = open_regular(dir, path, request->inode);
	/* Without the right to follow map_files: by the path that the kernel gives for this very
	 * mapping. Whoever asks (the unwinder, which parses what strangers made) must not name a
	 * file that the process does not map. */
	if (fd < 0 && fd != -EACCES && request->inode && is_name_of_mapping(dir, path, request)) {
		snprintf(path, sizeof(path), "root%s", request->name);
		fd = open_regular(dir, path, request->inode);
		if (fd < 0)
			fd = open_regular(AT_FDCWD, request->name, request->inode);
	}
	close(dir);
	return fd < 0 ? fd : hand_on(fd, reply);
}

#define JIT_NAMES_BYTES (16u << 20)

/* The process's own /tmp/perf-PID.map, which anybody may have put there: no link is followed, and
 * the file must belong to the process or to root, with no other name. */
int probe_open_jit_names(const struct probe_request *request, struct reply *reply)
{
	int dir = probe_open_process(request), root = -1, tmp = -1, file = -1, fd = -1, err;
	char name[40];
	struct stat owner, st;

	if (dir < 0)
		return dir;
	snprintf(name, sizeof(name), "perf-%d.map", request->pid);
	root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	tmp = root < 0 ? -1 : openat(root, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	file = tmp < 0 ? -1 : openat(tmp, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) || fstat(dir, &owner))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || (st.st_uid && st.st_uid != owner.st_uid) ||
		 st.st_nlink != 1)
		err = -EACCES;
	else if (st.st_size > JIT_NAMES_BYTES)
		err = -EFBIG;
	else {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		err = fd < 0 ? -errno : 0;
	}
	if (file >= 0)
		close(file);
	if (tmp >= 0)
		close(tmp);
	if (root >= 0)
		close(root);
	close(dir);
	return err ? err : hand_on(fd, reply);
}

/* The line of /proc/PID/maps whose mapping holds the address. stack_pointer: see in_stack of struct
 * probe_file. 0 or -errno. */
static int find_mapping(int dir, uint64_t address, uint64_t stack_pointer, struct probe_file *file,
			uint64_t *inode)
{
	char line[512];
	int fd = openat(dir, "maps", O_RDONLY | O_CLOEXEC), err = -EFAULT;
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	struct proc_mapping mapping;
	bool begins = true;

	if (!maps) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (fgets(line, sizeof(line), maps)) {
		/* A path may be longer than the buffer; what follows is no line of its own. */
		bool is_line = begins;

		begins = strchr(line, '\n') != NULL;
		if (!is_line || !proc_parse_mapping(line, line + strcspn(line, "\n"), &mapping))
			continue;
		if (mapping.start <= stack_pointer && stack_pointer < mapping.end)
			file->in_stack = mapping.path_length == strlen("[stack]") &&
					 !memcmp(mapping.path, "[stack]", mapping.path_length);
		if (err != -EFAULT || mapping.start > address || address >= mapping.end)
			continue;
		file->start = mapping.start;
		file->end = mapping.end;
		file->offset = mapping.offset;
		*inode = mapping.inode;
		err = mapping.inode ? 0 : -ENOENT;
	}
	fclose(maps);
	return err;
}

int probe_open_at(const struct probe_request *request, struct reply *reply)
{
	struct probe_file at = {0}, file;
	uint64_t inode = 0;
	char path[64];
	int dir = probe_open_process(request), fd, err;

	if (dir < 0)
		return dir;
	err = find_mapping(dir, request->address, request->end, &at, &inode);
	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, at.start, at.end);
	fd = err ? err : open_regular(dir, path, inode);
	close(dir);
	err = fd < 0 ? fd : hand_on(fd, reply);
	if (err)
		return err;
	memcpy(&file, reply->data, sizeof(file));
	file.in_stack = at.in_stack;
	file.start = at.start;
	file.end = at.end;
	file.offset = at.offset;
	memcpy(reply->data, &file, sizeof(file));
	return 0;
}
