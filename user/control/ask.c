/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/control.h"
#include "control/request.h"
#include "util/clock.h"
#include "util/folder_socket.h"

/* A recorder whose queue of connections is full is asked again after this. */
#define AGAIN_MS 10
/* "error 4095\n" */
#define FIRST_LINE 16

/* Until fd is ready or the time is over: 0 or -ETIMEDOUT. */
static int wait_for(int fd, short events, uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct pollfd pollfd = {.fd = fd, .events = events};

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (poll(&pollfd, 1, (int)((until_ns - now_ns) / NSEC_PER_MSEC + 1)) > 0)
			return 0;
	}
}

/* Whether the socket is one that the folder's owner made: a link would have the request go
 * anywhere.
 */
static int check_socket(int dir_fd)
{
	struct stat folder, named;

	if (fstatat(dir_fd, CONTROL_NAME, &named, AT_SYMLINK_NOFOLLOW) || fstat(dir_fd, &folder))
		return -errno;
	if (!S_ISSOCK(named.st_mode) || named.st_uid != folder.st_uid)
		return -EPERM;
	return 0;
}

static int connect_to(int fd, int dir_fd, uint64_t until_ns)
{
	struct sockaddr_un address;
	socklen_t length = folder_socket_address(&address, dir_fd, CONTROL_NAME);

	while (connect(fd, (struct sockaddr *)&address, length)) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return errno == EACCES ? -EPERM : -errno;
		if (clock_now_ns(CLOCK_MONOTONIC) >= until_ns)
			return -ETIMEDOUT;
		poll(NULL, 0, AGAIN_MS);
	}
	return 0;
}

static int send_line(int fd, const char *request, uint64_t until_ns)
{
	char line[CONTROL_REQUEST_BYTES];
	size_t length = strlen(request), sent = 0;

	if (!length || length >= sizeof(line) || strchr(request, '\n'))
		return -EINVAL;
	memcpy(line, request, length);
	line[length++] = '\n';
	while (sent < length) {
		ssize_t n = send(fd, line + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		int err;

		if (n > 0)
			sent += (size_t)n;
		else if (errno == EAGAIN && (err = wait_for(fd, POLLOUT, until_ns)))
			return err;
		else if (errno != EAGAIN && errno != EINTR)
			/* One that refuses does so without reading. */
			return errno == EPIPE || errno == ECONNRESET ? 0 : -errno;
	}
	return 0;
}

/* To the end of what the recorder sends. */
static int receive(int fd, char *answer, size_t room, size_t *length, uint64_t until_ns)
{
	*length = 0;
	for (;;) {
		int err = wait_for(fd, POLLIN, until_ns);
		ssize_t n;

		if (err)
			return err;
		n = recv(fd, answer + *length, room - 1 - *length, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		/* ECONNRESET is the end, too, where the recorder did not read what was sent. */
		if (n < 0 && errno != ECONNRESET)
			return -errno;
		if (n <= 0)
			return *length ? 0 : -ECONNRESET;
		*length += (size_t)n;
		answer[*length] = 0;
		if (*length == room - 1)
			return -EPROTO;
	}
}

int control_ask(int dir_fd, const char *request, char *reply, size_t room, uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + timeout_ns;
	size_t length, answer_room = CONTROL_REPLY_BYTES + FIRST_LINE;
	char *answer = malloc(answer_room), *text = NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (room)
		*reply = 0;
	err = !answer ? -ENOMEM : fd < 0 ? -errno : check_socket(dir_fd);
	if (!err)
		err = connect_to(fd, dir_fd, until_ns);
	if (!err)
		err = send_line(fd, request, until_ns);
	if (!err)
		err = receive(fd, answer, answer_room, &length, until_ns);
	if (!err)
		err = request_take_answer(answer, length, &text);
	if (text && strlen(text) < room)
		strcpy(reply, text);
	else if (text)
		err = -EMSGSIZE;
	if (fd >= 0)
		close(fd);
	free(answer);
	return err;
}
