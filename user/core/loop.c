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

#define EVENTS 16 /* of one turn */
/* Pacing: a turn costs a credit, and a credit comes each PACE_NS. Without one the loop rests until
 * the next, and what came meanwhile is one turn's: a thousand small events a second cost as much as
 * 25. Up to PACE_CREDITS turns in a row are not held up. */
#define PACE_NS      (40 * NSEC_PER_MSEC)
#define PACE_CREDITS 8
#define HURRY_NS     (10 * NSEC_PER_MSEC)
/* Timers that callbacks of timers set for now are of the same turn, so often. */
#define TIMER_PASSES 8
#define NEVER        UINT64_MAX

struct watch {
	struct watch *next; /* of those that were removed */
	bool removed;
	loop_fn callback;
	void *ctx;
};

/* Deadlines are the loop's own: one descriptor of the kernel's tells the earliest. A descriptor a
 * timer costs a system call each time that it is set, and an interrupt where it is set for now. */
struct timer {
	bool used, urgent;
	uint64_t due_ns, period_ns; /* due_ns NEVER: it is stopped */
	uint64_t slack_ns;
	loop_fn callback;
	void *ctx;
};

struct loop {
	int epoll_fd, urgent_fd;
	int timer_fd; /* in both */
	bool stop, dispatching;
	bool paced;        /* only loop_run is */
	bool full;         /* the last turn took all that it has room for */
	uint64_t paid_ns;  /* when all credits that are spent are back */
	uint64_t hurry_ns; /* until then there is no rest */
	uint64_t armed_ns; /* of timer_fd; NEVER: it is not */
	struct timer *timers;
	size_t timer_count;
	struct watch **watches; /* by descriptor */
	size_t watch_room;
	struct watch *removed; /* during the turn at work */
	void (*begin_turn)(void *ctx), (*end_turn)(void *ctx);
	void *turn_ctx;
};

