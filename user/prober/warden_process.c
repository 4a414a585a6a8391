/* SPDX-License-Identifier: BSD-2-Clause */
/* The warden itself: one loop over its socket and the ends of its children. */
#include "prober/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "prober/closer.h"
#include "prober/trace_state.h"
#include "prober/warden_wire.h"
#include "util/channel.h"
#include "util/child.h"
#include "util/clock.h"

/* How long the warden waits at its end: for closes, which go on without it where a process holds
 * them up, and for children. */
#define END_CLOSE_NS (5 * NSEC_PER_SEC)
#define END_REAP_NS  (100 * NSEC_PER_MSEC)
/* A process that closes is not kept for longer than this after the last close. */
#define CLOSER_IDLE_NS (2 * NSEC_PER_SEC)
#define CLOSER_POLL_MS 100
/* A new process that somebody stopped is not waited for. */
#define SPAWN_WAIT_MS 1000

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
	struct closer closer;
	uint64_t closed_ns; /* when the closer got its last ones */
	int settings[2];    /* the file of trace_state.h, the root of trace_settings.h; -1: none */
};

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
	case HELPER_ASKER:
		asker_main(socket);
	case HELPER_POWER:
		power_reader_main(socket);
	case HELPER_RUNNER:
		runner_main(socket);
	}
	_exit(1);
}

/* A new process has copies of all probes that are kept. It has closed them when this comes back, so
 * that none of these closes is a last one: it may be killed at any time. */
static pid_t fork_helper(uint32_t kind, int socket)
{
	struct pollfd wait = {.events = POLLIN};
	int ends[2] = {-1, -1};
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		ends[0] = ends[1] = -1; /* the descriptors are short; the process is needed */
	pid = fork();
	if (pid == 0) {
		child_keep_only((const int[]){socket, ends[1]}, 2);
		if (ends[1] >= 0)
			close(ends[1]);
		run_helper(kind, socket);
	}
	if (ends[1] < 0)
		return pid;
	close(ends[1]);
	wait.fd = ends[0];
	if (pid > 0)
		poll(&wait, 1, SPAWN_WAIT_MS);
	close(ends[0]);
	return pid;
}

/* What finds no room costs the recorder the last figures of a dead process. */
static void tell_exited(const struct ward *ward, uint64_t serial, uint64_t cpu_ns)
{
	struct warden_message message = {
		.operation = WARDEN_EXITED, .key = serial, .cpu_ns = cpu_ns};
	struct iovec part = {&message, sizeof(message)};

	channel_send(ward->socket, &part, 1, NULL, 0);
}

/* Without a process the recorder reads the end of the socket, which the caller closes, and keeps no
 * entry for it. socket -1: it found no room here. */
static void spawn(struct ward *ward, const struct warden_message *message, int socket)
{
	struct child *child = socket < 0 ? NULL : add_child(ward, message->key, 0, -1);
	pid_t pid = child ? fork_helper(message->number, socket) : -1;

	if (pid >= 0) {
		child->pid = pid;
		return;
	}
	if (child)
		remove_child(ward, child);
	tell_exited(ward, message->key, 0);
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

		closer_reaped(&ward->closer, pid);
		while (child && (child->pid != pid || child->pidfd >= 0))
			child = child->next;
		/* key 0: a closer, or what a prober left behind */
		tell_exited(ward, child ? child->serial : 0,
			    timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime));
		if (child)
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
	closer_add(&ward->closer, kept->fds, kept->fd_count);
	ward->closed_ns = clock_now_ns(CLOCK_MONOTONIC);
	free(kept);
}

static void restore(struct ward *ward)
{
	if (ward->settings[0] < 0)
		return;
	trace_state_restore(ward->settings[0], ward->settings[1]);
	for (int i = 0; i < 2; i++) {
		close(ward->settings[i]);
		ward->settings[i] = -1;
	}
}

static void take_message(struct ward *ward, const struct warden_message *message, int *fds,
			 size_t count)
{
	struct iovec part = {(void *)message, sizeof(*message)};
	struct child *child;

	switch (message->operation) {
	case WARDEN_SPAWN:
		spawn(ward, message, count == 1 ? fds[0] : -1);
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
	case WARDEN_HOLD:
		if (count != 2 || ward->settings[0] >= 0)
			break;
		memcpy(ward->settings, fds, sizeof(ward->settings));
		fds[0] = fds[1] = -1;
		break;
	case WARDEN_RESTORE:
		restore(ward);
		channel_send(ward->socket, &part, 1, NULL, 0);
		break;
	case WARDEN_LOCKS:
		if (count == 1 && ward->closer.program < 0) {
			ward->closer.program = fds[0];
			fds[0] = -1;
		}
		break;
	case WARDEN_PING:
		channel_send(ward->socket, &part, 1, NULL, 0);
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
	restore(ward);
	HASH_ITER (hh, ward->kept, kept, next)
		closer_add(&ward->closer, kept->fds, kept->fd_count);
	until_ns = clock_now_ns(CLOCK_MONOTONIC) + END_CLOSE_NS;
	while (!closer_flush(&ward->closer) && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		poll(NULL, 0, 1);
	closer_let_go(&ward->closer);
	while (ward->closer.pid && waitpid(ward->closer.pid, NULL, WNOHANG) == 0 &&
	       clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		poll(NULL, 0, 1);
	/* Those that hang in the kernel are left to init. */
	until_ns = clock_now_ns(CLOCK_MONOTONIC) + END_REAP_NS;
	while (waitpid(-1, NULL, WNOHANG) >= 0 && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		poll(NULL, 0, 1);
	_exit(0);
}

/* How long the loop may wait, in ms. */
static int look_after_closer(struct ward *ward)
{
	if (!closer_flush(&ward->closer))
		return CLOSER_POLL_MS;
	if (ward->closer.socket < 0)
		return -1;
	if (clock_now_ns(CLOCK_MONOTONIC) - ward->closed_ns < CLOSER_IDLE_NS)
		return CLOSER_POLL_MS;
	closer_let_go(&ward->closer);
	return -1;
}

void warden_main(int socket)
{
	struct ward ward = {.settings = {-1, -1}, .closer = {.socket = -1, .program = -1}};
	struct signalfd_siginfo info;
	sigset_t child;

	helper_begin(HELPER_WARDEN, &socket);
	/* What a prober that was killed leaves behind is reaped here. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	ward.socket = socket;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	ward.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;) {
		struct pollfd wait[] = {{.fd = socket, .events = POLLIN},
					{.fd = ward.signals, .events = POLLIN}};

		if (poll(wait, 2, look_after_closer(&ward)) < 0 && errno != EINTR)
			break;
		if (wait[1].revents && read(ward.signals, &info, sizeof(info)) > 0)
			reap(&ward);
		if (wait[0].revents && !take_messages(&ward))
			break;
	}
	end(&ward);
	_exit(0);
}
