/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint/server.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "endpoint/address.h"
#include "endpoint/http.h"
#include "util/clock.h"

#define MAX_PAGES 2
/* Connections in all: beside those that are served some are told that they are not, and some have
 * their answer and have not closed yet. */
#define SLOTS 8
/* At most, in one turn of the loop. */
#define ACCEPTS     8
#define DRAIN_BYTES (16u << 10)
/* Behind an answer what the client still sends is read and dropped: closing a TCP socket with bytes
 * unread would have the kernel throw the answer away. */
#define DRAIN_NS  NSEC_PER_SEC
#define DRAIN_MAX (64u << 10)
/* Who has not asked by then makes place for one that waits. */
#define IDLE_NS (500 * NSEC_PER_MSEC)
/* What a page waits for is over by then. */
#define AGAIN_NS  (10 * NSEC_PER_MSEC)
#define AGAIN_MAX 8
/* Who cannot be let in, because the recorder has no descriptor left, waits: the loop would be told
 * of it without a pause. */
#define NO_ROOM_NS NSEC_PER_SEC
#define SHELL_UID  2000 /* AID_SHELL */

/* A page that was made; freed when the last answer with it is out. */
struct text {
	unsigned refs;
	size_t bytes;
	char *text;
};

enum phase { FREE = 0, READING = 1, WRITING = 2, DRAINING = 3, WAITING = 4 };

struct connection {
	struct endpoint *endpoint;
	enum phase phase;
	int fd;
	bool turned_away; /* it is none of ENDPOINT_CONNECTIONS */
	uint64_t begun_ns, until_ns;
	struct http_request request;
	char head[HTTP_HEAD_BYTES];
	size_t head_bytes, sent, drained;
	unsigned waits;    /* for a page */
	struct text *page; /* NULL: the body is `words` */
	char words[96];
	size_t body_bytes;
};

struct endpoint {
	struct endpoint_socket listener;
	bool is_tcp, is_abstract, is_android;
	unsigned port;
	struct loop *loop;
	int timer; /* -1: none */
	const struct endpoint_page *pages;
	size_t page_count;
	void *ctx;
	struct {
		struct text *text; /* NULL: none is made */
		uint64_t made_ns;
	} made[MAX_PAGES];
	struct connection connections[SLOTS];
	uint64_t deaf_until_ns; /* the listener is not watched; 0: it is */
};

static int on_connect(void *ctx, uint32_t events);
static int on_readable(void *ctx, uint32_t events);
static int on_writable(void *ctx, uint32_t events);
static int on_drain(void *ctx, uint32_t events);

/* ---- pages ---- */

static void let_go(struct text *text)
{
	if (!text || --text->refs)
		return;
	free(text->text);
	free(text);
}

/* The page as it was made at most 100 ms ago. 0, or why it cannot be made. */
static int find_page(struct endpoint *endpoint, size_t n, struct text **found)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct text *text;
	int err;

	*found = endpoint->made[n].text;
	if (*found && now_ns - endpoint->made[n].made_ns < ENDPOINT_CACHE_NS)
		return 0;
	*found = text = calloc(1, sizeof(*text));
	if (!text)
		return -ENOMEM;
	err = endpoint->pages[n].make(endpoint->ctx, &text->text, &text->bytes);
	if (!err && text->bytes > ENDPOINT_PAGE_BYTES)
		err = -EMSGSIZE;
	if (err) {
		free(text->text);
		free(text);
		return err;
	}
	text->refs = 1;
	let_go(endpoint->made[n].text);
	endpoint->made[n].text = text;
	endpoint->made[n].made_ns = now_ns;
	return 0;
}

/* ---- connections ---- */

static void set_timer(struct endpoint *endpoint)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), first_ns = UINT64_MAX;

	if (endpoint->deaf_until_ns)
		first_ns = endpoint->deaf_until_ns;
	for (size_t i = 0; i < SLOTS; i++) {
		const struct connection *connection = &endpoint->connections[i];

		if (connection->phase != FREE && connection->until_ns < first_ns)
			first_ns = connection->until_ns;
	}
	loop_set_timer(endpoint->loop, endpoint->timer,
		       first_ns == UINT64_MAX ? 0 : (first_ns > now_ns ? first_ns - now_ns : 1), 0);
}

