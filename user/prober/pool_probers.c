/* SPDX-License-Identifier: BSD-2-Clause */
/* The probers: making and dropping them, what they are sent and what they answer. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool_private.h"

/* The rests between tries to make a prober where none can be made. */
#define RETRY_NS     (10 * NSEC_PER_MSEC)
#define RETRY_MAX_NS NSEC_PER_SEC

/* The prober that works on this process, if any. */
struct prober *pool_prober_on(struct prober_pool *pool, pid_t pid)
{
	for (size_t i = 0; i < MAX_PROBERS && pid; i++)
		if (pool->probers[i].asked && pool->probers[i].asked->header.request.pid == pid)
			return &pool->probers[i];
	return NULL;
}

bool pool_is_late(const struct prober *prober, uint64_t now_ns)
{
	return prober->asked && now_ns >= prober->asked->deadline_at_ns;
}

/* ---- probers ---- */

void pool_watch(struct prober_pool *pool, struct prober *prober)
{
	if (pool->loop && !prober->watched && prober->helper.socket >= 0)
		prober->watched = !loop_add_fd(pool->loop, prober->helper.socket, EPOLLIN,
					       pool_on_prober, prober);
}

static int pool_start_prober(struct prober_pool *pool, struct prober *prober)
{
	int err = pool_now_ns() < pool->not_before_ns
			  ? -EPIPE
			  : warden_spawn(pool->warden, HELPER_PROBER, &prober->helper);

	if (!err) {
		prober->free_since_ns = pool_now_ns();
		pool_watch(pool, prober);
	}
	return err;
}

/* Probes that nobody takes any more: the last close of them is the warden's. What the prober sends
 * from here on comes back to it. */
static void take_late_probes(struct prober_pool *pool, struct prober *prober)
{
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	if (prober->helper.socket < 0)
		return;
	shutdown(prober->helper.socket, SHUT_RD);
	while ((n = channel_receive(prober->helper.socket, pool->call_buffer, BUFFER_BYTES, fds,
				    &count)) > 0 ||
	       n == -EMSGSIZE)
		pool_close_answer(pool, PROBE_ATTACH, fds, count);
}

void pool_drop_prober(struct prober_pool *pool, struct prober *prober, bool hung)
{
	if (prober->watched)
		loop_remove_fd(pool->loop, prober->helper.socket);
	prober->watched = false;
	take_late_probes(pool, prober);
	warden_drop(pool->warden, &prober->helper, hung);
}

size_t pool_count_probers(const struct prober_pool *pool)
{
	size_t count = 0;

	for (size_t i = 0; i < MAX_PROBERS; i++)
		count += pool->probers[i].helper.socket >= 0;
	return count;
}

void pool_keep_minimum(struct prober_pool *pool)
{
	size_t count = pool_count_probers(pool);

	for (size_t i = 0; i < MAX_PROBERS && count < MIN_PROBERS; i++)
		if (pool->probers[i].helper.socket < 0 &&
		    !pool_start_prober(pool, &pool->probers[i]))
			count++;
}

/* A prober ended before it said who it is: where no process can be made, each try does so at once.
 * The next one follows at once, those behind it after rests that double. */
static void put_off(struct prober_pool *pool)
{
	uint64_t now_ns = pool_now_ns();
	uint64_t rest_ns = pool->unmade ? RETRY_NS << (pool->unmade - 1) : 0;

	if (now_ns < pool->not_before_ns)
		return;
	pool->unmade += rest_ns < RETRY_MAX_NS;
	pool->not_before_ns = now_ns + (rest_ns < RETRY_MAX_NS ? rest_ns : RETRY_MAX_NS);
}

bool pool_take_hello(struct prober_pool *pool, struct prober *prober, const void *message,
		     size_t length, const int *fds, size_t fd_count)
{
	if (!helper_take_hello(&prober->helper, message, length, fds, fd_count))
		return false;
	pool->unmade = 0;
	pool->not_before_ns = 0;
	return true;
}

/* Its process died, or is given up. The request that it had is told -EPIPE, unless it was late. */
void pool_prober_gone(struct prober_pool *pool, struct prober *prober, bool hung)
{
	struct asked *asked = prober->asked;

	if (!hung && !prober->helper.pid)
		put_off(pool);
	prober->asked = NULL;
	if (asked)
		pool_set_proven(pool, asked->header.request.pid, false);
	if (hung && asked && asked->header.request.pid)
		pool_add_hold(pool, asked->header.request.pid, prober->helper.pidfd);
	pool_drop_prober(pool, prober, hung);
	pool_keep_minimum(pool);
	if (asked) {
		pool_finish(pool, asked, -EPIPE, NULL);
		pool_free_asked(asked);
	}
}

size_t pool_count_free(const struct prober_pool *pool)
{
	size_t count = 0;

	for (size_t i = 0; i < MAX_PROBERS; i++)
		count += !pool->probers[i].asked;
	return count;
}

