/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

struct watch {
	struct watch *next;
	int fd;
	bool timer, removed;
	loop_fn callback;
	void *ctx;
};

struct loop {
	int epoll_fd;
	bool stop, dispatching;
	struct watch *watches;
	void (*on_turn)(void *ctx);
	void *turn_ctx;
};

struct loop *loop_new(void)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		free(loop);
		return NULL;
	}
	return loop;
}

/* Removed watches live until the batch of events that may still name them is over. */
static void sweep(struct loop *loop, bool all)
{
	struct watch **link = &loop->watches;

	while (*link) {
		struct watch *watch = *link;

		if (!all && !watch->removed) {
			link = &watch->next;
			continue;
		}
		*link = watch->next;
		if (watch->timer && !watch->removed)
			close(watch->fd);
		free(watch);
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	sweep(loop, true);
	close(loop->epoll_fd);
	free(loop);
}

static struct watch *find(struct loop *loop, int fd)
{
	for (struct watch *watch = loop->watches; watch; watch = watch->next)
		if (watch->fd == fd && !watch->removed)
			return watch;
	return NULL;
}

static int add(struct loop *loop, int fd, uint32_t events, loop_fn callback, void *ctx, bool timer)
{
	struct watch *watch;
	struct epoll_event event = {.events = events};

	if (find(loop, fd))
		return -EEXIST;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->fd = fd;
	watch->timer = timer;
	watch->callback = callback;
	watch->ctx = ctx;
	event.data.ptr = watch;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		int err = -errno;

		free(watch);
		return err;
	}
	watch->next = loop->watches;
	loop->watches = watch;
	return 0;
}

int loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fn callback, void *ctx)
{
	return add(loop, fd, events, callback, ctx, false);
}

int loop_remove_fd(struct loop *loop, int fd)
{
	struct watch *watch = find(loop, fd);

	if (!watch)
		return -ENOENT;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	watch->removed = true;
	if (!loop->dispatching)
		sweep(loop, false);
	return 0;
}

int loop_set_timer(int timer, uint64_t first_ns, uint64_t period_ns)
{
	struct itimerspec spec = {
		.it_value = {(time_t)(first_ns / NSEC_PER_SEC), (long)(first_ns % NSEC_PER_SEC)},
		.it_interval = {(time_t)(period_ns / NSEC_PER_SEC),
				(long)(period_ns % NSEC_PER_SEC)},
	};

	return timerfd_settime(timer, 0, &spec, NULL) ? -errno : 0;
}

int loop_add_timer(struct loop *loop, uint64_t first_ns, uint64_t period_ns, loop_fn callback,
		   void *ctx)
{
	int err, fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	err = loop_set_timer(fd, first_ns, period_ns);
	if (!err)
		err = add(loop, fd, EPOLLIN, callback, ctx, true);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int loop_remove_timer(struct loop *loop, int timer)
{
	int err = loop_remove_fd(loop, timer);

	if (!err)
		close(timer);
	return err;
}

static int dispatch(struct watch *watch, uint32_t events)
{
	uint64_t expirations;

	if (watch->removed)
		return 0;
	if (watch->timer) {
		if (read(watch->fd, &expirations, sizeof(expirations)) != sizeof(expirations))
			return 0;
		events = expirations > UINT32_MAX ? UINT32_MAX : (uint32_t)expirations;
	}
	return watch->callback(watch->ctx, events);
}

void loop_on_turn(struct loop *loop, void (*callback)(void *ctx), void *ctx)
{
	loop->on_turn = callback;
	loop->turn_ctx = ctx;
}

static int turn(struct loop *loop, int timeout_ms)
{
	struct epoll_event events[16];
	int n = epoll_wait(loop->epoll_fd, events, sizeof(events) / sizeof(*events), timeout_ms);
	int err = 0;

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (loop->on_turn)
		loop->on_turn(loop->turn_ctx);
	loop->dispatching = true;
	for (int i = 0; i < n && !err; i++)
		err = dispatch(events[i].data.ptr, events[i].events);
	loop->dispatching = false;
	sweep(loop, false);
	return err;
}

int loop_run(struct loop *loop)
{
	int err = 0;

	loop->stop = false;
	while (!loop->stop && !err)
		err = turn(loop, -1);
	return err;
}

int loop_turn(struct loop *loop, uint64_t timeout_ns)
{
	uint64_t ms = (timeout_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;

	return turn(loop, ms > INT_MAX ? INT_MAX : (int)ms);
}

void loop_stop(struct loop *loop)
{
	loop->stop = true;
}
