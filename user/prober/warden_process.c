/* SPDX-License-Identifier: BSD-2-Clause */
/* The warden itself: one loop over its socket and the ends of its children. */
#include "prober/warden.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "prober/warden_settings.h"
#include "prober/warden_wire.h"
#include "util/channel.h"
#include "util/clock.h"

/* Each last close of a probe waits for a grace period of RCU (5 to 50 ms); those that wait at the
 * same time share one. */
#define MAX_CLOSERS 64
#ifdef __SANITIZE_ADDRESS__
#define CLOSER_STACK_BYTES (1u << 20)
#else
#define CLOSER_STACK_BYTES (64u << 10)
#endif
/* How long the warden waits at its end: for closes, which a target can hold up, and for children.
 */
#define END_CLOSE_NS (5 * NSEC_PER_SEC)
#define END_REAP_NS  (100 * NSEC_PER_MSEC)

/* Closes descriptors in threads. */
struct closers {
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int *fds;
	size_t count, room, threads;
};

struct child {
	struct child *next;
	uint64_t serial;
	pid_t pid;
	int pidfd; /* -1: a child of this warden, which its pid names until it is reaped */
};

struct kept_fds {
	uint64_t key;
	UT_hash_handle hh;
	size_t fd_count;
	int fds[CHANNEL_FDS];
};

struct ward {
	int socket, signals;
	struct child *children;
	struct kept_fds *kept;
	struct closers closers;
	struct {
		uint32_t setting;
		char value[WARDEN_VALUE_BYTES];
	} remembered[SETTING_COUNT]; /* the last change first */
	size_t remembered_count;
	bool bye;
};

/* ---- closing ---- */

static void *close_all(void *ctx)
{
	struct closers *closers = ctx;

	pthread_mutex_lock(&closers->lock);
	while (closers->count) {
		int fd = closers->fds[--closers->count];

		pthread_mutex_unlock(&closers->lock);
		close(fd);
		pthread_mutex_lock(&closers->lock);
	}
	if (!--closers->threads)
		pthread_cond_signal(&closers->idle);
	pthread_mutex_unlock(&closers->lock);
	return NULL;
}

static void closers_add(struct closers *closers, const int *fds, size_t count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_mutex_lock(&closers->lock);
	if (closers->count + count > closers->room) {
		size_t room = closers->room * 2 + count;
		int *more = realloc(closers->fds, room * sizeof(*more));

		if (!more) {
			/* Late is better than leaked. */
			pthread_mutex_unlock(&closers->lock);
			while (count)
				close(fds[--count]);
			return;
		}
		closers->fds = more;
		closers->room = room;
	}
	memcpy(closers->fds + closers->count, fds, count * sizeof(*fds));
	closers->count += count;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, CLOSER_STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (size_t i = 0; i < count && closers->threads < MAX_CLOSERS; i++) {
		if (pthread_create(&thread, &attributes, close_all, closers))
			break;
		closers->threads++;
	}
	pthread_attr_destroy(&attributes);
	if (!closers->threads) {
		closers->threads++;
		pthread_mutex_unlock(&closers->lock);
		close_all(closers);
		return;
	}
	pthread_mutex_unlock(&closers->lock);
}

static void closers_wait(struct closers *closers)
{
	uint64_t until_ns = clock_now_ns(CLOCK_REALTIME) + END_CLOSE_NS;
	struct timespec until = {(time_t)(until_ns / NSEC_PER_SEC),
				 (long)(until_ns % NSEC_PER_SEC)};

	pthread_mutex_lock(&closers->lock);
	while (closers->threads)
		if (pthread_cond_timedwait(&closers->idle, &closers->lock, &until))
			break;
	pthread_mutex_unlock(&closers->lock);
}

/* ---- children ---- */

static struct child *find_child(const struct ward *ward, uint64_t serial)
{
	for (struct child *child = ward->children; child; child = child->next)
		if (child->serial == serial)
			return child;
	return NULL;
}

static struct child *add_child(struct ward *ward, uint64_t serial, pid_t pid, int pidfd)
{
	struct child *child = calloc(1, sizeof(*child));

	if (!child)
		return NULL;
	*child = (struct child){ward->children, serial, pid, pidfd};
	ward->children = child;
	return child;
}

static void remove_child(struct ward *ward, struct child *child)
{
	struct child **link = &ward->children;

	while (*link != child)
		link = &(*link)->next;
	*link = child->next;
	if (child->pidfd >= 0)
		close(child->pidfd);
	free(child);
}

static void kill_child(const struct child *child)
{
	if (child->pidfd < 0)
		kill(child->pid, SIGKILL);
#ifdef SYS_pidfd_send_signal
	else
		syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
#endif
}

static void __attribute__((noreturn)) run_helper(uint32_t kind, int socket)
{
	switch (kind) {
	case HELPER_PROBER:
		prober_main(socket);
	case HELPER_SAMPLER:
		sampler_main(socket);
	case HELPER_UNWINDER:
		unwinder_main(socket);
	}
	_exit(1);
}

static void spawn(struct ward *ward, const struct warden_message *message, int socket)
{
	struct child *child = add_child(ward, message->key, 0, -1);
	pid_t pid;

	if (!child)
		return;
	pid = fork();
	if (pid == 0)
		run_helper(message->number, socket);
	/* Without a process the recorder reads the end of the socket, which the caller closes. */
	if (pid < 0)
		remove_child(ward, child);
	else
		child->pid = pid;
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NSEC_PER_SEC + (uint64_t)tv->tv_usec * NSEC_PER_USEC;
}

