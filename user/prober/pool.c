/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the probers. One prober works on one request at a time, so an answer that
 * is late names the process that holds it up. */
#include "prober/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool_private.h"

void pool_give_up(struct prober_pool *pool, enum given_up kind, uint32_t operation)
{
	pool->given_up[kind][operation < PROBE_OPERATIONS ? operation : 0]++;
	pool->given_up_total++;
}

/* ---- requests ---- */

void pool_free_asked(struct asked *asked)
{
	if (!asked)
		return;
	for (size_t i = 0; i < asked->fd_count; i++)
		close(asked->fds[i]);
	free(asked->payload);
	free(asked);
}

void pool_finish(struct prober_pool *pool, struct asked *asked, int err,
		 const struct probe_answer *answer)
{
	if (asked->told)
		return;
	asked->told = true;
	if (err == -ETIMEDOUT)
		pool_give_up(pool, GIVEN_UP_LATE, asked->header.request.operation);
	else if (err == -EBUSY)
		pool_give_up(pool, GIVEN_UP_REFUSED, asked->header.request.operation);
	else if (err == -EPIPE)
		pool_give_up(pool, GIVEN_UP_LOST, asked->header.request.operation);
	if (asked->callback)
		asked->callback(asked->ctx, err, err ? NULL : answer);
}

void pool_unqueue(struct prober_pool *pool, struct asked *asked)
{
	struct asked **link = &pool->queue;

	while (*link != asked)
		link = &(*link)->next;
	*link = asked->next;
	if (pool->queue_end == &asked->next)
		pool->queue_end = link;
	pool->queued--;
}

/* ---- sending ---- */

static void set_timer(struct prober_pool *pool, uint64_t due_ns)
{
	uint64_t now_ns = pool_now_ns();

	pool->armed_ns = due_ns;
	loop_set_timer(pool->loop, pool->timer,
		       due_ns == UINT64_MAX ? 0
		       : due_ns > now_ns    ? due_ns - now_ns
					    : 1,
		       0);
}

/* Something is due then. What is due goes with its answer, and the timer stays as it is: it may
 * fire for nothing, which costs less than a look at all that waits with each request. */
static void arm_for(struct prober_pool *pool, uint64_t due_ns)
{
	if (pool->loop && due_ns < pool->armed_ns)
		set_timer(pool, due_ns);
}

void pool_arm(struct prober_pool *pool)
{
	uint64_t due_ns = UINT64_MAX;

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
	if (pool->queue && pool_crowded_until(pool) < due_ns)
		due_ns = pool_crowded_until(pool);
	if (pool->queue && pool->grows_at_ns && pool->grows_at_ns < due_ns)
		due_ns = pool->grows_at_ns;
	set_timer(pool, due_ns);
}

/* Send what waits to the probers that are free. Runs no callback: what fails is marked. */
static void dispatch(struct prober_pool *pool)
{
	struct asked *asked = pool->queue, *next;
	bool failed = false;

	pool->grows_at_ns = 0;
	for (; asked; asked = next) {
		struct prober *prober;
		int err;

		next = asked->next;
		if (asked->failed || pool_prober_on(pool, asked->header.request.pid))
			continue;
		if (asked->header.request.operation == PROBE_WARDEN)
			prober = pool_made_prober(pool, &err);
		else
			prober = pool_free_prober(pool, asked->header.request.pid, true, &err);
		if (!prober && err == -EAGAIN) {
			pool->grows_at_ns = pool_now_ns() + GROW_NS;
			arm_for(pool, pool->grows_at_ns);
			/* Else each prober more would wait for a rest of the loop as well. */
			loop_hurry(pool->loop);
			break;
		}
		if (!prober && !err && !pool_count_free(pool))
			break;
		if (!prober && !err)
			continue; /* the last one is not for this process */
		if (prober)
			err = pool_send_request(prober, asked);
		if (err == -EPIPE && prober) {
			/* Dead, and its end is not read yet; it had no request. */
			pool_prober_gone(pool, prober, false);
			next = asked;
			if (!pool_count_probers(pool))
				asked->failed = -EPIPE;
			failed |= asked->failed != 0;
		} else if (err) {
			asked->failed = err;
			failed = true;
		} else {
			pool_unqueue(pool, asked);
		}
	}
	if (failed)
		arm_for(pool, 0);
}

