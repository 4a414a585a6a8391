/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side: connections are read, answered and written in the loop, and none is waited
 * for. */
#include "control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/request.h"
#include "core/loop.h"
#include "util/clock.h"
#include "util/folder_socket.h"

/* More wait in the kernel: a client that finds no room there asks again. */
#define BACKLOG 16
#define IDLE_NS (100 * NSEC_PER_MSEC)

struct connection {
	struct control *control;
	int fd; /* -1: this one is free */
	uint64_t until_ns;
	char request[CONTROL_REQUEST_BYTES];
	size_t request_bytes;
	char *answer; /* NULL: nothing was asked yet */
	size_t answer_bytes, sent;
};

struct control {
	int dir_fd, fd;
	struct folder_socket_file file;
	struct loop *loop;
	int timer; /* when the oldest connection has had its time; -1: none */
	bool full; /* fd is not watched: there is no free connection */
	const struct control_row *rows;
	size_t row_count;
	void *ctx;
	struct connection connections[CONTROL_CONNECTIONS];
};

/* ---- the socket ---- */

static int listen_there(struct control *control)
{
	int err;

	control->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (control->fd < 0)
		return -errno;
	err = folder_socket_bind(control->fd, control->dir_fd, CONTROL_NAME, &control->file);
	if (err)
		return err;
	return listen(control->fd, BACKLOG) ? -errno : 0;
}

struct control *control_new(int dir_fd)
{
	struct control *control = calloc(1, sizeof(*control));
	int err;

	if (!control)
		return NULL;
	control->dir_fd = dir_fd;
	control->fd = control->timer = -1;
	for (size_t i = 0; i < CONTROL_CONNECTIONS; i++)
		control->connections[i] = (struct connection){.control = control, .fd = -1};
	err = listen_there(control);
	if (!err)
		return control;
	control_free(control);
	errno = -err;
	return NULL;
}

void control_free(struct control *control)
{
	if (!control)
		return;
	control_join_loop(control, NULL, NULL, 0, NULL);
	folder_socket_unlink(control->dir_fd, CONTROL_NAME, &control->file);
	if (control->fd >= 0)
		close(control->fd);
	free(control);
}

/* ---- connections ---- */

static int on_connect(void *ctx, uint32_t events);

/* Who asks nothing is not served while another one waits. */
static uint64_t end_of(const struct connection *connection)
{
	return connection->control->full && !connection->answer
		       ? connection->until_ns - CONTROL_TIMEOUT_NS + IDLE_NS
		       : connection->until_ns;
}

static void set_timer(struct control *control)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), first_ns = UINT64_MAX;

	for (size_t i = 0; i < CONTROL_CONNECTIONS; i++)
		if (control->connections[i].fd >= 0 && end_of(&control->connections[i]) < first_ns)
			first_ns = end_of(&control->connections[i]);
	loop_set_timer(control->loop, control->timer,
		       first_ns == UINT64_MAX ? 0 : (first_ns > now_ns ? first_ns - now_ns : 1), 0);
}

static void end_connection(struct connection *connection)
{
	struct control *control = connection->control;

	loop_remove_fd(control->loop, connection->fd);
	close(connection->fd);
	free(connection->answer);
	*connection = (struct connection){.control = control, .fd = -1};
	if (control->full)
		control->full =
			loop_add_fd(control->loop, control->fd, EPOLLIN, on_connect, control) != 0;
	set_timer(control);
}

