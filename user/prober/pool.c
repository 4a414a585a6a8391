/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the probers. One prober works on one request at a time, so an answer that
 * is late names the process that holds it up. */
#include "prober/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool_wire.h"
#include "prober/warden.h"
#include "util/channel.h"
#include "util/clock.h"

#define MIN_PROBERS 2
#define MAX_PROBERS 6
#define HANG_NS     NSEC_PER_SEC
#define IDLE_NS     (5 * NSEC_PER_SEC) /* a prober beyond the first ones ends after that */
#define MAX_QUEUED  4096
#define MAX_HOLDS   64
/* A process that cost a prober is left alone for so long, doubled each time. */
#define BACKOFF_NS     NSEC_PER_SEC
#define BACKOFF_MAX_NS (30 * NSEC_PER_SEC)

struct asked {
	struct asked *next; /* in the queue */
	struct probe_call_header header;
	uint8_t *payload;
	int fds[CHANNEL_FDS];
	size_t fd_count;
	uint64_t deadline_at_ns, sent_ns;
	int failed; /* why it could not be sent; told in the loop */
	bool told;  /* the callback ran, or nobody waits for it */
	probe_fn callback;
	void *ctx;
};

struct prober {
	struct prober_pool *pool;
	struct helper helper; /* socket -1: not there */
	struct asked *asked;  /* NULL: free */
	uint64_t free_since_ns;
	bool watched;
};

/* A process that held up a prober until that was replaced. */
struct hold {
	pid_t pid;
	int pidfd; /* of the prober; -1: gone */
	uint64_t until_ns, backoff_ns;
};

enum given_up { GIVEN_UP_LATE, GIVEN_UP_REFUSED, GIVEN_UP_LOST, GIVEN_UP_KINDS };

struct prober_pool {
	struct warden *warden;
	struct loop *loop;
	int timer;
	struct prober probers[MAX_PROBERS];
	struct asked *queue, **queue_end;
	size_t queued;
	int64_t last_id;
	struct hold holds[MAX_HOLDS];
	uint64_t call_left_ns;
	uint64_t given_up[GIVEN_UP_KINDS][PROBE_OPERATIONS], given_up_total;
	uint8_t *buffer, *call_buffer; /* of an answer */
};

#define BUFFER_BYTES (sizeof(struct probe_answer_header) + PROBE_BYTES)

static int on_prober(void *ctx, uint32_t events);
static void dispatch(struct prober_pool *pool);

static uint64_t mono_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

static void give_up(struct prober_pool *pool, enum given_up kind, uint32_t operation)
{
	pool->given_up[kind][operation < PROBE_OPERATIONS ? operation : 0]++;
	pool->given_up_total++;
}

/* ---- requests ---- */

static void free_asked(struct asked *asked)
{
	if (!asked)
		return;
	for (size_t i = 0; i < asked->fd_count; i++)
		close(asked->fds[i]);
	free(asked->payload);
	free(asked);
}

static void finish(struct prober_pool *pool, struct asked *asked, int err,
		   const struct probe_answer *answer)
{
	if (asked->told)
		return;
	asked->told = true;
	if (err == -ETIMEDOUT)
		give_up(pool, GIVEN_UP_LATE, asked->header.request.operation);
	else if (err == -EBUSY)
		give_up(pool, GIVEN_UP_REFUSED, asked->header.request.operation);
	else if (err == -EPIPE)
		give_up(pool, GIVEN_UP_LOST, asked->header.request.operation);
	if (asked->callback)
		asked->callback(asked->ctx, err, err ? NULL : answer);
}

static void unqueue(struct prober_pool *pool, struct asked *asked)
{
	struct asked **link = &pool->queue;

	while (*link != asked)
		link = &(*link)->next;
	*link = asked->next;
	if (pool->queue_end == &asked->next)
		pool->queue_end = link;
	pool->queued--;
}

/* ---- processes that hold up ---- */

