/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/procfs.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int procfs_open(const char *root, pid_t pid)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/proc/%d", root, (int)pid);
	int fd;

	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

ssize_t procfs_read(int dirfd, const char *name, char *buf, size_t size)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += n;
	}
	n = n < 0 ? -errno : (ssize_t)len;
	close(fd);
	buf[len] = '\0';
	return n;
}

bool procfs_is_32_bit(int dirfd)
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

int procfs_parse_stat(const char *text, struct procfs_stat *stat)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long start;
	size_t len;
	int ppid;

	if (!open || !close || close < open)
		return -EINVAL;
	if (sscanf(close + 1,
		   " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d "
		   "%llu",
		   &stat->state, &ppid, &stat->threads, &start) != 4)
		return -EINVAL;
	stat->ppid = ppid;
	stat->start_ticks = start;
	len = close - open - 1;
	if (len >= sizeof(stat->comm))
		len = sizeof(stat->comm) - 1;
	memcpy(stat->comm, open + 1, len);
	stat->comm[len] = '\0';
	return 0;
}

int procfs_stat(int dirfd, struct procfs_stat *stat)
{
	char text[1024];
	ssize_t n = procfs_read(dirfd, "stat", text, sizeof(text));

	return n < 0 ? (int)n : procfs_parse_stat(text, stat);
}

int procfs_argv0(int dirfd, char *name, size_t size)
{
	ssize_t n = procfs_read(dirfd, "cmdline", name, size);

	return n < 0 ? (int)n : (int)strlen(name);
}

int procfs_status(int dirfd, uid_t *uid, pid_t *tgid)
{
	char text[1024], *line;
	ssize_t n = procfs_read(dirfd, "status", text, sizeof(text));
	unsigned value;
	int id;

	if (n < 0)
		return (int)n;
	/* The kernel escapes newlines in Name, so no process can write an Uid line of its own. */
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line + 5, "%u", &value) != 1)
		return -EINVAL;
	*uid = value;
	line = strstr(text, "\nTgid:");
	*tgid = line && sscanf(line + 6, "%d", &id) == 1 ? id : 0;
	return 0;
}

int procfs_cgroup(int dirfd, char *path, size_t size)
{
	char text[4096], *line, *end;
	ssize_t n = procfs_read(dirfd, "cgroup", text, sizeof(text));

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

bool procfs_cgroup_app(const char *path, uid_t *uid, pid_t *pid)
{
	const char *at = path;
	unsigned u;
	int p;

	while ((at = strstr(at, "/uid_"))) {
		if (sscanf(at, "/uid_%u/pid_%d", &u, &p) == 2) {
			*uid = u;
			*pid = p;
			return true;
		}
		at++;
	}
	return false;
}
