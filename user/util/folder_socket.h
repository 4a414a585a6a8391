/* SPDX-License-Identifier: BSD-2-Clause */
/* A Unix socket in a folder that is open. Its address is a path below /proc/self/fd, so that a
 * folder with a path longer than sun_path (108 bytes) has one, and a rename changes nothing. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define FOLDER_SOCKET_NAME 80 /* bytes of a name, at most */

/* Which file the socket is. */
struct folder_socket_file {
	dev_t device;
	ino_t inode; /* 0: none */
};

/* Write the address of the socket of that name in the folder. Its length. */
socklen_t folder_socket_address(struct sockaddr_un *address, int dir_fd, const char *name);
/* Give the unbound socket fd that name, with mode 0600. Where a socket has it at which nobody
 * listens (its process died), that one goes first. 0 with what it is in *file; -EADDRINUSE:
 * somebody listens there; -EEXIST: something else has the name; -errno. Not thread-safe: sets the
 * umask. */
int folder_socket_bind(int fd, int dir_fd, const char *name, struct folder_socket_file *file);
/* Whether the name is that file's still. */
bool folder_socket_is_named(int dir_fd, const char *name, const struct folder_socket_file *file);
/* Remove the name, if it is that file's still. */
void folder_socket_unlink(int dir_fd, const char *name, const struct folder_socket_file *file);