int pool_on_prober(void *ctx, uint32_t events)
{
	struct prober *prober = ctx;
	struct prober_pool *pool = prober->pool;

	pool_take_messages(pool, prober);
	/* An answer lets the next request go, and whoever got it often asks on: that is not paced.
	 */
	loop_hurry(pool->loop);
	dispatch(pool);
	return 0;
}

/* ---- deadlines ---- */

/* The first of the queue that is late, could not be sent, or is about a process that holds up. */
static struct asked *next_to_fail(struct prober_pool *pool, uint64_t now_ns, int *err)
{
	for (struct asked *asked = pool->queue; asked; asked = asked->next) {
		struct prober *prober = pool_prober_on(pool, asked->header.request.pid);

		*err = asked->failed;
		if (!*err && prober && pool_is_late(prober, now_ns))
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
		pool_take_messages(pool, &pool->probers[i]);
	now_ns = pool_now_ns();
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		asked = pool->probers[i].asked;
		if (asked && !asked->told && now_ns >= asked->deadline_at_ns)
			pool_finish(pool, asked, -ETIMEDOUT, NULL);
	}
	dispatch(pool);
	while ((asked = next_to_fail(pool, now_ns, &err))) {
		pool_unqueue(pool, asked);
		pool_finish(pool, asked, err, NULL);
		pool_free_asked(asked);
	}
	pool_replace_hung(pool);
	dispatch(pool);
	pool_arm(pool);
	return 0;
}

/* ---- asking ---- */

