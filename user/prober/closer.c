/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/closer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "prober/mm_locks.h"
#include "prober/warden.h"
#include "util/channel.h"
#include "util/child.h"
#include "util/clock.h"

/* Each last close of a probe waits for a grace period of RCU (5 to 50 ms); those that wait at the
 * same time share one. */
#define MAX_THREADS 64
#ifdef __SANITIZE_ADDRESS__
#define THREAD_STACK_BYTES (1u << 20)
#else
#define THREAD_STACK_BYTES (64u << 10)
#endif
/* A look at the locks holds for so long, and for four times what it took. */
#define LOOK_NS      (2 * NSEC_PER_MSEC)
#define LOOK_FACTOR  4
#define RETRY_NS     (50 * NSEC_PER_MSEC)
#define RETRY_MAX_NS NSEC_PER_SEC

/* ---- the process ---- */

/* Whether the locks were free a moment ago. */
struct gate {
	pthread_mutex_t lock;
	int program;
	uint64_t open_until_ns;
};

struct closing {
	struct gate gate;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int *fds;
	size_t count, room, threads;
};

/* What was received and may not be closed yet. */
struct waiting {
	int *fds;
	size_t count, room;
};

/* What cannot be told here (no iterator, no /proc) is no reason to keep a probe for ever. */
static void pass(struct gate *gate)
{
	uint64_t retry_ns = RETRY_NS;

	pthread_mutex_lock(&gate->lock);
	while (clock_now_ns(CLOCK_MONOTONIC) >= gate->open_until_ns) {
		uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC), now_ns;
		pid_t holder;
		int err = mm_locks_look(gate->program, MM_LOCKS_NS, &holder);
		struct timespec wait = {(time_t)(retry_ns / NSEC_PER_SEC),
					(long)(retry_ns % NSEC_PER_SEC)};

		if (err != -EDEADLK) {
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
			gate->open_until_ns = now_ns + LOOK_FACTOR * (now_ns - since_ns);
			if (gate->open_until_ns < now_ns + LOOK_NS)
				gate->open_until_ns = now_ns + LOOK_NS;
			break;
		}
		nanosleep(&wait, NULL);
		retry_ns = 2 * retry_ns < RETRY_MAX_NS ? 2 * retry_ns : RETRY_MAX_NS;
	}
	pthread_mutex_unlock(&gate->lock);
}

static void *close_all(void *ctx)
{
	struct closing *closing = ctx;

	pthread_mutex_lock(&closing->lock);
	while (closing->count) {
		int fd = closing->fds[--closing->count];

		pthread_mutex_unlock(&closing->lock);
		pass(&closing->gate);
		close(fd);
		pthread_mutex_lock(&closing->lock);
	}
	if (!--closing->threads)
		pthread_cond_signal(&closing->idle);
	pthread_mutex_unlock(&closing->lock);
	return NULL;
}

/* The caller holds the lock. */
static void start_threads(struct closing *closing, size_t count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (size_t i = 0; i < count && closing->threads < MAX_THREADS; i++) {
		if (pthread_create(&thread, &attributes, close_all, closing))
			break;
		closing->threads++;
	}
	pthread_attr_destroy(&attributes);
}

static void add(struct closing *closing, const int *fds, size_t count)
{
	bool alone;

	pthread_mutex_lock(&closing->lock);
	if (closing->count + count > closing->room) {
		size_t room = closing->room * 2 + count;
		int *more = realloc(closing->fds, room * sizeof(*more));

		if (!more) {
			/* Late is better than leaked. */
			pthread_mutex_unlock(&closing->lock);
			closer_close_here(closing->gate.program, fds, count);
			return;
		}
		closing->fds = more;
		closing->room = room;
	}
	memcpy(closing->fds + closing->count, fds, count * sizeof(*fds));
	closing->count += count;
	start_threads(closing, count);
	alone = !closing->threads;
	closing->threads += alone;
	pthread_mutex_unlock(&closing->lock);
	if (alone)
		close_all(closing);
}

static void keep_waiting(struct closing *closing, struct waiting *waiting, const int *fds,
			 size_t count)
{
	if (waiting->count + count > waiting->room) {
		size_t room = waiting->room * 2 + count;
		int *more = realloc(waiting->fds, room * sizeof(*more));

		if (!more) {
			add(closing, fds, count);
			return;
		}
		waiting->fds = more;
		waiting->room = room;
	}
	memcpy(waiting->fds + waiting->count, fds, count * sizeof(*fds));
	waiting->count += count;
}