/* Abrupt: the kernel forgets what the client did not read, too. */
static void end_connection(struct connection *connection, bool abrupt)
{
	struct endpoint *endpoint = connection->endpoint;
	struct linger linger = {.l_onoff = 1};

	if (abrupt && endpoint->is_tcp)
		setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	loop_remove_fd(endpoint->loop, connection->fd);
	close(connection->fd);
	let_go(connection->page);
	*connection = (struct connection){.endpoint = endpoint, .fd = -1};
	set_timer(endpoint);
}

static bool watch(struct connection *connection, enum phase phase, uint64_t for_ns)
{
	struct loop *loop = connection->endpoint->loop;

	connection->phase = phase;
	connection->until_ns = clock_now_ns(CLOCK_MONOTONIC) + for_ns;
	loop_remove_fd(loop, connection->fd);
	if (loop_add_fd(loop, connection->fd, phase == WRITING ? EPOLLOUT : EPOLLIN,
			phase == WRITING   ? on_writable
			: phase == READING ? on_readable
					   : on_drain,
			connection)) {
		end_connection(connection, true);
		return false;
	}
	set_timer(connection->endpoint);
	return true;
}

static int on_drain(void *ctx, uint32_t events)
{
	struct connection *connection = ctx;
	char dropped[4096];

	for (size_t taken = 0; taken < DRAIN_BYTES;) {
		ssize_t n = recv(connection->fd, dropped, sizeof(dropped), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			end_connection(connection, false);
			return 0;
		}
		taken += (size_t)n;
		connection->drained += (size_t)n;
	}
	if (connection->drained > DRAIN_MAX)
		end_connection(connection, true);
	return 0;
}

static int on_writable(void *ctx, uint32_t events)
{
	struct connection *connection = ctx;
	const char *body = connection->page ? connection->page->text : connection->words;
	size_t all = connection->head_bytes + connection->body_bytes;

	while (connection->sent < all) {
		size_t of_head = connection->sent < connection->head_bytes ? connection->sent
									   : connection->head_bytes;
		size_t of_body = connection->sent - of_head;
		struct iovec parts[] = {
			{connection->head + of_head, connection->head_bytes - of_head},
			{(char *)body + of_body, connection->body_bytes - of_body}};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
		ssize_t n = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			end_connection(connection, true);
			return 0;
		}
		connection->sent += (size_t)n;
	}
	let_go(connection->page);
	connection->page = NULL;
	shutdown(connection->fd, SHUT_WR);
	if (watch(connection, DRAINING, DRAIN_NS))
		on_drain(connection, EPOLLIN);
	return 0;
}

static void answer(struct connection *connection, int status, const char *type)
{
	if (!connection->page) {
		int n = snprintf(connection->words, sizeof(connection->words), "%d %s\n%s", status,
				 http_reason(status),
				 status == 404   ? "/metrics and /status are here\n"
				 : status == 421 ? "ask by localhost or 127.0.0.1 and the port\n"
						 : "");

		connection->body_bytes = n > 0 ? (size_t)n : 0;
	}
	connection->head_bytes = http_head(connection->head, status, type, connection->body_bytes);
	/* The answer to HEAD, which is a refusal, has no body. */
	if (connection->request.head)
		connection->body_bytes = 0;
	if (watch(connection, WRITING, ENDPOINT_TIMEOUT_NS))
		on_writable(connection, EPOLLOUT);
}

static void answer_page(struct connection *connection, size_t n)
{
	struct endpoint *endpoint = connection->endpoint;
	struct text *page;
	int err = find_page(endpoint, n, &page);

	if (err == -EAGAIN && connection->waits++ < AGAIN_MAX) {
		connection->phase = WAITING;
		connection->until_ns = clock_now_ns(CLOCK_MONOTONIC) + AGAIN_NS;
		loop_remove_fd(endpoint->loop, connection->fd);
		set_timer(endpoint);
		return;
	}
	if (err) {
		answer(connection, err == -EAGAIN ? 503 : 500, NULL);
		return;
	}
	connection->page = page;
	page->refs++;
	connection->body_bytes = page->bytes;
	answer(connection, 200, endpoint->pages[n].type);
}