static struct hold *find_hold(struct prober_pool *pool, pid_t pid)
{
	for (size_t i = 0; i < MAX_HOLDS && pid; i++)
		if (pool->holds[i].pid == pid)
			return &pool->holds[i];
	return NULL;
}

static void clear_hold(struct hold *hold)
{
	if (hold->pidfd >= 0)
		close(hold->pidfd);
	*hold = (struct hold){.pidfd = -1};
}

static void add_hold(struct prober_pool *pool, pid_t pid, int pidfd)
{
	struct hold *hold = find_hold(pool, pid), *oldest = &pool->holds[0];
	uint64_t backoff_ns = hold ? hold->backoff_ns * 2 : BACKOFF_NS;

	for (size_t i = 0; i < MAX_HOLDS && !hold; i++) {
		if (!pool->holds[i].pid)
			hold = &pool->holds[i];
		if (pool->holds[i].until_ns < oldest->until_ns)
			oldest = &pool->holds[i];
	}
	hold = hold ?: oldest;
	clear_hold(hold);
	*hold = (struct hold){
		.pid = pid,
		.pidfd = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 0) : -1,
		.backoff_ns = backoff_ns < BACKOFF_MAX_NS ? backoff_ns : BACKOFF_MAX_NS,
	};
	hold->until_ns = mono_ns() + hold->backoff_ns;
}

/* The prober that works on this process, if any. */
static struct prober *prober_on(struct prober_pool *pool, pid_t pid)
{
	for (size_t i = 0; i < MAX_PROBERS && pid; i++)
		if (pool->probers[i].asked && pool->probers[i].asked->header.request.pid == pid)
			return &pool->probers[i];
	return NULL;
}

static bool is_late(const struct prober *prober, uint64_t now_ns)
{
	return prober->asked && now_ns >= prober->asked->deadline_at_ns;
}

static bool holds_up(struct prober_pool *pool, pid_t pid)
{
	struct prober *prober = prober_on(pool, pid);
	struct hold *hold = find_hold(pool, pid);

	if (prober && is_late(prober, mono_ns()))
		return true;
	if (!hold)
		return false;
	if (hold->pidfd >= 0) {
		struct pollfd pollfd = {.fd = hold->pidfd, .events = POLLIN};

		if (poll(&pollfd, 1, 0) <= 0)
			return true;
		close(hold->pidfd);
		hold->pidfd = -1;
	}
	return mono_ns() < hold->until_ns;
}

/* ---- probers ---- */

static void watch(struct prober_pool *pool, struct prober *prober)
{
	if (pool->loop && !prober->watched && prober->helper.socket >= 0)
		prober->watched =
			!loop_add_fd(pool->loop, prober->helper.socket, EPOLLIN, on_prober, prober);
}

static int start_prober(struct prober_pool *pool, struct prober *prober)
{
	int err = warden_spawn(pool->warden, HELPER_PROBER, &prober->helper);

	if (!err) {
		prober->free_since_ns = mono_ns();
		watch(pool, prober);
	}
	return err;
}

static void drop_prober(struct prober_pool *pool, struct prober *prober, bool hung)
{
	if (prober->watched)
		loop_remove_fd(pool->loop, prober->helper.socket);
	prober->watched = false;
	warden_drop(pool->warden, &prober->helper, hung);
}

static size_t count_probers(const struct prober_pool *pool)
{
	size_t count = 0;

	for (size_t i = 0; i < MAX_PROBERS; i++)
		count += pool->probers[i].helper.socket >= 0;
	return count;
}

static void keep_minimum(struct prober_pool *pool)
{
	size_t count = count_probers(pool);

	for (size_t i = 0; i < MAX_PROBERS && count < MIN_PROBERS; i++)
		if (pool->probers[i].helper.socket < 0 && !start_prober(pool, &pool->probers[i]))
			count++;
}

