/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an endpoint listens: a socket in a folder, an abstract one, or a port of the loopback
 * device. */
#pragma once
#include <stdbool.h>

#include "util/folder_socket.h"

enum endpoint_kind {
	ENDPOINT_PATH = 0,
	ENDPOINT_ABSTRACT = 1,
	ENDPOINT_TCP = 2,
};

struct endpoint_address {
	enum endpoint_kind kind;
	const char *name; /* the path, or the name without its "@"; a part of the text */
	unsigned port;    /* of TCP; else 0 */
	bool v6;
};

/* Read "unix:PATH", "@NAME", "127.0.0.1:PORT" or "[::1]:PORT". NULL, or what is wrong with it. */
const char *endpoint_address_parse(const char *text, struct endpoint_address *address);

/* A socket that listens; of a path also its folder and what the name is. */
struct endpoint_socket {
	int fd, dir_fd; /* -1: none */
	char base[108]; /* the name in the folder */
	struct folder_socket_file file;
};

/* Listen there without waiting. A path gets mode 0600, and takes the place of a socket that a dead
 * recorder of this user left. Call it before any thread is made and before the process gives up its
 * rights. 0, or -errno: -EADDRINUSE: somebody listens there; -EEXIST: something that is no socket
 * has the name; -EADDRNOTAVAIL: a socket of another user has. */
int endpoint_listen(const struct endpoint_address *address, struct endpoint_socket *listener);
/* Close it, and take its name away where that is still its own. */
void endpoint_unlisten(struct endpoint_socket *listener);
