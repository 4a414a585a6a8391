/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/read.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int proc_open(const char *root, pid_t pid)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/proc/%d", root ? root : "", (int)pid);
	int fd;

	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

ssize_t proc_read(int dirfd, const char *name, char *text, size_t size)
{
	/* Whatever is mounted in the file's place: a FIFO would be waited for. */
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = 0;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = read(fd, text + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	n = n < 0 ? -errno : (ssize_t)len;
	close(fd);
	text[len] = '\0';
	return n;
}

ssize_t proc_read_of(const char *root, pid_t pid, const char *name, char *text, size_t size)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/proc/%d/%s", root ? root : "", (int)pid, name);

	text[0] = '\0';
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	return proc_read(AT_FDCWD, path, text, size);
}

ssize_t proc_read_of_thread(const char *root, pid_t pid, pid_t tid, const char *name, char *text,
			    size_t size)
{
	char file[64];

	if ((size_t)snprintf(file, sizeof(file), "task/%d/%s", (int)tid, name) >= sizeof(file))
		return -ENAMETOOLONG;
	return proc_read_of(root, pid, file, text, size);
}

static ssize_t read_again(const struct proc_kept *kept, char *text, size_t size)
{
	ssize_t n;

	do
		n = pread(kept->fd, text, size - 1, 0);
	while (n < 0 && errno == EINTR);
	text[n > 0 ? n : 0] = '\0';
	return n < 0 ? -errno : n;
}

void proc_drop_kept(struct proc_kept *kept)
{
	if (kept->fd >= 0)
		close(kept->fd);
	*kept = (struct proc_kept){.fd = -1};
}

void proc_keep(struct proc_kept *kept, pid_t pid, pid_t tid)
{
	if (kept->pid == pid && kept->tid == tid)
		return;
	proc_drop_kept(kept);
	kept->pid = pid;
	kept->tid = tid;
}

ssize_t proc_read_kept(struct proc_kept *kept, const char *name, char *text, size_t size)
{
	char path[96];
	ssize_t n = kept->fd >= 0 ? read_again(kept, text, size) : -ESRCH;

	if (n > 0)
		return n;
	/* The thread has ended, and its number may have a new owner. */
	if (kept->fd >= 0)
		close(kept->fd);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)kept->pid, (int)kept->tid, name);
	kept->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	text[0] = '\0';
	return kept->fd < 0 ? -errno : read_again(kept, text, size);
}

int proc_argv0(int dirfd, char *name, size_t size)
{
	ssize_t n = proc_read(dirfd, "cmdline", name, size);

	return n < 0 ? (int)n : (int)strlen(name);
}

int proc_cgroup(int dirfd, char *path, size_t size)
{
	char text[4096], *line, *end;
	ssize_t n = proc_read(dirfd, "cgroup", text, sizeof(text));

	if (n < 0)
		return (int)n;
	for (line = text; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (strncmp(line, "0::", 3))
			continue;
		if (end)
			*end = '\0';
		if (strlen(line + 3) >= size)
			return -ENAMETOOLONG;
		strcpy(path, line + 3);
		return 0;
	}
	return -ENOENT;
}

bool proc_is_32_bit(int dirfd)
{
	uint64_t words[64];
	int fd = openat(dirfd, "auxv", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, words, sizeof(words));
	close(fd);
	for (ssize_t i = 0; (i + 2) * (ssize_t)sizeof(*words) <= n; i += 2)
		if (words[i] == AT_PAGESZ)
			return false;
	return n > 0;
}

pid_t proc_number(const char *name)
{
	uint64_t value = 0;

	if (*name < '1' || *name > '9')
		return 0;
	for (; *name >= '0' && *name <= '9'; name++) {
		value = value * 10 + (uint64_t)(*name - '0');
		if (value > INT32_MAX)
			return 0;
	}
	return *name ? 0 : (pid_t)value;
}