static int add_to(int epoll_fd, int fd, uint32_t events, void *data)
{
	struct epoll_event event = {.events = events, .data.ptr = data};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void close_fds(const struct loop *loop)
{
	const int fds[] = {loop->timer_fd, loop->urgent_fd, loop->epoll_fd};

	for (size_t i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct loop *loop_new(void)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int err;

	if (!loop)
		return NULL;
	loop->armed_ns = NEVER;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->urgent_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = loop->epoll_fd < 0 || loop->urgent_fd < 0 || loop->timer_fd < 0 ? -errno : 0;
	if (!err)
		err = add_to(loop->epoll_fd, loop->timer_fd, EPOLLIN, NULL);
	if (!err)
		err = add_to(loop->urgent_fd, loop->timer_fd, EPOLLIN, NULL);
	if (!err)
		return loop;
	close_fds(loop);
	free(loop);
	errno = -err;
	return NULL;
}

/* Removed watches live until the batch of events that may still name them is over. */
static void sweep(struct loop *loop)
{
	struct watch *watch;

	while ((watch = loop->removed)) {
		loop->removed = watch->next;
		free(watch);
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	sweep(loop);
	for (size_t fd = 0; fd < loop->watch_room; fd++)
		free(loop->watches[fd]);
	free(loop->watches);
	close_fds(loop);
	free(loop->timers);
	free(loop);
}

/* ---- descriptors ---- */

static struct watch *find(const struct loop *loop, int fd)
{
	return fd >= 0 && (size_t)fd < loop->watch_room ? loop->watches[fd] : NULL;
}

/* There may be one for each of 10,000 targets: none is looked for among the others. */
static int make_room(struct loop *loop, int fd)
{
	size_t room = loop->watch_room ? loop->watch_room : 64;
	struct watch **more;

	if (fd < 0)
		return -EBADF;
	if ((size_t)fd < loop->watch_room)
		return 0;
	while (room <= (size_t)fd)
		room *= 2;
	more = realloc(loop->watches, room * sizeof(struct watch *));
	if (!more)
		return -ENOMEM;
	memset(more + loop->watch_room, 0, (room - loop->watch_room) * sizeof(struct watch *));
	loop->watches = more;
	loop->watch_room = room;
	return 0;
}

int loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fn callback, void *ctx)
{
	struct watch *watch;
	int err;

	if (find(loop, fd))
		return -EEXIST;
	err = make_room(loop, fd);
	if (err)
		return err;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){.callback = callback, .ctx = ctx};
	err = add_to(loop->epoll_fd, fd, events, watch);
	if (err) {
		free(watch);
		return err;
	}
	loop->watches[fd] = watch;
	return 0;
}

int loop_remove_fd(struct loop *loop, int fd)
{
	struct watch *watch = find(loop, fd);

	if (!watch)
		return -ENOENT;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	/* ENOENT: it was not urgent */
	epoll_ctl(loop->urgent_fd, EPOLL_CTL_DEL, fd, NULL);
	loop->watches[fd] = NULL;
	watch->removed = true;
	watch->next = loop->removed;
	loop->removed = watch;
	if (!loop->dispatching)
		sweep(loop);
	return 0;
}

int loop_urgent_fd(struct loop *loop, int fd)
{
	/* By edges: what is left in a ring until it is half full again would end each rest. */
	return add_to(loop->urgent_fd, fd, EPOLLIN | EPOLLET, NULL);
}

/* ---- timers ---- */

static struct timer *timer_of(struct loop *loop, int timer)
{
	bool known = timer >= 0 && (size_t)timer < loop->timer_count && loop->timers[timer].used;

	return known ? &loop->timers[timer] : NULL;
}

int loop_set_timer(struct loop *loop, int timer, uint64_t first_ns, uint64_t period_ns)
{
	struct timer *at = timer_of(loop, timer);

	if (!at)
		return -ENOENT;
	at->due_ns = first_ns ? clock_now_ns(CLOCK_MONOTONIC) + first_ns : NEVER;
	at->period_ns = period_ns;
	return 0;
}

int loop_add_timer(struct loop *loop, uint64_t first_ns, uint64_t period_ns, loop_fn callback,
		   void *ctx)
{
	struct timer *more;
	size_t at = 0;

	while (at < loop->timer_count && loop->timers[at].used)
		at++;
	if (at == loop->timer_count) {
		more = realloc(loop->timers, (at + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		loop->timers = more;
		loop->timer_count++;
	}
	loop->timers[at] = (struct timer){.used = true, .callback = callback, .ctx = ctx};
	loop_set_timer(loop, (int)at, first_ns, period_ns);
	return (int)at;
}

int loop_remove_timer(struct loop *loop, int timer)
{
	struct timer *at = timer_of(loop, timer);

	if (!at)
		return -ENOENT;
	*at = (struct timer){0};
	return 0;
}

int loop_set_slack(struct loop *loop, int timer, uint64_t slack_ns)
{
	struct timer *at = timer_of(loop, timer);

	if (!at)
		return -ENOENT;
	at->slack_ns = slack_ns;
	return 0;
}

int loop_urgent_timer(struct loop *loop, int timer)
{
	struct timer *at = timer_of(loop, timer);

	if (!at)
		return -ENOENT;
	at->urgent = true;
	return 0;
}

static uint64_t earliest(const struct loop *loop, bool urgent)
{
	uint64_t due_ns = NEVER;

	for (size_t i = 0; i < loop->timer_count; i++) {
		const struct timer *timer = &loop->timers[i];

		if (timer->used && (timer->urgent || !urgent) && timer->due_ns != NEVER &&
		    timer->due_ns + timer->slack_ns < due_ns)
			due_ns = timer->due_ns + timer->slack_ns;
	}
	return due_ns;
}

/* Call back each timer that is due. True: there was one. */
static bool fire(struct loop *loop, int *err)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool any = false;

	for (size_t i = 0; i < loop->timer_count && !*err; i++) {
		struct timer *timer = &loop->timers[i];
		uint64_t periods = 1;

		if (!timer->used || timer->due_ns == NEVER ||
		    timer->due_ns > now_ns + timer->slack_ns)
			continue;
		if (timer->due_ns > now_ns)
			timer->due_ns = now_ns;
		if (timer->period_ns)
			periods += (now_ns - timer->due_ns) / timer->period_ns;
		timer->due_ns =
			timer->period_ns ? timer->due_ns + periods * timer->period_ns : NEVER;
		any = true;
		/* The callback may move the array. */
		*err = timer->callback(timer->ctx,
				       periods > UINT32_MAX ? UINT32_MAX : (uint32_t)periods);
	}
	return any;
}

/* ---- turns ---- */

void loop_hurry(struct loop *loop)
{
	loop->hurry_ns = clock_now_ns(CLOCK_MONOTONIC) + HURRY_NS;
}

void loop_on_turn(struct loop *loop, void (*begin)(void *ctx), void (*end)(void *ctx), void *ctx)
{
	loop->begin_turn = begin;
	loop->end_turn = end;
	loop->turn_ctx = ctx;
}

/* Have timer_fd become readable then. While it is, it was armed for a time that is over, so that it
 * is set anew before each wait and needs no read. */
static int arm(struct loop *loop, uint64_t at_ns)
{
	struct itimerspec when = {0};

	if (at_ns == loop->armed_ns)
		return 0;
	if (at_ns != NEVER)
		when.it_value = (struct timespec){(time_t)(at_ns / NSEC_PER_SEC),
						  (long)(at_ns % NSEC_PER_SEC)};
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL))
		return -errno;
	loop->armed_ns = at_ns;
	return 0;
}

