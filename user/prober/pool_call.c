/* SPDX-License-Identifier: BSD-2-Clause */
/* The call that waits: for a few bytes that the recorder needs at once. */
#include <errno.h>
#include <string.h>

#include "prober/pool_private.h"

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
			now_ns = pool_now_ns();
			if (now_ns >= until_ns)
				return -ETIMEDOUT;
			channel_wait(prober->helper.socket, until_ns - now_ns);
			continue;
		}
		if (n <= 0 && n != -EMSGSIZE) {
			pool_prober_gone(pool, prober, false);
			return -EPIPE;
		}
		if (n > 0 &&
		    pool_take_hello(pool, prober, pool->call_buffer, (size_t)n, fds, count))
			continue;
		pool_close_answer(pool, asked->header.request.operation, fds, count);
		if (n < (ssize_t)sizeof(header))
			continue;
		memcpy(&header, pool->call_buffer, sizeof(header));
		if (header.id == asked->header.id)
			break;
	}
	prober->asked = NULL;
	prober->free_since_ns = pool_now_ns();
	pool_set_proven(pool, asked->header.request.pid, true);
	pool_free_asked(asked);
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

	if (!pool->call_left_ns || pool_prober_on(pool, request->pid) ||
	    pool_holds_up(pool, request->pid))
		return -EBUSY;
	asked = pool_new_asked(pool, request, NULL, 0);
	if (!asked)
		return -ENOMEM;
	/* Nobody is to be told in the loop. */
	asked->told = true;
	asked->deadline_at_ns = now_ns + pool->call_left_ns;
	do {
		prober = pool_free_prober(pool, request->pid, false, &err);
		if (prober)
			err = pool_send_request(prober, asked);
		if (prober && err == -EPIPE)
			pool_prober_gone(pool, prober, false);
	} while (prober && err == -EPIPE);
	if (!prober || err) {
		pool_free_asked(asked);
		return err ? err : -EBUSY;
	}
	return wait_for_answer(pool, prober, asked->deadline_at_ns, to, room);
}

ssize_t probe_call(struct prober_pool *pool, const struct probe_request *request, void *to,
		   size_t room)
{
	uint64_t now_ns = pool_now_ns(), took_ns;
	ssize_t n;

	if (!pool->loop) {
		/* An answer that came too late frees its prober here. */
		for (size_t i = 0; i < MAX_PROBERS; i++)
			if (pool->probers[i].asked)
				pool_take_messages(pool, &pool->probers[i]);
		pool_replace_hung(pool);
	}
	n = call(pool, request, to, room, now_ns);
	if (n == -ETIMEDOUT)
		pool_give_up(pool, GIVEN_UP_LATE, request->operation);
	else if (n == -EBUSY)
		pool_give_up(pool, GIVEN_UP_REFUSED, request->operation);
	else if (n == -EPIPE)
		pool_give_up(pool, GIVEN_UP_LOST, request->operation);
	took_ns = pool_now_ns() - now_ns;
	pool->call_left_ns = took_ns < pool->call_left_ns ? pool->call_left_ns - took_ns : 0;
	if (n == -ETIMEDOUT)
		pool_arm(pool);
	return n;
}