struct asked *pool_new_asked(struct prober_pool *pool, const struct probe_request *request,
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

/* One request for many processes does not wait for a row of requests for one process each, and
 * without a warden no prober is made. */
static void enqueue(struct prober_pool *pool, struct asked *asked)
{
	const struct probe_request *request = &asked->header.request;
	bool first = request->operation == PROBE_WARDEN ||
		     (request->operation == PROBE_NAMES && !request->pid);
	struct asked **link = first ? &pool->queue : pool->queue_end;

	asked->next = *link;
	*link = asked;
	if (!asked->next)
		pool->queue_end = &asked->next;
	pool->queued++;
}

int64_t probe_ask(struct prober_pool *pool, const struct probe_request *request,
		  const void *payload, size_t payload_length, const int *fds, size_t fd_count,
		  uint64_t deadline_ns, probe_fn callback, void *ctx)
{
	struct asked *asked;
	int64_t id;
	int err = 0;

	if (!pool->loop || payload_length > PROBE_PAYLOAD_BYTES || fd_count > CHANNEL_FDS)
		return -EINVAL;
	if (pool_holds_up(pool, request->pid) || pool->queued == MAX_QUEUED)
		err = -EBUSY;
	else if (request->operation == PROBE_WARDEN)
		pool_made_prober(pool, &err);
	else if (!pool_prober_on(pool, request->pid))
		pool_free_prober(pool, request->pid, true, &err);
	if (err && err != -EAGAIN) {
		pool_give_up(pool, err == -EBUSY ? GIVEN_UP_REFUSED : GIVEN_UP_LOST,
			     request->operation);
		return err == -EBUSY ? err : -EPIPE;
	}
	asked = pool_new_asked(pool, request, payload, payload_length);
	if (!asked)
		return -ENOMEM;
	for (; asked->fd_count < fd_count; asked->fd_count++) {
		int fd = fcntl(fds[asked->fd_count], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			err = -errno;
			pool_free_asked(asked);
			return err;
		}
		asked->fds[asked->fd_count] = fd;
	}
	asked->callback = callback;
	asked->ctx = ctx;
	asked->deadline_at_ns = pool_now_ns() + deadline_ns;
	enqueue(pool, asked);
	id = (int64_t)asked->header.id;
	arm_for(pool, asked->deadline_at_ns);
	dispatch(pool);
	if (pool->queue)
		arm_for(pool, pool_crowded_until(pool));
	return id;
}

bool probe_has_room(const struct prober_pool *pool)
{
	return pool->queued < LONG_QUEUE;
}

bool probe_holds_up(struct prober_pool *pool, pid_t pid)
{
	return pool_holds_up(pool, pid);
}

void probe_cancel(struct prober_pool *pool, int64_t id)
{
	for (struct asked *asked = pool->queue; asked; asked = asked->next) {
		if (asked->header.id != (uint64_t)id)
			continue;
		pool_unqueue(pool, asked);
		pool_free_asked(asked);
		return;
	}
	for (size_t i = 0; i < MAX_PROBERS; i++)
		if (pool->probers[i].asked && pool->probers[i].asked->header.id == (uint64_t)id)
			pool->probers[i].asked->callback = NULL;
}

void probe_new_turn(struct prober_pool *pool)
{
	size_t count = pool_count_probers(pool);

	pool->call_left_ns = PROBE_CALL_NS;
	/* After a time without a warden there may be too few. */
	if (count < MIN_PROBERS)
		pool_keep_minimum(pool);
	for (size_t i = MAX_PROBERS; i-- > 0 && count > MIN_PROBERS;) {
		struct prober *prober = &pool->probers[i];

		if (prober->helper.socket < 0 || prober->asked ||
		    pool_now_ns() - prober->free_since_ns < IDLE_NS)
			continue;
		pool_drop_prober(pool, prober, false);
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
	pool_keep_minimum(pool);
	if (!pool_count_probers(pool)) {
		prober_pool_free(pool);
		errno = EPIPE;
		return NULL;
	}
	warden_add_maker(warden, make_warden, pool);
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

		pool_unqueue(pool, asked);
		pool_free_asked(asked);
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
		pool_watch(pool, &pool->probers[i]);
	pool_arm(pool);
	return 0;
}

void prober_pool_free(struct prober_pool *pool)
{
	if (!pool)
		return;
	warden_remove_maker(pool->warden, pool);
	leave_loop(pool);
	for (size_t i = 0; i < MAX_PROBERS; i++) {
		struct prober *prober = &pool->probers[i];

		pool_drop_prober(pool, prober,
				 prober->asked && pool_is_late(prober, pool_now_ns()));
		pool_free_asked(prober->asked);
	}
	for (size_t i = 0; i < pool->hold_end; i++)
		pool_clear_hold(&pool->holds[i]);
	free(pool->buffer);
	free(pool->call_buffer);
	free(pool);
}

static const char *const operation_names[PROBE_OPERATIONS] = {
	[PROBE_NONE] = "other",
	[PROBE_READ] = "read",
	[PROBE_READ_LINK] = "link",
	[PROBE_MAPS] = "maps",
	[PROBE_MEMORY] = "memory",
	[PROBE_OPEN] = "open",
	[PROBE_STANDING] = "standing",
	[PROBE_LOCK_OWNER] = "lock_owner",
	[PROBE_ATTACH] = "attach",
	[PROBE_WARDEN] = "warden",
	[PROBE_OPEN_EXE] = "exe",
	[PROBE_OPEN_JIT_NAMES] = "jit_names",
	[PROBE_OPEN_AT] = "open_at",
	[PROBE_COUNT_WAITERS] = "waiters",
	[PROBE_NAMES] = "names",
	[PROBE_JIT_LIST] = "jit_list",
	[PROBE_MEMORY_USE] = "memory_use",
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