/* Until a credit is there, or something urgent is. */
static int rest(struct loop *loop, uint64_t until_ns)
{
	uint64_t urgent_ns = earliest(loop, true);
	struct epoll_event events[1];
	int err = arm(loop, urgent_ns < until_ns ? urgent_ns : until_ns);

	if (err || urgent_ns <= clock_now_ns(CLOCK_MONOTONIC))
		return err;
	return epoll_wait(loop->urgent_fd, events, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

/* A turn after a wait costs a credit. */
static int pace(struct loop *loop)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint64_t allowed_ns = now_ns + (PACE_CREDITS - 1) * PACE_NS;

	if (!loop->paced || loop->full)
		return 0;
	if (loop->paid_ns < now_ns)
		loop->paid_ns = now_ns;
	/* Turns that were not held up leave no debt behind. */
	if (loop->paid_ns > now_ns + PACE_CREDITS * PACE_NS)
		loop->paid_ns = now_ns + PACE_CREDITS * PACE_NS;
	if (loop->paid_ns > allowed_ns && now_ns >= loop->hurry_ns)
		return rest(loop, now_ns + loop->paid_ns - allowed_ns);
	return 0;
}

static int turn(struct loop *loop, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	int err = pace(loop), n;
	uint64_t due_ns = earliest(loop, false);

	if (due_ns <= clock_now_ns(CLOCK_MONOTONIC))
		timeout_ms = 0;
	else if (!err)
		err = arm(loop, due_ns);
	if (err)
		return err;
	n = epoll_wait(loop->epoll_fd, events, EVENTS, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (loop->begin_turn)
		loop->begin_turn(loop->turn_ctx);
	loop->full = n == EVENTS;
	if (loop->paced)
		loop->paid_ns += PACE_NS;
	loop->dispatching = true;
	for (int i = 0; i < n && !err; i++) {
		const struct watch *watch = events[i].data.ptr;

		if (watch && !watch->removed)
			err = watch->callback(watch->ctx, events[i].events);
	}
	for (int i = 0; i < TIMER_PASSES && !err && fire(loop, &err); i++)
		;
	loop->dispatching = false;
	sweep(loop);
	if (loop->end_turn)
		loop->end_turn(loop->turn_ctx);
	return err;
}

int loop_run(struct loop *loop)
{
	int err = 0;

	loop->stop = false;
	loop->paced = true;
	while (!loop->stop && !err)
		err = turn(loop, -1);
	loop->paced = false;
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
