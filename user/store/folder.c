/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "lock"
/* Of 20 ms: a recorder that was killed has a writer that writes what is queued. */
#define LOCK_TRIES 250

bool store_path_is_folder(const char *path)
{
	size_t length = strlen(path);
	struct stat status;

	if (length && path[length - 1] == '/')
		return true;
	return !lstat(path, &status) &&
	       (S_ISDIR(status.st_mode) ||
		(S_ISLNK(status.st_mode) && !stat(path, &status) && S_ISDIR(status.st_mode)));
}

static int judge(int fd, char *why, size_t why_size)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (status.st_uid != geteuid()) {
		snprintf(why, why_size, "the folder belongs to another user (uid %u)",
			 status.st_uid);
		return -EPERM;
	}
	if (status.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(why, why_size,
			 "others may write in this folder (mode %o): chmod it to 700, or name "
			 "another",
			 status.st_mode & 07777);
		return -EPERM;
	}
	return 0;
}

int store_folder_open(const char *path, int *dir_fd, char *why, size_t why_size)
{
	size_t length = strlen(path);
	char *name = strdup(path);
	int err = 0;

	*why = 0;
	*dir_fd = -1;
	if (!name)
		return -ENOMEM;
	/* With its '/' a link would be followed. */
	while (length > 1 && name[length - 1] == '/')
		name[--length] = 0;
	if (mkdir(name, 0700) && errno != EEXIST)
		err = -errno;
	if (!err)
		*dir_fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!err && *dir_fd < 0) {
		err = -errno;
		if (err == -ELOOP || err == -ENOTDIR)
			snprintf(why, why_size, "is %s: name a folder",
				 readlink(name, (char[1]){0}, 1) >= 0 ? "a link" : "no folder");
	}
	free(name);
	if (!err)
		err = judge(*dir_fd, why, why_size);
	if (err && *dir_fd >= 0) {
		close(*dir_fd);
		*dir_fd = -1;
	}
	return err;
}

/* ---- the lock ---- */

static int read_pid(int fd)
{
	char text[16] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	return n > 0 ? atoi(text) : 0;
}

static int open_lock(int dir_fd, int flags)
{
	struct stat status;
	int fd = openat(dir_fd, LOCK_NAME, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode))) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	return fd;
}

static void put_pid(int fd, int pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", pid);

	/* On a full disk the lock holds without the pid in it. */
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
		return;
}

int store_folder_lock(int dir_fd, int pid, int *lock_fd, char *why, size_t why_size)
{
	const struct timespec rest = {0, 20000000};
	int holder = 0;

	*lock_fd = open_lock(dir_fd, O_RDWR | O_CREAT);
	if (*lock_fd < 0)
		return -errno;
	/* The folder is locked as well: the file may be removed, and made anew by another one. */
	for (int tries = 0; flock(*lock_fd, LOCK_EX | LOCK_NB) || flock(dir_fd, LOCK_EX | LOCK_NB);
	     tries++) {
		if (errno != EWOULDBLOCK)
			break; /* a file system without locks has none to take */
		holder = read_pid(*lock_fd);
		if (tries < LOCK_TRIES && holder > 0 && kill(holder, 0) && errno == ESRCH) {
			nanosleep(&rest, NULL);
			continue;
		}
		snprintf(why, why_size, "is being written by another jankscope, pid %d", holder);
		close(*lock_fd);
		return -EBUSY;
	}
	put_pid(*lock_fd, pid);
	return 0;
}

void store_folder_keep_lock(int dir_fd, int *lock_fd)
{
	struct stat named, held;
	int fd;

	if (fstat(*lock_fd, &held) || (!fstatat(dir_fd, LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) &&
				       named.st_ino == held.st_ino && named.st_dev == held.st_dev))
		return;
	fd = open_lock(dir_fd, O_RDWR | O_CREAT);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return;
	}
	put_pid(fd, read_pid(*lock_fd));
	close(*lock_fd);
	*lock_fd = fd;
}

int store_folder_writer(int dir_fd)
{
	int fd = open_lock(dir_fd, O_RDONLY), pid = 0;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) {
		pid = read_pid(fd);
		pid = pid > 0 ? pid : 1;
	}
	close(fd);
	return pid;
}
