/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16

static bool take_port(const char *text, unsigned *port)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 5 || text[digits])
		return false;
	*port = (unsigned)strtoul(text, NULL, 10);
	return *port > 0 && *port < 65536;
}

const char *endpoint_address_parse(const char *text, struct endpoint_address *address)
{
	static const char loopback[] = "127.0.0.1:", loopback_6[] = "[::1]:";

	*address = (struct endpoint_address){.name = ""};
	if (!strncmp(text, "unix:", 5)) {
		const char *base = strrchr(text, '/');

		address->kind = ENDPOINT_PATH;
		address->name = text + 5;
		base = base ? base + 1 : text + 5;
		if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
			return "unix: wants the path of a socket";
		return strlen(base) > FOLDER_SOCKET_NAME
			       ? "the name of a socket has at most 80 bytes"
			       : NULL;
	}
	if (*text == '@') {
		address->kind = ENDPOINT_ABSTRACT;
		address->name = text + 1;
		return !text[1]             ? "@ wants a name"
		       : strlen(text) > 107 ? "an abstract name has at most 106 bytes"
					    : NULL;
	}
	address->kind = ENDPOINT_TCP;
	address->v6 = !strncmp(text, loopback_6, strlen(loopback_6));
	if (address->v6 || !strncmp(text, loopback, strlen(loopback)))
		return take_port(text + strlen(address->v6 ? loopback_6 : loopback), &address->port)
			       ? NULL
			       : "a port is a number from 1 to 65535";
	return "wants unix:PATH, @NAME, 127.0.0.1:PORT or [::1]:PORT: it never listens on a "
	       "network";
}

static int bind_path(const struct endpoint_address *address, struct endpoint_socket *listener)
{
	const char *slash = strrchr(address->name, '/');
	size_t folder_bytes = slash ? (size_t)(slash - address->name) + 1 : 0;
	char *folder = folder_bytes ? strndup(address->name, folder_bytes) : strdup(".");
	struct stat st;
	int err;

	if (!folder)
		return -ENOMEM;
	listener->dir_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = listener->dir_fd < 0 ? -errno : 0;
	free(folder);
	if (err)
		return err;
	snprintf(listener->base, sizeof(listener->base), "%s", slash ? slash + 1 : address->name);
	if (!fstatat(listener->dir_fd, listener->base, &st, AT_SYMLINK_NOFOLLOW) &&
	    S_ISSOCK(st.st_mode) && st.st_uid != geteuid())
		return -EADDRNOTAVAIL;
	return folder_socket_bind(listener->fd, listener->dir_fd, listener->base, &listener->file);
}

static int bind_abstract(const struct endpoint_address *address, int fd)
{
	struct sockaddr_un named = {.sun_family = AF_UNIX};
	size_t length = strlen(address->name);

	memcpy(named.sun_path + 1, address->name, length);
	return bind(fd, (struct sockaddr *)&named,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))
		       ? -errno
		       : 0;
}

static int bind_port(const struct endpoint_address *address, int fd)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)address->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons((uint16_t)address->port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int on = 1;

	/* Connections of a recorder that has ended may be in TIME_WAIT. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -errno;
	if (address->v6)
		return bind(fd, (struct sockaddr *)&v6, sizeof(v6)) ? -errno : 0;
	return bind(fd, (struct sockaddr *)&v4, sizeof(v4)) ? -errno : 0;
}

int endpoint_listen(const struct endpoint_address *address, struct endpoint_socket *listener)
{
	int family = address->kind != ENDPOINT_TCP ? AF_UNIX : address->v6 ? AF_INET6 : AF_INET;
	int err;

	*listener = (struct endpoint_socket){.dir_fd = -1};
	listener->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = listener->fd < 0 ? -errno : 0;
	if (!err)
		err = address->kind == ENDPOINT_PATH       ? bind_path(address, listener)
		      : address->kind == ENDPOINT_ABSTRACT ? bind_abstract(address, listener->fd)
							   : bind_port(address, listener->fd);
	if (!err && listen(listener->fd, BACKLOG))
		err = -errno;
	if (err)
		endpoint_unlisten(listener);
	return err;
}

void endpoint_unlisten(struct endpoint_socket *listener)
{
	folder_socket_unlink(listener->dir_fd, listener->base, &listener->file);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->dir_fd >= 0)
		close(listener->dir_fd);
	*listener = (struct endpoint_socket){.fd = -1, .dir_fd = -1};
}