static void let_close(struct closing *closing, struct waiting *waiting)
{
	if (waiting->count)
		add(closing, waiting->fds, waiting->count);
	waiting->count = 0;
}

static void __attribute__((noreturn)) run(int socket, int program)
{
	struct closing closing = {
		.gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .program = program},
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.idle = PTHREAD_COND_INITIALIZER,
	};
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	struct waiting waiting = {0};
	int fds[CHANNEL_FDS];
	size_t count;
	uint32_t word;
	ssize_t n;

	for (;;) {
		n = channel_receive(socket, &word, sizeof(word), fds, &count);
		if (n == 0)
			break;
		if (n == -EAGAIN)
			poll(&wait, 1, -1);
		else if (n > 0 && count)
			keep_waiting(&closing, &waiting, fds, count);
		else if (n > 0)
			let_close(&closing, &waiting);
	}
	let_close(&closing, &waiting);
	pthread_mutex_lock(&closing.lock);
	while (closing.threads)
		pthread_cond_wait(&closing.idle, &closing.lock);
	pthread_mutex_unlock(&closing.lock);
	_exit(0);
}

/* ---- for the warden ---- */

static bool start(struct closer *closer)
{
	sigset_t all;
	int ends[2];

	if (channel_pair(ends))
		return false;
	closer->pid = fork();
	if (closer->pid == 0) {
		const int keep[] = {ends[1], closer->program};

		prctl(PR_SET_NAME, "jank-closer");
		/* What ends its parent from a terminal must not end it amid a close. */
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		/* Copies of probes are not the last ones as long as the warden has its own. */
		child_keep_only(keep, 2);
		run(ends[1], closer->program);
	}
	close(ends[1]);
	if (closer->pid < 0) {
		closer->pid = 0;
		close(ends[0]);
		return false;
	}
	closer->socket = ends[0];
	return true;
}

/* The warden has closed its own copies of what it sent. */
static bool say_closed(struct closer *closer)
{
	uint32_t word = 0;
	struct iovec part = {&word, sizeof(word)};

	if (closer->unsaid && closer->socket >= 0)
		closer->unsaid = channel_send(closer->socket, &part, 1, NULL, 0) == -EAGAIN;
	return !closer->unsaid;
}

bool closer_flush(struct closer *closer)
{
	uint32_t word = 0;
	struct iovec part = {&word, sizeof(word)};

	while (say_closed(closer) && closer->pending_count) {
		size_t count =
			closer->pending_count < CHANNEL_FDS ? closer->pending_count : CHANNEL_FDS;
		int *fds = closer->pending + closer->pending_count - count;

		if (closer->socket < 0 && !start(closer))
			return false;
		switch (channel_send(closer->socket, &part, 1, fds, count)) {
		case 0:
			break;
		case -EPIPE:
			closer_let_go(closer);
			continue;
		default:
			return false;
		}
		while (count--)
			close(closer->pending[--closer->pending_count]);
		closer->unsaid = true;
	}
	return !closer->unsaid;
}

void closer_add(struct closer *closer, const int *fds, size_t count)
{
	if (closer->pending_count + count > closer->pending_room) {
		size_t room = closer->pending_room * 2 + count;
		int *more = realloc(closer->pending, room * sizeof(*more));

		if (!more) {
			closer_close_here(closer->program, fds, count);
			return;
		}
		closer->pending = more;
		closer->pending_room = room;
	}
	memcpy(closer->pending + closer->pending_count, fds, count * sizeof(*fds));
	closer->pending_count += count;
	closer_flush(closer);
}

void closer_let_go(struct closer *closer)
{
	if (closer->socket >= 0)
		close(closer->socket);
	closer->socket = -1;
	/* The end of the socket says so too. */
	closer->unsaid = false;
}

void closer_reaped(struct closer *closer, pid_t pid)
{
	if (!closer->pid || closer->pid != pid)
		return;
	closer->pid = 0;
	closer_let_go(closer);
}

void closer_close_here(int program, const int *fds, size_t count)
{
	struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .program = program};

	for (size_t i = 0; i < count; i++) {
		pass(&gate);
		close(fds[i]);
	}
}
