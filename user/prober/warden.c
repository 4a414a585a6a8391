/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the helper processes. What the warden has to know is state here, marked as
 * told or not, so that a message that finds no room and a warden that is new come to the same. */
#include "prober/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/warden_private.h"
#include "util/clock.h"

#define STOP_NS      (200 * NSEC_PER_MSEC)
#define RETRY_NS     (100 * NSEC_PER_MSEC)
#define RETRY_MAX_NS (5 * NSEC_PER_SEC)
#define SILENT_NS    (2 * NSEC_PER_SEC)
#define MUTE_NS      (5 * NSEC_PER_SEC) /* before its hello */
/* That many refusals in a row, with rests that double (3.1 s in all), are no coincidence. */
#define LOST_AFTER 6

static void warden_died(struct warden *warden);
static bool take_messages(struct warden *warden);

/* The recorder may do that without a right, because both have the same uid. */
static void signal_warden(const struct warden *warden, int signal)
{
#ifdef SYS_pidfd_send_signal
	if (warden->self.pidfd >= 0)
		syscall(SYS_pidfd_send_signal, warden->self.pidfd, signal, NULL, 0);
#endif
}

/* A warden that is stopped, or hangs, is no warden: it is replaced like one that died. One that has
 * not said hello is not known by a pidfd: it ends when it reads the end of its socket. */
static void watch_over(struct warden *warden)
{
	struct warden_message ping = {.operation = WARDEN_PING};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (!warden->loop || warden->self.socket < 0)
		return;
	if (!warden->ping_ns) {
		warden->ping_ns = now_ns;
		warden_send(warden, &ping, NULL, 0);
	} else if (warden->self.pid && now_ns - warden->ping_ns > SILENT_NS) {
		signal_warden(warden, SIGKILL);
	} else if (!warden->self.pid && now_ns - warden->ping_ns > MUTE_NS) {
		warden_died(warden);
	}
}

void warden_usage(struct warden *warden, struct warden_usage *usage)
{
	/* The end of the socket is read again in the loop. */
	if (warden->self.socket >= 0)
		take_messages(warden);
	watch_over(warden);
	entry_sweep(warden);
	*usage = (struct warden_usage){warden->dead_cpu_ns, warden->reaped_ns};
	for (struct entry *entry = warden->entries; entry; entry = entry->next)
		usage->cpu_ns += entry->cpu_ns;
}

int warden_spawn(struct warden *warden, enum helper_kind kind, struct helper *helper)
{
	struct entry *entry;
	int ends[2], err;

	*helper = (struct helper){.kind = kind, .socket = -1, .pidfd = -1};
	if (warden->self.socket < 0)
		return -EPIPE;
	err = channel_pair(ends);
	if (err)
		return err;
	entry = entry_add(warden, helper);
	if (!entry) {
		close(ends[0]);
		close(ends[1]);
		return -ENOMEM;
	}
	helper->socket = ends[0];
	entry->end = ends[1];
	err = warden_tell_entry(warden, entry);
	if (err && err != -EAGAIN) {
		entry_remove(warden, entry);
		warden_close_fd(&helper->socket);
	} else {
		warden_told(warden, err);
		err = 0;
	}
	return err;
}

void warden_drop(struct warden *warden, struct helper *helper, bool hung)
{
	struct entry *entry = helper->serial ? entry_find(warden, helper->serial) : NULL;
	struct pollfd pollfd = {.fd = helper->socket};
	bool died = helper->socket >= 0 && poll(&pollfd, 1, 0) > 0 && pollfd.revents & POLLHUP;

	/* The warden may have told its end already: then it has no entry. */
	warden->stats.replaced[helper->kind] += died || (hung && helper->socket >= 0);
	warden_close_fd(&helper->socket);
	if (entry) {
		entry_look_at_cpu(entry);
		entry->pid = helper->pid;
		entry->pidfd = helper->pidfd;
		entry->helper = NULL;
		helper->pidfd = -1;
		if (entry->end >= 0) {
			entry_remove(warden, entry);
		} else if (hung) {
			entry->kill = true;
			entry->told = false;
			warden_told(warden, warden_tell_entry(warden, entry));
		}
	}
	warden_close_fd(&helper->pidfd);
	*helper = (struct helper){.kind = helper->kind, .socket = -1, .pidfd = -1};
}

void warden_stats(const struct warden *warden, struct warden_stats *stats)
{
	*stats = warden->stats;
}

int warden_counters(struct warden *warden, struct counter_list *lost, struct counter_list *late,
		    struct counter_list *repaired)
{
	static const char *const names[HELPER_KINDS] = {
		[HELPER_WARDEN] = "helper_warden_replaced",
		[HELPER_PROBER] = "helper_prober_replaced",
		[HELPER_SAMPLER] = "helper_sampler_replaced",
		[HELPER_UNWINDER] = "helper_unwinder_replaced",
		[HELPER_ASKER] = "helper_asker_replaced",
		[HELPER_POWER] = "helper_power_replaced",
		[HELPER_RUNNER] = "helper_runner_replaced",
	};
	int err = counter_list_add(late, "helper_warden_absent",
				   warden->stats.not_replaced - warden->counted.not_replaced);