static void answer_request(struct connection *connection)
{
	struct endpoint *endpoint = connection->endpoint;
	const struct http_request *request = &connection->request;
	size_t path = strcspn(request->target, "?");

	if (request->state == HTTP_REFUSED) {
		answer(connection, request->status, NULL);
		return;
	}
	if (!http_is_for_us(request, endpoint->port)) {
		answer(connection, 421, NULL);
		return;
	}
	for (size_t i = 0; i < endpoint->page_count; i++) {
		const struct endpoint_page *page = &endpoint->pages[i];

		if (strlen(page->path) != path || memcmp(page->path, request->target, path))
			continue;
		if (!request->get) {
			answer(connection, 405, NULL);
			return;
		}
		if (request->body) {
			answer(connection, 413, NULL);
			return;
		}
		answer_page(connection, i);
		return;
	}
	answer(connection, request->get ? 404 : 405, NULL);
}

static int on_readable(void *ctx, uint32_t events)
{
	struct connection *connection = ctx;
	char bytes[HTTP_REQUEST_BYTES];
	ssize_t n = recv(connection->fd, bytes, http_room(&connection->request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		end_connection(connection, false);
		return 0;
	}
	http_take(&connection->request, bytes, (size_t)n);
	if (connection->request.state > HTTP_HEADER)
		answer_request(connection);
	return 0;
}

/* A recorder that is late itself may have had no turn for what the client sent in time. */
static int on_timer(void *ctx, uint32_t events)
{
	struct endpoint *endpoint = ctx;
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (endpoint->deaf_until_ns && endpoint->deaf_until_ns <= now_ns)
		endpoint->deaf_until_ns = loop_add_fd(endpoint->loop, endpoint->listener.fd,
						      EPOLLIN, on_connect, endpoint)
						  ? now_ns + NO_ROOM_NS
						  : 0;
	for (size_t i = 0; i < SLOTS; i++) {
		struct connection *connection = &endpoint->connections[i];

		if (connection->phase == FREE || connection->until_ns > now_ns)
			continue;
		if (connection->phase == WAITING) {
			answer_request(connection);
			continue;
		}
		if (connection->phase == READING)
			on_readable(connection, EPOLLIN);
		if (connection->phase == READING)
			answer(connection, 408, NULL);
		else if (connection->phase != FREE && connection->until_ns <= now_ns)
			end_connection(connection, connection->phase == WRITING);
	}
	set_timer(endpoint);
	return 0;
}

/* ---- who comes ---- */

/* adb's daemon on a device connects an abstract socket as shell, or as root. Nobody connects a
 * socket of mode 0600 who is not root or its owner. Of a TCP
 * connection the kernel does not tell whose it is. */
static bool may_ask(const struct endpoint *endpoint, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (endpoint->is_tcp)
		return true;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (peer.uid == geteuid() || peer.uid == 0 ||
		(peer.uid == SHELL_UID && endpoint->is_abstract && endpoint->is_android));
}

/* A free slot, or that of whoever has its answer for the longest time; NULL: all are at work. */
static struct connection *find_slot(struct endpoint *endpoint)
{
	struct connection *oldest = NULL;

	for (size_t i = 0; i < SLOTS; i++) {
		struct connection *connection = &endpoint->connections[i];

		if (connection->phase == FREE)
			return connection;
		if (connection->phase == DRAINING &&
		    (!oldest || connection->until_ns < oldest->until_ns))
			oldest = connection;
	}
	if (oldest)
		end_connection(oldest, true);
	return oldest;
}

/* Whether one more can be served, if need be in the place of one that does not ask. */
static bool has_place(struct endpoint *endpoint)
{
	struct connection *idle = NULL;
	size_t served = 0;

	for (size_t i = 0; i < SLOTS; i++) {
		struct connection *connection = &endpoint->connections[i];

		if (connection->turned_away || connection->phase == FREE ||
		    connection->phase == DRAINING)
			continue;
		served++;
		if (connection->phase == READING &&
		    (!idle || connection->begun_ns < idle->begun_ns))
			idle = connection;
	}
	if (served < ENDPOINT_CONNECTIONS)
		return true;
	if (!idle || clock_now_ns(CLOCK_MONOTONIC) - idle->begun_ns < IDLE_NS)
		return false;
	answer(idle, 408, NULL);
	return idle->phase != WRITING;
}

static void be_deaf(struct endpoint *endpoint)
{
	loop_remove_fd(endpoint->loop, endpoint->listener.fd);
	endpoint->deaf_until_ns = clock_now_ns(CLOCK_MONOTONIC) + NO_ROOM_NS;
	set_timer(endpoint);
}

static int on_connect(void *ctx, uint32_t events)
{
	struct endpoint *endpoint = ctx;

	for (size_t i = 0; i < ACCEPTS; i++) {
		int fd = accept4(endpoint->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct connection *connection;
		bool place;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				be_deaf(endpoint);
			return 0;
		}
		place = has_place(endpoint);
		connection = find_slot(endpoint);
		if (!connection) {
			close(fd);
			continue;
		}
		connection->fd = fd;
		connection->begun_ns = clock_now_ns(CLOCK_MONOTONIC);
		connection->turned_away = !place || !may_ask(endpoint, fd);
		if (connection->turned_away)
			answer(connection, place ? 403 : 503, NULL);
		else
			watch(connection, READING, ENDPOINT_TIMEOUT_NS);
	}
	return 0;
}

/* ---- the endpoint ---- */

struct endpoint *endpoint_new(const struct endpoint_address *address)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err;

	if (!endpoint)
		return NULL;
	endpoint->is_tcp = address->kind == ENDPOINT_TCP;
	endpoint->is_abstract = address->kind == ENDPOINT_ABSTRACT;
	endpoint->is_android = !access("/dev/__properties__", F_OK);
	endpoint->port = address->port;
	endpoint->timer = -1;
	for (size_t i = 0; i < SLOTS; i++)
		endpoint->connections[i] = (struct connection){.endpoint = endpoint, .fd = -1};
	err = endpoint_listen(address, &endpoint->listener);
	if (!err)
		return endpoint;
	free(endpoint);
	errno = -err;
	return NULL;
}