static int on_writable(void *ctx, uint32_t events)
{
	struct connection *connection = ctx;
	ssize_t n = 0;

	while (connection->sent < connection->answer_bytes) {
		n = send(connection->fd, connection->answer + connection->sent,
			 connection->answer_bytes - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		connection->sent += (size_t)n;
	}
	if (n < 0 && errno == EAGAIN)
		return 0;
	end_connection(connection);
	return 0;
}

/* What the socket does not take at once goes out when it can. */
static void send_answer(struct connection *connection)
{
	struct loop *loop = connection->control->loop;

	loop_remove_fd(loop, connection->fd);
	if (loop_add_fd(loop, connection->fd, EPOLLOUT, on_writable, connection))
		end_connection(connection);
	else
		on_writable(connection, EPOLLOUT);
}

/* The client has closed its end: it does not wait any more, as for a recorder that was stopped. */
static bool is_gone(const struct connection *connection)
{
	struct pollfd end = {connection->fd, 0, 0};

	return poll(&end, 1, 0) > 0 && end.revents & POLLHUP;
}

static int on_readable(void *ctx, uint32_t events)
{
	struct connection *connection = ctx;
	struct control *control = connection->control;
	size_t room = sizeof(connection->request) - connection->request_bytes;
	bool whole;
	ssize_t n;

	n = recv(connection->fd, connection->request + connection->request_bytes, room,
		 MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		end_connection(connection);
		return 0;
	}
	connection->request_bytes += (size_t)n;
	whole = memchr(connection->request, '\n', connection->request_bytes) ||
		connection->request_bytes == sizeof(connection->request);
	if (!whole)
		return 0;
	connection->answer = request_answer(control->rows, control->row_count, control->ctx,
					    is_gone(connection), connection->request,
					    connection->request_bytes, &connection->answer_bytes);
	if (connection->answer)
		send_answer(connection);
	else
		end_connection(connection);
	return 0;
}

/* A recorder that is late itself may have had no turn for what the client sent in time. */
static int on_timer(void *ctx, uint32_t events)
{
	struct control *control = ctx;
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < CONTROL_CONNECTIONS; i++) {
		struct connection *connection = &control->connections[i];

		if (connection->fd < 0 || end_of(connection) > now_ns)
			continue;
		if (!connection->answer)
			on_readable(connection, EPOLLIN);
		if (connection->fd >= 0)
			end_connection(connection);
	}
	set_timer(control);
	return 0;
}

static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static struct connection *free_connection(struct control *control)
{
	for (size_t i = 0; i < CONTROL_CONNECTIONS; i++)
		if (control->connections[i].fd < 0)
			return &control->connections[i];
	return NULL;
}

static int on_connect(void *ctx, uint32_t events)
{
	struct control *control = ctx;
	struct connection *connection = free_connection(control);
	int fd;

	if (!connection) {
		loop_remove_fd(control->loop, control->fd);
		control->full = true;
		set_timer(control);
		return 0;
	}
	fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	connection->fd = fd;
	connection->until_ns = clock_now_ns(CLOCK_MONOTONIC) + CONTROL_TIMEOUT_NS;
	if (!may_ask(fd)) {
		connection->answer =
			request_refusal(-EPERM, "this recording belongs to another user",
					&connection->answer_bytes);
		if (connection->answer &&
		    !loop_add_fd(control->loop, fd, EPOLLOUT, on_writable, connection))
			on_writable(connection, EPOLLOUT);
		else
			end_connection(connection);
	} else if (loop_add_fd(control->loop, fd, EPOLLIN, on_readable, connection)) {
		end_connection(connection);
	}
	set_timer(control);
	return 0;
}

void control_look(struct control *control)
{
	if (folder_socket_is_named(control->dir_fd, CONTROL_NAME, &control->file))
		return;
	if (control->loop)
		loop_remove_fd(control->loop, control->fd);
	if (control->fd >= 0)
		close(control->fd);
	/* Where it fails, for something else that has the name, nobody can talk to this recorder
	 * until the next look. */
	if (!listen_there(control) && control->loop && !control->full)
		control->full =
			loop_add_fd(control->loop, control->fd, EPOLLIN, on_connect, control) != 0;
}

int control_join_loop(struct control *control, struct loop *loop, const struct control_row *rows,
		      size_t row_count, void *ctx)
{
	int err;

	if (control->loop) {
		for (size_t i = 0; i < CONTROL_CONNECTIONS; i++)
			if (control->connections[i].fd >= 0)
				end_connection(&control->connections[i]);
		loop_remove_fd(control->loop, control->fd);
		loop_remove_timer(control->loop, control->timer);
	}
	control->full = false;
	control->timer = -1;
	control->loop = loop;
	control->rows = rows;
	control->row_count = row_count;
	control->ctx = ctx;
	if (!loop)
		return 0;
	control->timer = loop_add_timer(loop, 0, 0, on_timer, control);
	err = control->timer < 0 ? control->timer
				 : loop_add_fd(loop, control->fd, EPOLLIN, on_connect, control);
	if (err)
		control->loop = NULL;
	return err;
}