/* Its process died, or is given up. The request that it had is told -EPIPE, unless it was late. */
static void prober_gone(struct prober_pool *pool, struct prober *prober, bool hung)
{
	struct asked *asked = prober->asked;

	prober->asked = NULL;
	if (hung && asked && asked->header.request.pid)
		add_hold(pool, asked->header.request.pid, prober->helper.pidfd);
	drop_prober(pool, prober, hung);
	keep_minimum(pool);
	if (asked) {
		finish(pool, asked, -EPIPE, NULL);
		free_asked(asked);
	}
}

/* One that is free: first those that run. NULL with *err: 0 wait for one, -EBUSY all are held up,
 * or why none can be made. */
static struct prober *free_prober(struct prober_pool *pool, int *err)
{
	struct prober *absent = NULL;
	bool alive = false, held_up = true;
	uint64_t now_ns = mono_ns();

	*err = 0;
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		if (prober->helper.socket < 0) {
			absent = absent ?: prober;
			continue;
		}
		if (!prober->asked)
			return prober;
		alive = true;
		held_up &= is_late(prober, now_ns);
	}
	if (absent) {
		*err = start_prober(pool, absent);
		if (!*err)
			return absent;
	}
	/* What still works will be free. */
	if (alive && !held_up)
		*err = 0;
	else if (!*err)
		*err = -EBUSY;
	return NULL;
}

static int send_request(struct prober *prober, struct asked *asked)
{
	struct iovec parts[] = {{&asked->header, sizeof(asked->header)},
				{asked->payload, asked->header.payload_length}};
	int err = channel_send(prober->helper.socket, parts, 2, asked->fds, asked->fd_count);

	if (err)
		return err;
	for (size_t i = 0; i < asked->fd_count; i++)
		close(asked->fds[i]);
	asked->fd_count = 0;
	asked->sent_ns = mono_ns();
	prober->asked = asked;
	return 0;
}

/* Until when the earliest thing is due; 0: none is. */
static void arm(struct prober_pool *pool)
{
	uint64_t due_ns = UINT64_MAX, now_ns;

	if (!pool->loop)
		return;
	for (struct asked *asked = pool->queue; asked; asked = asked->next) {
		if (asked->failed)
			due_ns = 0;
		if (asked->deadline_at_ns < due_ns)
			due_ns = asked->deadline_at_ns;
	}
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		const struct asked *asked = pool->probers[i].asked;
		uint64_t at_ns;

		if (!asked)
			continue;
		at_ns = asked->told ? asked->sent_ns + HANG_NS : asked->deadline_at_ns;
		if (asked->told && at_ns < asked->deadline_at_ns)
			at_ns = asked->deadline_at_ns;
		if (at_ns < due_ns)
			due_ns = at_ns;
	}
	now_ns = mono_ns();
	loop_set_timer(pool->timer,
		       due_ns == UINT64_MAX ? 0
		       : due_ns > now_ns    ? due_ns - now_ns
					    : 1,
		       0);
}

/* Send what waits to the probers that are free. Runs no callback: what fails is marked. */
static void dispatch(struct prober_pool *pool)
{
	struct asked *asked = pool->queue, *next;

	for (; asked; asked = next) {
		struct prober *prober;
		int err;

		next = asked->next;
		if (asked->failed || prober_on(pool, asked->header.request.pid))
			continue;
		prober = free_prober(pool, &err);
		if (!prober && !err)
			break;
		if (prober)
			err = send_request(prober, asked);
		if (err == -EPIPE && prober) {
			/* Dead, and its end is not read yet; it had no request. */
			prober_gone(pool, prober, false);
			next = asked;
			if (!count_probers(pool))
				asked->failed = -EPIPE;
		} else if (err) {
			asked->failed = err;
		} else {
			unqueue(pool, asked);
		}
	}
	arm(pool);
}

/* ---- answers ---- */