struct prober *pool_free_prober(struct prober_pool *pool, pid_t pid, bool in_queue, int *err)
{
	struct prober *absent = NULL;
	uint64_t now_ns = pool_now_ns();
	bool soon = false;
	size_t count = 0;

	*err = 0;
	if (pool_count_free(pool) < (pool_is_proven(pool, pid) ? 1 : 2))
		return NULL;
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		if (prober->helper.socket < 0) {
			absent = absent ?: prober;
			continue;
		}
		if (!prober->asked)
			return prober;
		count++;
		soon |= now_ns - prober->asked->sent_ns < GROW_NS;
	}
	if (in_queue && soon && count >= MIN_PROBERS) {
		*err = -EAGAIN;
		return NULL;
	}
	*err = pool_start_prober(pool, absent);
	if (!*err)
		return absent;
	/* What still works will be free. */
	if (count)
		*err = 0;
	return NULL;
}

struct prober *pool_made_prober(struct prober_pool *pool, int *err)
{
	*err = -EPIPE;
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		if (prober->helper.socket < 0 || !prober->helper.pid)
			continue;
		*err = 0;
		if (!prober->asked)
			return prober;
	}
	return NULL;
}

uint64_t pool_crowded_until(const struct prober_pool *pool)
{
	uint64_t until_ns = UINT64_MAX;

	for (size_t i = 0; i < MAX_PROBERS && pool_count_free(pool) < 2; i++) {
		const struct asked *asked = pool->probers[i].asked;
		uint64_t at_ns;

		if (!asked)
			continue;
		at_ns = asked->sent_ns + CROWDED_NS;
		if (at_ns < asked->deadline_at_ns)
			at_ns = asked->deadline_at_ns;
		if (at_ns < until_ns)
			until_ns = at_ns;
	}
	return until_ns;
}

int pool_send_request(struct prober *prober, struct asked *asked)
{
	struct iovec parts[] = {{&asked->header, sizeof(asked->header)},
				{asked->payload, asked->header.payload_length}};
	int err = channel_send(prober->helper.socket, parts, 2, asked->fds, asked->fd_count);

	if (err)
		return err;
	for (size_t i = 0; i < asked->fd_count; i++)
		close(asked->fds[i]);
	asked->fd_count = 0;
	asked->sent_ns = pool_now_ns();
	prober->asked = asked;
	return 0;
}

/* ---- answers ---- */

void pool_close_answer(struct prober_pool *pool, uint32_t operation, int *fds, size_t count)
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
		pool_close_answer(pool, 0, fds, fd_count);
		return;
	}
	memcpy(&header, message, sizeof(header));
	if (header.id != asked->header.id || header.length != length - sizeof(header)) {
		pool_close_answer(pool, asked->header.request.operation, fds, fd_count);
		return;
	}
	prober->asked = NULL;
	prober->free_since_ns = pool_now_ns();
	pool_set_proven(pool, asked->header.request.pid, true);
	if ((hold = pool_find_hold(pool, asked->header.request.pid)))
		pool_clear_hold(hold);
	if (!header.err && header.fd_count != fd_count)
		header.err = -EMFILE;
	answer = (struct probe_answer){header.value, message + sizeof(header), header.length, fds,
				       fd_count};
	pool_finish(pool, asked, header.err, &answer);
	pool_close_answer(pool, asked->header.request.operation, fds, fd_count);
	pool_free_asked(asked);
}

/* Take all that a prober said. */
void pool_take_messages(struct prober_pool *pool, struct prober *prober)
{
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	while (prober->helper.socket >= 0) {
		n = channel_receive(prober->helper.socket, pool->buffer, BUFFER_BYTES, fds, &count);
		if (n == -EAGAIN)
			return;
		if (n <= 0 && n != -EMSGSIZE) {
			pool_prober_gone(pool, prober, false);
			return;
		}
		if (n > 0 && !pool_take_hello(pool, prober, pool->buffer, (size_t)n, fds, count))
			take_answer(pool, prober, pool->buffer, (size_t)n, fds, count);
	}
}

/* Runs no callback. */
void pool_replace_hung(struct prober_pool *pool)
{
	uint64_t now_ns = pool_now_ns();
	/* One at a time makes room: a machine that is only slow loses no more by it. */
	bool crowded = pool->queue && now_ns >= pool_crowded_until(pool);

	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];
		uint64_t since_ns = prober->asked ? now_ns - prober->asked->sent_ns : 0;

		if (!prober->asked || !prober->asked->told || !pool_is_late(prober, now_ns))
			continue;
		if (since_ns >= HANG_NS || (crowded && since_ns >= CROWDED_NS)) {
			crowded = false;
			pool_prober_gone(pool, prober, true);
		}
	}
}