int endpoint_join_loop(struct endpoint *endpoint, struct loop *loop,
		       const struct endpoint_page *pages, size_t page_count, void *ctx)
{
	int err;

	if (endpoint->loop) {
		for (size_t i = 0; i < SLOTS; i++)
			if (endpoint->connections[i].phase != FREE)
				end_connection(&endpoint->connections[i], false);
		for (size_t i = 0; i < MAX_PAGES; i++) {
			let_go(endpoint->made[i].text);
			endpoint->made[i].text = NULL;
		}
		if (!endpoint->deaf_until_ns)
			loop_remove_fd(endpoint->loop, endpoint->listener.fd);
		endpoint->deaf_until_ns = 0;
		loop_remove_timer(endpoint->loop, endpoint->timer);
	}
	endpoint->timer = -1;
	endpoint->loop = NULL;
	endpoint->pages = pages;
	endpoint->page_count = page_count < MAX_PAGES ? page_count : MAX_PAGES;
	endpoint->ctx = ctx;
	if (!loop)
		return 0;
	endpoint->timer = loop_add_timer(loop, 0, 0, on_timer, endpoint);
	if (endpoint->timer < 0)
		return endpoint->timer;
	err = loop_add_fd(loop, endpoint->listener.fd, EPOLLIN, on_connect, endpoint);
	if (!err)
		endpoint->loop = loop;
	else
		loop_remove_timer(loop, endpoint->timer);
	return err;
}

void endpoint_free(struct endpoint *endpoint)
{
	if (!endpoint)
		return;
	endpoint_join_loop(endpoint, NULL, NULL, 0, NULL);
	endpoint_unlisten(&endpoint->listener);
	free(endpoint);
}