static void close_answer(struct prober_pool *pool, uint32_t operation, int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fds[i] < 0)
			continue;
		/* The last close of a probe waits. */
		if (operation == PROBE_ATTACH)
			warden_close(pool->warden, &fds[i], 1);
		else
			close(fds[i]);
	}
}

static void take_answer(struct prober_pool *pool, struct prober *prober, uint8_t *message,
			size_t length, int *fds, size_t fd_count)
{
	struct probe_answer_header header;
	struct probe_answer answer;
	struct asked *asked = prober->asked;
	struct hold *hold;

	if (length < sizeof(header) || !asked) {
		close_answer(pool, 0, fds, fd_count);
		return;
	}
	memcpy(&header, message, sizeof(header));
	if (header.id != asked->header.id || header.length != length - sizeof(header)) {
		close_answer(pool, asked->header.request.operation, fds, fd_count);
		return;
	}
	prober->asked = NULL;
	prober->free_since_ns = mono_ns();
	if ((hold = find_hold(pool, asked->header.request.pid)))
		clear_hold(hold);
	if (!header.err && header.fd_count != fd_count)
		header.err = -EMFILE;
	answer = (struct probe_answer){header.value, message + sizeof(header), header.length, fds,
				       fd_count};
	finish(pool, asked, header.err, &answer);
	close_answer(pool, asked->header.request.operation, fds, fd_count);
	free_asked(asked);
}

/* Take all that a prober said. */
static void take_messages(struct prober_pool *pool, struct prober *prober)
{
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	while (prober->helper.socket >= 0) {
		n = channel_receive(prober->helper.socket, pool->buffer, BUFFER_BYTES, fds, &count);
		if (n == -EAGAIN)
			return;
		if (n <= 0 && n != -EMSGSIZE) {
			prober_gone(pool, prober, false);
			return;
		}
		if (n > 0 &&
		    !helper_take_hello(&prober->helper, pool->buffer, (size_t)n, fds, count))
			take_answer(pool, prober, pool->buffer, (size_t)n, fds, count);
	}
}

static int on_prober(void *ctx, uint32_t events)
{
	struct prober *prober = ctx;
	struct prober_pool *pool = prober->pool;

	take_messages(pool, prober);
	dispatch(pool);
	return 0;
}

/* ---- deadlines ---- */

/* Runs no callback. */
static void replace_hung(struct prober_pool *pool)
{
	uint64_t now_ns = mono_ns();

	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		if (prober->asked && prober->asked->told && is_late(prober, now_ns) &&
		    now_ns - prober->asked->sent_ns >= HANG_NS)
			prober_gone(pool, prober, true);
	}
}

/* The first of the queue that is late, could not be sent, or is about a process that holds up. */
static struct asked *next_to_fail(struct prober_pool *pool, uint64_t now_ns, int *err)
{
	for (struct asked *asked = pool->queue; asked; asked = asked->next) {
		struct prober *prober = prober_on(pool, asked->header.request.pid);

		*err = asked->failed;
		if (!*err && prober && is_late(prober, now_ns))
			*err = -EBUSY;
		if (!*err && now_ns >= asked->deadline_at_ns)
			*err = -ETIMEDOUT;
		if (*err)
			return asked;
	}
	return NULL;
}

static int on_timer(void *ctx, uint32_t events)
{
	struct prober_pool *pool = ctx;
	struct asked *asked;
	uint64_t now_ns;
	int err;

	/* An answer that is there is not late, even if this loop is. */
	for (size_t i = 0; i < MAX_PROBERS; i++)
		take_messages(pool, &pool->probers[i]);
	now_ns = mono_ns();
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		asked = pool->probers[i].asked;
		if (asked && !asked->told && now_ns >= asked->deadline_at_ns)
			finish(pool, asked, -ETIMEDOUT, NULL);
	}
	dispatch(pool);
	while ((asked = next_to_fail(pool, now_ns, &err))) {
		unqueue(pool, asked);
		finish(pool, asked, err, NULL);
		free_asked(asked);
	}
	replace_hung(pool);
	dispatch(pool);
	return 0;
}

