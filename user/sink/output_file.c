/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number of a path that is only another name of a descriptor of this process, or -1. */
static int descriptor_of(const char *path)
{
	static const char *const prefixes[] = {"/dev/fd/", "/proc/self/fd/"};
	char *end;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < 2; i++) {
		const char *number = path + strlen(prefixes[i]);
		long value;

		if (strncmp(path, prefixes[i], strlen(prefixes[i])) || *number < '0' ||
		    *number > '9')
			continue;
		value = strtol(number, &end, 10);
		if (!*end && value < 1 << 20)
			return (int)value;
	}
	return -1;
}

/* The folder is opened once: a later rename or link in its path changes nothing. */
static int open_folder(struct output_file *file, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char *folder;

	if (!*name || strlen(name) >= sizeof(file->name))
		return *name ? -ENAMETOOLONG : -EISDIR;
	snprintf(file->name, sizeof(file->name), "%s", name);
	folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!folder)
		return -ENOMEM;
	file->dir_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	return file->dir_fd < 0 ? -errno : 0;
}

/* Two recorders must not write one file. A file system without locks has none to take. */
static int lock(int fd, char *why, size_t why_size)
{
	if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return 0;
	snprintf(why, why_size, "is being written by another jankscope");
	return -EBUSY;
}

static int judge(const struct stat *status, bool overwrite, char *why, size_t why_size)
{
	switch (status->st_mode & S_IFMT) {
	case S_IFDIR:
		snprintf(why, why_size, "is a folder: name a file in it");
		return -EISDIR;
	case S_IFLNK:
		snprintf(why, why_size, "is a link: name the file itself");
		return -ELOOP;
	case S_IFCHR:
		return 0;
	case S_IFIFO:
	case S_IFREG:
		break;
	default:
		snprintf(why, why_size, "is neither a file nor a pipe");
		return -ENXIO;
	}
	if (S_ISREG(status->st_mode) && !overwrite)
		return 0; /* it is only asked whether another one writes it */
	if (status->st_uid != geteuid()) {
		snprintf(why, why_size, "belongs to another user (uid %u)", status->st_uid);
		return -EPERM;
	}
	if (S_ISREG(status->st_mode) && status->st_nlink != 1) {
		snprintf(why, why_size, "has several names (hard links)");
		return -EPERM;
	}
	return 0;
}

/* What is there already. The type is known before it is opened: a FIFO or a device may do something
 * when it is. */
static int open_existing(struct output_file *file, bool overwrite, char *why, size_t why_size)
{
	const int flags = O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
	struct stat named, status;
	int err;

	if (fstatat(file->dir_fd, file->name, &named, AT_SYMLINK_NOFOLLOW))
		return -errno;
	err = judge(&named, overwrite, why, why_size);
	if (err)
		return err;
	file->fd = openat(file->dir_fd, file->name, flags);
	if (file->fd < 0)
		return -errno;
	if (fstat(file->fd, &status))
		return -errno;
	if (status.st_dev != named.st_dev || status.st_ino != named.st_ino) {
		snprintf(why, why_size, "was replaced while it was opened");
		return -EPERM;
	}
	err = judge(&status, overwrite, why, why_size);
	if (err || !S_ISREG(status.st_mode))
		return err;
	file->regular = true;
	err = lock(file->fd, why, why_size);
	if (err)
		return err;
	if (!overwrite) {
		snprintf(why, why_size, "exists: name another file, or add --overwrite");
		return -EEXIST;
	}
	return fchmod(file->fd, 0600) ? -errno : 0;
}

int output_file_open(struct output_file *file, const char *path, bool overwrite, char *why,
		     size_t why_size)
{
	int number = descriptor_of(path), err;

	*file = (struct output_file){.fd = -1, .dir_fd = -1};
	*why = 0;
	if (number >= 0) {
		file->fd = fcntl(number, F_DUPFD_CLOEXEC, 3);
		return file->fd < 0 ? -errno : 0;
	}
	err = open_folder(file, path);
	if (err == -EISDIR)
		snprintf(why, why_size, "is a folder: name a file in it");
	if (err)
		return err;
	file->fd = openat(file->dir_fd, file->name,
			  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	if (file->fd >= 0) {
		file->made = file->regular = true;
		err = lock(file->fd, why, why_size);
	} else {
		err = errno == EEXIST ? open_existing(file, overwrite, why, why_size) : -errno;
	}
	if (err && file->fd >= 0)
		close(file->fd);
	if (err)
		close(file->dir_fd);
	return err;
}

void output_file_remove(const struct output_file *file)
{
	struct stat named, status;

	if (file->made && !fstat(file->fd, &status) &&
	    !fstatat(file->dir_fd, file->name, &named, AT_SYMLINK_NOFOLLOW) &&
	    named.st_ino == status.st_ino && named.st_dev == status.st_dev)
		unlinkat(file->dir_fd, file->name, 0);
}
