/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/folder_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

socklen_t folder_socket_address(struct sockaddr_un *address, int dir_fd, const char *name)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%.80s", dir_fd,
		 name);
	return sizeof(*address);
}

static int remove_stale(int dir_fd, const char *name)
{
	struct sockaddr_un address;
	socklen_t length = folder_socket_address(&address, dir_fd, name);
	struct stat st;
	int fd, err;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = connect(fd, (struct sockaddr *)&address, length) ? errno : 0;
	close(fd);
	if (err != ECONNREFUSED)
		return -EADDRINUSE;
	return unlinkat(dir_fd, name, 0) ? -errno : 0;
}

int folder_socket_bind(int fd, int dir_fd, const char *name, struct folder_socket_file *file)
{
	struct sockaddr_un address;
	socklen_t length = folder_socket_address(&address, dir_fd, name);
	struct stat st;
	mode_t mask;
	int err = remove_stale(dir_fd, name);

	if (err)
		return err;
	mask = umask(0177);
	err = bind(fd, (struct sockaddr *)&address, length) ? -errno : 0;
	umask(mask);
	if (err)
		return err;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	*file = (struct folder_socket_file){st.st_dev, st.st_ino};
	return 0;
}

bool folder_socket_is_named(int dir_fd, const char *name, const struct folder_socket_file *file)
{
	struct stat st;

	return file->inode && !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       st.st_dev == file->device && st.st_ino == file->inode;
}

void folder_socket_unlink(int dir_fd, const char *name, const struct folder_socket_file *file)
{
	if (folder_socket_is_named(dir_fd, name, file))
		unlinkat(dir_fd, name, 0);
}