/* ---- asking ---- */

static struct asked *new_asked(struct prober_pool *pool, const struct probe_request *request,
			       const void *payload, size_t payload_length)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	if (!asked)
		return NULL;
	asked->header.id = (uint64_t)++pool->last_id;
	asked->header.request = *request;
	asked->header.payload_length = (uint32_t)payload_length;
	if (payload_length) {
		asked->payload = malloc(payload_length);
		if (!asked->payload) {
			free(asked);
			return NULL;
		}
		memcpy(asked->payload, payload, payload_length);
	}
	return asked;
}

int64_t probe_ask(struct prober_pool *pool, const struct probe_request *request,
		  const void *payload, size_t payload_length, const int *fds, size_t fd_count,
		  uint64_t deadline_ns, probe_fn callback, void *ctx)
{
	struct asked *asked;
	int err = 0;

	if (!pool->loop || payload_length > PROBE_PAYLOAD_BYTES || fd_count > CHANNEL_FDS)
		return -EINVAL;
	if (holds_up(pool, request->pid) || pool->queued == MAX_QUEUED)
		err = -EBUSY;
	else if (!prober_on(pool, request->pid))
		free_prober(pool, &err);
	if (err) {
		give_up(pool, err == -EBUSY ? GIVEN_UP_REFUSED : GIVEN_UP_LOST, request->operation);
		return err == -EBUSY ? err : -EPIPE;
	}
	asked = new_asked(pool, request, payload, payload_length);
	if (!asked)
		return -ENOMEM;
	for (; asked->fd_count < fd_count; asked->fd_count++) {
		int fd = fcntl(fds[asked->fd_count], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			err = -errno;
			free_asked(asked);
			return err;
		}
		asked->fds[asked->fd_count] = fd;
	}
	asked->callback = callback;
	asked->ctx = ctx;
	asked->deadline_at_ns = mono_ns() + deadline_ns;
	*pool->queue_end = asked;
	pool->queue_end = &asked->next;
	pool->queued++;
	dispatch(pool);
	return (int64_t)asked->header.id;
}

void probe_cancel(struct prober_pool *pool, int64_t id)
{
	for (struct asked *asked = pool->queue; asked; asked = asked->next) {
		if (asked->header.id != (uint64_t)id)
			continue;
		unqueue(pool, asked);
		free_asked(asked);
		return;
	}
	for (size_t i = 0; i < MAX_PROBERS; i++)
		if (pool->probers[i].asked && pool->probers[i].asked->header.id == (uint64_t)id)
			pool->probers[i].asked->callback = NULL;
}

/* The answer of a call, or -ETIMEDOUT. */
static ssize_t wait_for_answer(struct prober_pool *pool, struct prober *prober, uint64_t until_ns,
			       void *to, size_t room)
{
	struct asked *asked = prober->asked;
	struct probe_answer_header header;
	int fds[CHANNEL_FDS];
	uint64_t now_ns;
	size_t count;
	ssize_t n;

	for (;;) {
		n = channel_receive(prober->helper.socket, pool->call_buffer, BUFFER_BYTES, fds,
				    &count);
		if (n == -EAGAIN) {
			now_ns = mono_ns();
			if (now_ns >= until_ns)
				return -ETIMEDOUT;
			channel_wait(prober->helper.socket, until_ns - now_ns);
			continue;
		}
		if (n <= 0 && n != -EMSGSIZE) {
			prober_gone(pool, prober, false);
			return -EPIPE;
		}
		if (n > 0 &&
		    helper_take_hello(&prober->helper, pool->call_buffer, (size_t)n, fds, count))
			continue;
		close_answer(pool, asked->header.request.operation, fds, count);
		if (n < (ssize_t)sizeof(header))
			continue;
		memcpy(&header, pool->call_buffer, sizeof(header));
		if (header.id == asked->header.id)
			break;
	}
	prober->asked = NULL;
	prober->free_since_ns = mono_ns();
	free_asked(asked);
	if (header.err)
		return header.err;
	if (header.length > (size_t)n - sizeof(header))
		return -EBADMSG;
	if (header.length < room)
		room = header.length;
	memcpy(to, pool->call_buffer + sizeof(header), room);
	return (ssize_t)room;
}