static void reap(struct ward *ward)
{
	struct rusage usage;
	pid_t pid;

	while ((pid = wait4(-1, NULL, WNOHANG, &usage)) > 0) {
		struct child *child = ward->children;
		struct warden_message message = {.operation = WARDEN_EXITED};
		struct iovec part = {&message, sizeof(message)};

		while (child && (child->pid != pid || child->pidfd >= 0))
			child = child->next;
		if (!child)
			continue;
		message.key = child->serial;
		message.cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime);
		/* What finds no room costs the recorder the last figures of a dead process. */
		channel_send(ward->socket, &part, 1, NULL, 0);
		remove_child(ward, child);
	}
}

/* ---- messages ---- */

static void keep(struct ward *ward, uint64_t key, int *fds, size_t count)
{
	struct kept_fds *kept;

	HASH_FIND(hh, ward->kept, &key, sizeof(key), kept);
	if (!count || kept)
		return;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return;
	kept->key = key;
	kept->fd_count = count;
	memcpy(kept->fds, fds, count * sizeof(*fds));
	HASH_ADD(hh, ward->kept, key, sizeof(kept->key), kept);
	for (size_t i = 0; i < count; i++)
		fds[i] = -1;
}

static void release(struct ward *ward, uint64_t key)
{
	struct kept_fds *kept;

	HASH_FIND(hh, ward->kept, &key, sizeof(key), kept);
	if (!kept)
		return;
	HASH_DEL(ward->kept, kept);
	closers_add(&ward->closers, kept->fds, kept->fd_count);
	free(kept);
}

static void forget(struct ward *ward, uint32_t setting)
{
	for (size_t i = 0; i < ward->remembered_count; i++) {
		if (ward->remembered[i].setting != setting)
			continue;
		ward->remembered_count--;
		memmove(&ward->remembered[i], &ward->remembered[i + 1],
			(ward->remembered_count - i) * sizeof(ward->remembered[0]));
		return;
	}
}

/* The first value of a setting is the one from before the run. */
static void remember(struct ward *ward, const struct warden_message *message)
{
	for (size_t i = 0; i < ward->remembered_count; i++)
		if (ward->remembered[i].setting == message->number)
			return;
	if (ward->remembered_count == SETTING_COUNT)
		return;
	memmove(&ward->remembered[1], &ward->remembered[0],
		ward->remembered_count * sizeof(ward->remembered[0]));
	ward->remembered_count++;
	ward->remembered[0].setting = message->number;
	memcpy(ward->remembered[0].value, message->value, WARDEN_VALUE_BYTES);
	ward->remembered[0].value[WARDEN_VALUE_BYTES - 1] = 0;
}

static void take_message(struct ward *ward, const struct warden_message *message, int *fds,
			 size_t count)
{
	struct iovec part = {(void *)message, sizeof(*message)};
	struct child *child;

	switch (message->operation) {
	case WARDEN_SPAWN:
		if (count == 1)
			spawn(ward, message, fds[0]);
		break;
	case WARDEN_ADOPT:
		if (count == 1 && add_child(ward, message->key, 0, fds[0]))
			fds[0] = -1;
		break;
	case WARDEN_KILL:
		child = find_child(ward, message->key);
		if (child)
			kill_child(child);
		else if (count == 1)
			kill_child(&(struct child){.pidfd = fds[0]});
		if (child && child->pidfd >= 0)
			remove_child(ward, child);
		break;
	case WARDEN_KEEP:
		keep(ward, message->key, fds, count);
		break;
	case WARDEN_RELEASE:
		release(ward, message->key);
		break;
	case WARDEN_REMEMBER:
		remember(ward, message);
		break;
	case WARDEN_FORGET:
		forget(ward, message->number);
		break;
	case WARDEN_PING:
		channel_send(ward->socket, &part, 1, NULL, 0);
		break;
	case WARDEN_BYE:
		ward->bye = true;
		break;
	}
	for (size_t i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* False: the recorder is gone. */
static bool take_messages(struct ward *ward)
{
	struct warden_message message;
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	while ((n = channel_receive(ward->socket, &message, sizeof(message), fds, &count)) > 0) {
		if (n == sizeof(message)) {
			take_message(ward, &message, fds, count);
			continue;
		}
		while (count)
			close(fds[--count]);
	}
	return n == -EAGAIN || n == -EMSGSIZE;
}

/* ---- the end ---- */

static void end(struct ward *ward)
{
	uint64_t until_ns;
	struct kept_fds *kept, *next;

	for (struct child *child = ward->children; child; child = child->next)
		if (child->pid || child->pidfd >= 0)
			kill_child(child);
	if (!ward->bye)
		for (size_t i = 0; i < ward->remembered_count; i++)
			setting_restore(ward->remembered[i].setting, ward->remembered[i].value,
					NULL);
	HASH_ITER (hh, ward->kept, kept, next)
		closers_add(&ward->closers, kept->fds, kept->fd_count);
	closers_wait(&ward->closers);
	/* Those that hang in the kernel are left to init. */
	until_ns = clock_now_ns(CLOCK_MONOTONIC) + END_REAP_NS;
	while (waitpid(-1, NULL, WNOHANG) >= 0 && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		poll(NULL, 0, 1);
	_exit(0);
}

void warden_main(int socket)
{
	struct ward ward = {
		.closers = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER}};
	struct signalfd_siginfo info;
	sigset_t child;

	helper_begin(HELPER_WARDEN, &socket);
	ward.socket = socket;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	ward.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;) {
		struct pollfd wait[] = {{.fd = socket, .events = POLLIN},
					{.fd = ward.signals, .events = POLLIN}};

		if (poll(wait, 2, -1) < 0 && errno != EINTR)
			break;
		if (wait[1].revents && read(ward.signals, &info, sizeof(info)) > 0)
			reap(&ward);
		if (wait[0].revents && !take_messages(&ward))
			break;
	}
	end(&ward);
	_exit(0);
}