	err = err
		      ?: counter_list_add(lost, "helpers_lost",
					  warden->stats.lost - warden->counted.lost);
	for (int kind = HELPER_WARDEN; kind < HELPER_KINDS; kind++)
		err = err
			      ?: counter_list_add(repaired, names[kind],
						  warden->stats.replaced[kind] -
							  warden->counted.replaced[kind]);
	warden->counted = warden->stats;
	return err;
}

/* ---- its life ---- */

static int on_retry(void *ctx, uint32_t events);

static void retry_later(struct warden *warden)
{
	warden->retry_ns = warden->retry_ns ? warden->retry_ns * 2 : RETRY_NS;
	if (warden->retry_ns > RETRY_MAX_NS)
		warden->retry_ns = RETRY_MAX_NS;
	if (warden->timer >= 0)
		loop_set_timer(warden->loop, warden->timer, warden->retry_ns, 0);
}

/* All that the dead one knew is untold. */
static void forget_told(struct warden *warden)
{
	struct kept *kept, *next;

	for (struct entry *entry = warden->entries; entry; entry = entry->next)
		entry->told = false;
	warden->settings_told = false;
	HASH_ITER (hh, warden->kept, kept, next)
		kept->told = false;
	warden->lock_reader_told = false;
	warden->dirty = true;
}

/* Nobody could, or nobody is left. */
static void not_made(struct warden *warden)
{
	warden->stats.not_replaced++;
	if (++warden->refusals == LOST_AFTER)
		warden->stats.lost++;
	retry_later(warden);
}

/* Ask the makers in turn, until one of them takes it on. */
static int ask_makers(struct warden *warden, int socket)
{
	int err = -ENOENT;

	for (size_t i = 0; i < warden->maker_count && err; i++) {
		size_t maker = warden->maker % warden->maker_count;

		err = warden->makers[maker].make(warden->makers[maker].ctx, socket);
		if (err)
			warden->maker++;
	}
	return err;
}

static void make_warden(struct warden *warden)
{
	struct entry *entry;
	int ends[2];

	if (channel_pair(ends)) {
		not_made(warden);
		return;
	}
	entry = entry_add(warden, &warden->self);
	if (!entry || ask_makers(warden, ends[1])) {
		if (entry)
			entry_remove(warden, entry);
		close(ends[0]);
		close(ends[1]);
		not_made(warden);
		return;
	}
	close(ends[1]);
	warden->self.socket = ends[0];
	forget_told(warden);
	warden_tell_all(warden);
	warden_watch_socket(warden);
}

static int on_retry(void *ctx, uint32_t events)
{
	struct warden *warden = ctx;

	if (warden->self.socket < 0)
		make_warden(warden);
	return 0;
}

static void warden_died(struct warden *warden)
{
	bool lived = warden->self.pid != 0;

	if (warden->watched)
		loop_remove_fd(warden->loop, warden->self.socket);
	warden->watched = false;
	warden->ping_ns = 0;
	warden_drop(warden, &warden->self, false);
	warden->generation++;
	entry_sweep(warden);
	if (lived) {
		warden->retry_ns = 0;
		make_warden(warden);
	} else {
		/* Whoever took it on died over it. */
		warden->maker++;
		not_made(warden);
	}
}

void warden_not_made(struct warden *warden)
{
	if (warden->self.socket >= 0 && !warden->self.pid)
		warden_died(warden);
}

static void take_message(struct warden *warden, const struct warden_message *message)
{
	struct entry *entry;

	if (message->operation == WARDEN_PING)
		warden->ping_ns = 0;
	if (message->operation == WARDEN_RESTORE)
		warden->restored = true;
	if (message->operation != WARDEN_EXITED)
		return;
	entry = entry_find(warden, message->key);
	/* A process that closed probes, or set them for a prober that died, has no entry. */
	if (!entry) {
		warden->dead_cpu_ns += message->key ? 0 : message->cpu_ns;
		return;
	}
	if (message->cpu_ns > entry->cpu_ns)
		entry->cpu_ns = message->cpu_ns;
	entry_remove(warden, entry);
}

/* False: it is gone. */
static bool take_messages(struct warden *warden)
{
	struct warden_message message;
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	while ((n = channel_receive(warden->self.socket, &message, sizeof(message), fds, &count)) >
	       0) {
		if (helper_take_hello(&warden->self, &message, (size_t)n, fds, count)) {
			warden->refusals = 0;
			warden->ping_ns = 0;
			continue;
		}
		if (n == sizeof(message))
			take_message(warden, &message);
		while (count)
			close(fds[--count]);
	}
	return n == -EAGAIN || n == -EMSGSIZE;
}

int warden_on_socket(void *ctx, uint32_t events)
{
	struct warden *warden = ctx;

	if (!take_messages(warden))
		warden_died(warden);
	else if (warden->dirty)
		warden_tell_all(warden);
	return 0;
}