static ssize_t call(struct prober_pool *pool, const struct probe_request *request, void *to,
		    size_t room, uint64_t now_ns)
{
	struct prober *prober;
	struct asked *asked;
	int err;

	if (!pool->call_left_ns || prober_on(pool, request->pid) || holds_up(pool, request->pid))
		return -EBUSY;
	asked = new_asked(pool, request, NULL, 0);
	if (!asked)
		return -ENOMEM;
	/* Nobody is to be told in the loop. */
	asked->told = true;
	asked->deadline_at_ns = now_ns + pool->call_left_ns;
	do {
		prober = free_prober(pool, &err);
		if (prober)
			err = send_request(prober, asked);
		if (prober && err == -EPIPE)
			prober_gone(pool, prober, false);
	} while (prober && err == -EPIPE);
	if (!prober || err) {
		free_asked(asked);
		return err ? err : -EBUSY;
	}
	return wait_for_answer(pool, prober, asked->deadline_at_ns, to, room);
}

ssize_t probe_call(struct prober_pool *pool, const struct probe_request *request, void *to,
		   size_t room)
{
	uint64_t now_ns = mono_ns(), took_ns;
	ssize_t n;

	if (!pool->loop) {
		/* An answer that came too late frees its prober here. */
		for (size_t i = 0; i < MAX_PROBERS; i++)
			if (pool->probers[i].asked)
				take_messages(pool, &pool->probers[i]);
		replace_hung(pool);
	}
	n = call(pool, request, to, room, now_ns);
	if (n == -ETIMEDOUT)
		give_up(pool, GIVEN_UP_LATE, request->operation);
	else if (n == -EBUSY)
		give_up(pool, GIVEN_UP_REFUSED, request->operation);
	else if (n == -EPIPE)
		give_up(pool, GIVEN_UP_LOST, request->operation);
	took_ns = mono_ns() - now_ns;
	pool->call_left_ns = took_ns < pool->call_left_ns ? pool->call_left_ns - took_ns : 0;
	if (n == -ETIMEDOUT)
		arm(pool);
	return n;
}

void probe_new_turn(struct prober_pool *pool)
{
	size_t count = count_probers(pool);

	pool->call_left_ns = PROBE_CALL_NS;
	for (size_t i = MAX_PROBERS; i-- > 0 && count > MIN_PROBERS;) {
		struct prober *prober = &pool->probers[i];

		if (prober->helper.socket < 0 || prober->asked ||
		    mono_ns() - prober->free_since_ns < IDLE_NS)
			continue;
		drop_prober(pool, prober, false);
		count--;
	}
}

/* ---- its life ---- */

static void on_warden_made(void *ctx, int err, const struct probe_answer *answer)
{
	struct prober_pool *pool = ctx;

	if (err)
		warden_not_made(pool->warden);
}

static int make_warden(void *ctx, int socket)
{
	struct prober_pool *pool = ctx;
	struct probe_request request = {.operation = PROBE_WARDEN};
	int64_t id = probe_ask(pool, &request, NULL, 0, &socket, 1, PROBE_ATTACH_NS, on_warden_made,
			       pool);

	return id < 0 ? (int)id : 0;
}

struct prober_pool *prober_pool_new(struct warden *warden)
{
	struct prober_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->warden = warden;
	pool->timer = -1;
	pool->queue_end = &pool->queue;
	pool->call_left_ns = PROBE_CALL_NS;
	for (size_t i = 0; i < MAX_HOLDS; i++)
		pool->holds[i].pidfd = -1;
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		pool->probers[i].pool = pool;
		pool->probers[i].helper.socket = pool->probers[i].helper.pidfd = -1;
	}
	pool->buffer = malloc(BUFFER_BYTES);
	pool->call_buffer = malloc(BUFFER_BYTES);
	if (!pool->buffer || !pool->call_buffer) {
		prober_pool_free(pool);
		errno = ENOMEM;
		return NULL;
	}
	keep_minimum(pool);
	if (!count_probers(pool)) {
		prober_pool_free(pool);
		errno = EPIPE;
		return NULL;
	}
	warden_set_maker(warden, make_warden, pool);
	return pool;
}

static void leave_loop(struct prober_pool *pool)
{
	if (!pool->loop)
		return;
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		if (prober->watched)
			loop_remove_fd(pool->loop, prober->helper.socket);
		prober->watched = false;
		if (prober->asked)
			prober->asked->told = true;
	}
	while (pool->queue) {
		struct asked *asked = pool->queue;

		unqueue(pool, asked);
		free_asked(asked);
	}
	loop_remove_timer(pool->loop, pool->timer);
	pool->timer = -1;
	pool->loop = NULL;
}

int prober_pool_join_loop(struct prober_pool *pool, struct loop *loop)
{
	int timer;

	if (!loop) {
		leave_loop(pool);
		return 0;
	}
	timer = loop_add_timer(loop, 0, 0, on_timer, pool);
	if (timer < 0)
		return timer;
	pool->timer = timer;
	pool->loop = loop;
	for (size_t i = 0; i < MAX_PROBERS; i++)
		watch(pool, &pool->probers[i]);
	arm(pool);
	return 0;
}

void prober_pool_free(struct prober_pool *pool)
{
	if (!pool)
		return;
	warden_set_maker(pool->warden, NULL, NULL);
	leave_loop(pool);
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		drop_prober(pool, prober, prober->asked && is_late(prober, mono_ns()));
		free_asked(prober->asked);
	}
	for (size_t i = 0; i < MAX_HOLDS; i++)
		clear_hold(&pool->holds[i]);
	free(pool->buffer);
	free(pool->call_buffer);
	free(pool);
}

static const char *const operation_names[PROBE_OPERATIONS] = {
	[PROBE_NONE] = "other",        [PROBE_READ] = "read",
	[PROBE_READ_LINK] = "link",    [PROBE_READ_BLOB] = "blob",
	[PROBE_MEMORY] = "memory",     [PROBE_OPEN] = "open",
	[PROBE_STANDING] = "standing", [PROBE_LOCK_OWNER] = "lock_owner",
	[PROBE_ATTACH] = "attach",     [PROBE_WARDEN] = "warden",
	[PROBE_OPEN_EXE] = "exe",      [PROBE_OPEN_JIT_NAMES] = "jit_names",
	[PROBE_OPEN_AT] = "open_at",
};

int prober_pool_counters(struct prober_pool *pool, struct counter_list *late)
{
	static const char *const kinds[GIVEN_UP_KINDS] = {
		[GIVEN_UP_LATE] = "late",
		[GIVEN_UP_REFUSED] = "refused",
		[GIVEN_UP_LOST] = "lost",
	};
	char name[48];
	int err = 0;

	for (size_t operation = 0; operation < PROBE_OPERATIONS; operation++) {
		for (size_t kind = 0; kind < GIVEN_UP_KINDS; kind++) {
			snprintf(name, sizeof(name), "probe_%s_%s", operation_names[operation],
				 kinds[kind]);
			err = err ?: counter_list_add(late, name, pool->given_up[kind][operation]);
			pool->given_up[kind][operation] = 0;
		}
	}
	return err;
}

uint64_t prober_pool_given_up(const struct prober_pool *pool)
{
	return pool->given_up_total;
}