int warden_add_maker(struct warden *warden, warden_make_fn make, void *ctx)
{
	if (warden->maker_count == WARDEN_MAKERS)
		return -ENOSPC;
	warden->makers[warden->maker_count].make = make;
	warden->makers[warden->maker_count++].ctx = ctx;
	return 0;
}

void warden_remove_maker(struct warden *warden, void *ctx)
{
	size_t kept = 0;

	for (size_t i = 0; i < warden->maker_count; i++)
		if (warden->makers[i].ctx != ctx)
			warden->makers[kept++] = warden->makers[i];
	warden->maker_count = kept;
}

struct warden *warden_start(void)
{
	struct warden *warden = calloc(1, sizeof(*warden));
	int ends[2], err;
	pid_t pid;

	if (!warden)
		return NULL;
	warden->self = (struct helper){.kind = HELPER_WARDEN, .socket = -1, .pidfd = -1};
	warden->timer = warden->lock_reader = -1;
	warden->settings[0] = warden->settings[1] = -1;
	err = channel_pair(ends);
	if (err)
		goto fail;
	/* A dead warden's children come to this process, to be reaped. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0)
		warden_main(ends[1]);
	if (pid < 0)
		err = -errno;
	close(ends[1]);
	if (!err && !entry_add(warden, &warden->self))
		err = -ENOMEM;
	if (err) {
		close(ends[0]);
		goto fail;
	}
	warden->self.socket = ends[0];
	return warden;
fail:
	free(warden);
	errno = -err;
	return NULL;
}

static void leave_loop(struct warden *warden)
{
	if (warden->watched)
		loop_remove_fd(warden->loop, warden->self.socket);
	warden->watched = false;
	if (warden->timer >= 0)
		loop_remove_timer(warden->loop, warden->timer);
	warden->timer = -1;
	warden->loop = NULL;
}

int warden_join_loop(struct warden *warden, struct loop *loop)
{
	if (!loop) {
		leave_loop(warden);
		return 0;
	}
	warden->loop = loop;
	warden->timer = loop_add_timer(loop, 0, 0, on_retry, warden);
	if (warden->timer < 0)
		return warden->timer;
	warden_watch_socket(warden);
	if (warden->self.socket < 0)
		make_warden(warden);
	return 0;
}

int warden_restore_settings(struct warden *warden, uint64_t timeout_ns)
{
	struct warden_message message = {.operation = WARDEN_RESTORE};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), until_ns = now_ns + timeout_ns;
	int err = warden->settings_told ? warden_send(warden, &message, NULL, 0) : -EPIPE;

	warden->restored = false;
	/* Its end is taken in the loop, or by warden_stop. */
	while (!err && !warden->restored) {
		if (!take_messages(warden))
			err = -EPIPE;
		else if ((now_ns = clock_now_ns(CLOCK_MONOTONIC)) >= until_ns)
			err = warden->restored ? 0 : -ETIMEDOUT;
		else if (!warden->restored)
			channel_wait(warden->self.socket, until_ns - now_ns);
	}
	if (err != -ETIMEDOUT)
		warden_forget_settings(warden);
	return err;
}

/* Wait for the end of the warden's socket, which is closed when the process ends, and then for what
 * is left of it and of the children of earlier wardens. */
static void wait_for_end(struct warden *warden, uint64_t until_ns)
{
	uint64_t now_ns;

	while ((now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns) {
		if (!take_messages(warden))
			break;
		channel_wait(warden->self.socket, until_ns - now_ns);
	}
	warden->generation++;
	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		bool alive = false;

		entry_sweep(warden);
		for (struct entry *entry = warden->entries; entry; entry = entry->next)
			alive |= entry_pid(entry) && !entry_has_ended(entry_pidfd(entry));
		if (!alive)
			return;
		poll(NULL, 0, 1);
	}
}

void warden_stop(struct warden *warden)
{
	struct kept *kept, *next;

	if (!warden)
		return;
	leave_loop(warden);
	if (warden->self.socket >= 0) {
		uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STOP_NS;

		warden_tell_all(warden);
		/* Not the last copies, as long as there is a warden. */
		HASH_ITER (hh, warden->kept, kept, next)
			warden_free_kept(warden, kept);
		shutdown(warden->self.socket, SHUT_WR);
		/* should somebody have stopped it */
		signal_warden(warden, SIGCONT);
		wait_for_end(warden, until_ns);
	}
	entry_sweep(warden);
	while (warden->entries) {
		struct helper *helper = warden->entries->helper;

		if (helper && helper != &warden->self)
			*helper = (struct helper){helper->kind, -1, -1, 0, 0};
		entry_remove(warden, warden->entries);
	}
	warden_close_fd(&warden->self.socket);
	warden_close_fd(&warden->self.pidfd);
	warden_forget_settings(warden);
	warden_close_kept(warden);
	warden_close_fd(&warden->lock_reader);
	free(warden);
}
