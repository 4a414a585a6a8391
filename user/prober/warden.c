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
#include <uthash.h>

#include "core/loop.h"
#include "prober/warden_settings.h"
#include "prober/warden_wire.h"
#include "util/channel.h"
#include "util/clock.h"

#define STOP_NS      (200 * NSEC_PER_MSEC)
#define RETRY_NS     (100 * NSEC_PER_MSEC)
#define RETRY_MAX_NS (5 * NSEC_PER_SEC)
#define SILENT_NS    (2 * NSEC_PER_SEC)

/* A process that was asked for. */
struct entry {
	struct entry *next;
	struct helper *helper; /* NULL: dropped by its user */
	uint64_t serial, cpu_ns;
	uint32_t generation; /* of the warden that was to fork it */
	enum helper_kind kind;
	int end; /* of its socket, not given to a warden yet; -1: given */
	pid_t pid;
	int pidfd; /* of one that was dropped; -1: its user's helper has it */
	bool kill, told;
};

struct kept {
	uint64_t key;
	UT_hash_handle hh;
	bool told, released;
	size_t fd_count;
	int fds[CHANNEL_FDS];
};

struct warden {
	struct helper self;
	uint32_t generation;
	struct loop *loop;
	int timer;
	bool watched, watched_write, dirty;
	uint64_t ping_ns; /* when it was asked for a sign of life that has not come; 0: none is due
			   */
	uint64_t serial, retry_ns, dead_cpu_ns, reaped_ns, next_close_key;
	struct entry *entries;
	struct kept *kept;
	struct {
		bool used, told, forgotten;
		char value[WARDEN_VALUE_BYTES];
	} settings[SETTING_COUNT];
	struct warden_stats stats, counted;
	int (*make)(void *ctx, int socket);
	void *make_ctx;
};

static void warden_died(struct warden *warden);
static int on_socket(void *ctx, uint32_t events);

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- telling ---- */

static void watch_socket(struct warden *warden)
{
	if (!warden->loop || warden->self.socket < 0 ||
	    (warden->watched && warden->watched_write == warden->dirty))
		return;
	if (warden->watched)
		loop_remove_fd(warden->loop, warden->self.socket);
	warden->watched_write = warden->dirty;
	warden->watched =
		!loop_add_fd(warden->loop, warden->self.socket,
			     warden->dirty ? EPOLLIN | EPOLLOUT : EPOLLIN, on_socket, warden);
}

static int tell(struct warden *warden, const struct warden_message *message, const int *fds,
		size_t fd_count)
{
	struct iovec part = {(void *)message, sizeof(*message)};

	if (warden->self.socket < 0)
		return -EPIPE;
	return channel_send(warden->self.socket, &part, 1, fds, fd_count);
}

static int pidfd_of(const struct entry *entry)
{
	return entry->helper ? entry->helper->pidfd : entry->pidfd;
}

static pid_t pid_of(const struct entry *entry)
{
	return entry->helper ? entry->helper->pid : entry->pid;
}

static int tell_entry(struct warden *warden, struct entry *entry)
{
	struct warden_message message = {.key = entry->serial, .number = entry->kind};
	int fd = entry->end >= 0 ? entry->end : pidfd_of(entry), err;

	if (entry->kind == HELPER_WARDEN)
		return 0;
	if (entry->end >= 0)
		message.operation = WARDEN_SPAWN;
	else if (entry->kill)
		message.operation = WARDEN_KILL;
	else
		message.operation = WARDEN_ADOPT;
	/* What was forked by this very warden needs no adoption. */
	if (message.operation == WARDEN_ADOPT &&
	    (fd < 0 || entry->generation == warden->generation)) {
		entry->told = true;
		return 0;
	}
	err = tell(warden, &message, &fd, fd >= 0);
	if (err)
		return err;
	if (entry->end >= 0) {
		entry->generation = warden->generation;
		close_fd(&entry->end);
	}
	entry->told = true;
	return 0;
}

static bool has_hung_up(const struct warden *warden)
{
	struct pollfd pollfd = {.fd = warden->self.socket};

	return warden->self.socket < 0 || (poll(&pollfd, 1, 0) > 0 && pollfd.revents & POLLHUP);
}

static void close_kept(struct kept *kept)
{
	while (kept->fd_count)
		close(kept->fds[--kept->fd_count]);
}

static void free_kept(struct warden *warden, struct kept *kept)
{
	HASH_DEL(warden->kept, kept);
	close_kept(kept);
	free(kept);
}

/* The recorder's copies are closed between the message that gives the warden its own and the one
 * that lets these go: so that they are never the last ones, whoever is faster. */
static int tell_kept(struct warden *warden, struct kept *kept)
{
	struct warden_message message = {.operation = WARDEN_KEEP, .key = kept->key};
	int err;

	if (!kept->told && kept->fd_count) {
		err = tell(warden, &message, kept->fds, kept->fd_count);
		if (err)
			return err;
		kept->told = true;
	}
	if (!kept->released)
		return 0;
	/* What a dead warden held is the next one's to close. */
	if (kept->fd_count && has_hung_up(warden))
		return -EPIPE;
	close_kept(kept);
	message.operation = WARDEN_RELEASE;
	err = kept->told ? tell(warden, &message, NULL, 0) : 0;
	if (!err)
		free_kept(warden, kept);
	return err;
}

static int tell_setting(struct warden *warden, uint32_t setting)
{
	struct warden_message message = {.number = setting};
	bool forget = warden->settings[setting].forgotten;
	int err;

	message.operation = forget ? WARDEN_FORGET : WARDEN_REMEMBER;
	memcpy(message.value, warden->settings[setting].value, sizeof(message.value));
	err = tell(warden, &message, NULL, 0);
	if (!err && forget)
		warden->settings[setting].used = false;
	if (!err)
		warden->settings[setting].told = true;
	return err;
}

/* Tell all that is untold, as far as there is room. */
static void tell_all(struct warden *warden)
{
	struct kept *kept, *next;
	int err = 0;

	if (!warden->dirty || warden->self.socket < 0)
		return;
	for (struct entry *entry = warden->entries; entry && !err; entry = entry->next)
		if (!entry->told)
			err = tell_entry(warden, entry);
	for (uint32_t i = 0; i < SETTING_COUNT && !err; i++)
		if (warden->settings[i].used && !warden->settings[i].told)
			err = tell_setting(warden, i);
	HASH_ITER (hh, warden->kept, kept, next) {
		if (err)
			break;
		if (!kept->told || kept->released)
			err = tell_kept(warden, kept);
	}
	warden->dirty = err != 0;
	watch_socket(warden);
}

/* err is what telling one thing came to. A warden that is dead shows in the loop too. */
static void told(struct warden *warden, int err)
{
	if (err) {
		warden->dirty = true;
		watch_socket(warden);
	}
}

/* ---- processes ---- */

static struct entry *find_entry(const struct warden *warden, uint64_t serial)
{
	for (struct entry *entry = warden->entries; entry; entry = entry->next)
		if (entry->serial == serial)
			return entry;
	return NULL;
}

static struct entry *add_entry(struct warden *warden, struct helper *helper)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	*entry = (struct entry){
		.next = warden->entries,
		.helper = helper,
		.serial = helper->serial = ++warden->serial,
		.generation = warden->generation,
		.kind = helper->kind,
		.end = -1,
		.pidfd = -1,
	};
	warden->entries = entry;
	return entry;
}

/* The process is dead and reaped. */
static void remove_entry(struct warden *warden, struct entry *entry)
{
	struct entry **link = &warden->entries;

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	if (entry->helper)
		entry->helper->serial = 0;
	warden->dead_cpu_ns += entry->cpu_ns;
	close_fd(&entry->end);
	close_fd(&entry->pidfd);
	free(entry);
}

static void look_at_cpu(struct entry *entry)
{
	uint64_t cpu_ns;

	/* A pid that another process has by now would show less. */
	if (pid_of(entry) && clock_process_cpu_ns(pid_of(entry), &cpu_ns) && cpu_ns > entry->cpu_ns)
		entry->cpu_ns = cpu_ns;
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NSEC_PER_SEC + (uint64_t)tv->tv_usec * NSEC_PER_USEC;
}

/* Children of a dead warden become children of the recorder (PR_SET_CHILD_SUBREAPER). */
static bool reap_entry(struct warden *warden, struct entry *entry)
{
	struct rusage usage;
	uint64_t cpu_ns;

	if (!pid_of(entry) || wait4(pid_of(entry), NULL, WNOHANG, &usage) <= 0)
		return false;
	cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime);
	warden->reaped_ns += cpu_ns;
	/* That of a warden holds the times of its children, which have entries of their own. */
	if (entry->kind != HELPER_WARDEN && cpu_ns > entry->cpu_ns)
		entry->cpu_ns = cpu_ns;
	remove_entry(warden, entry);
	return true;
}

static bool has_ended(int pidfd)
{
	struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};

	return pidfd >= 0 && poll(&pollfd, 1, 0) > 0;
}

static void sweep(struct warden *warden)
{
	for (struct entry *entry = warden->entries, *next; entry; entry = next) {
		next = entry->next;
		look_at_cpu(entry);
		if (entry->generation == warden->generation && entry->kind != HELPER_WARDEN)
			continue;
		if (reap_entry(warden, entry))
			continue;
		/* Reaped by init, or never forked by the warden that died. */
		if (!entry->helper && entry->end < 0 &&
		    (entry->pidfd < 0 || has_ended(entry->pidfd)))
			remove_entry(warden, entry);
	}
}

static bool take_messages(struct warden *warden);

/* The recorder may do that without a right, because both have the same uid. */
static void signal_warden(const struct warden *warden, int signal)
{
#ifdef SYS_pidfd_send_signal
	if (warden->self.pidfd >= 0)
		syscall(SYS_pidfd_send_signal, warden->self.pidfd, signal, NULL, 0);
#endif
}

/* A warden that is stopped, or hangs, is no warden: it is replaced like one that died. */
static void watch_over(struct warden *warden)
{
	struct warden_message ping = {.operation = WARDEN_PING};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (!warden->loop || !warden->self.pid)
		return;
	if (!warden->ping_ns) {
		warden->ping_ns = now_ns;
		tell(warden, &ping, NULL, 0);
	} else if (now_ns - warden->ping_ns > SILENT_NS) {
		signal_warden(warden, SIGKILL);
	}
}

void warden_usage(struct warden *warden, struct warden_usage *usage)
{
	/* The end of the socket is read again in the loop. */
	if (warden->self.socket >= 0)
		take_messages(warden);
	watch_over(warden);
	sweep(warden);
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
	entry = add_entry(warden, helper);
	if (!entry) {
		close(ends[0]);
		close(ends[1]);
		return -ENOMEM;
	}
	helper->socket = ends[0];
	entry->end = ends[1];
	err = tell_entry(warden, entry);
	if (err && err != -EAGAIN) {
		remove_entry(warden, entry);
		close_fd(&helper->socket);
	} else {
		told(warden, err);
		err = 0;
	}
	return err;
}

void warden_drop(struct warden *warden, struct helper *helper, bool hung)
{
	struct entry *entry = helper->serial ? find_entry(warden, helper->serial) : NULL;
	struct pollfd pollfd = {.fd = helper->socket};
	bool died = helper->socket >= 0 && poll(&pollfd, 1, 0) > 0 && pollfd.revents & POLLHUP;

	close_fd(&helper->socket);
	if (entry) {
		look_at_cpu(entry);
		entry->pid = helper->pid;
		entry->pidfd = helper->pidfd;
		entry->helper = NULL;
		helper->pidfd = -1;
		warden->stats.replaced[entry->kind] += hung || died;
		if (entry->end >= 0) {
			remove_entry(warden, entry);
		} else if (hung) {
			entry->kill = true;
			entry->told = false;
			told(warden, tell_entry(warden, entry));
		}
	}
	close_fd(&helper->pidfd);
	*helper = (struct helper){.kind = helper->kind, .socket = -1, .pidfd = -1};
}

/* ---- what is kept ---- */

static int keep(struct warden *warden, uint64_t key, const int *fds, size_t fd_count, bool released)
{
	struct kept *kept;

	if (!fd_count || fd_count > CHANNEL_FDS)
		return -EINVAL;
	HASH_FIND(hh, warden->kept, &key, sizeof(key), kept);
	if (kept)
		return -EEXIST;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	kept->key = key;
	kept->fd_count = fd_count;
	kept->released = released;
	memcpy(kept->fds, fds, fd_count * sizeof(*fds));
	HASH_ADD(hh, warden->kept, key, sizeof(kept->key), kept);
	told(warden, tell_kept(warden, kept));
	return 0;
}

int warden_keep(struct warden *warden, uint64_t key, const int *fds, size_t fd_count)
{
	return key && key < UINT64_MAX / 2 ? keep(warden, key, fds, fd_count, false) : -EINVAL;
}

void warden_release(struct warden *warden, uint64_t key)
{
	struct kept *kept;

	HASH_FIND(hh, warden->kept, &key, sizeof(key), kept);
	if (!kept || kept->released)
		return;
	kept->released = true;
	told(warden, tell_kept(warden, kept));
}

void warden_close(struct warden *warden, const int *fds, size_t fd_count)
{
	while (fd_count) {
		size_t count = fd_count < CHANNEL_FDS ? fd_count : CHANNEL_FDS;

		if (keep(warden, UINT64_MAX - warden->next_close_key++, fds, count, true))
			for (size_t i = 0; i < count; i++)
				close(fds[i]);
		fds += count;
		fd_count -= count;
	}
}

int warden_remember(struct warden *warden, uint32_t setting, const char *value)
{
	if (!setting || setting >= SETTING_COUNT || strlen(value) >= WARDEN_VALUE_BYTES)
		return -EINVAL;
	if (warden->settings[setting].used && !warden->settings[setting].forgotten)
		return 0;
	warden->settings[setting].used = true;
	warden->settings[setting].told = warden->settings[setting].forgotten = false;
	memset(warden->settings[setting].value, 0, WARDEN_VALUE_BYTES);
	strcpy(warden->settings[setting].value, value);
	told(warden, tell_setting(warden, setting));
	return 0;
}

void warden_forget(struct warden *warden, uint32_t setting)
{
	if (!setting || setting >= SETTING_COUNT || !warden->settings[setting].used)
		return;
	warden->settings[setting].forgotten = true;
	warden->settings[setting].told = false;
	told(warden, tell_setting(warden, setting));
}

void warden_stats(const struct warden *warden, struct warden_stats *stats)
{
	*stats = warden->stats;
}

int warden_counters(struct warden *warden, struct counter_list *repaired, struct counter_list *late)
{
	static const char *const names[HELPER_KINDS] = {
		[HELPER_WARDEN] = "helper_warden_replaced",
		[HELPER_PROBER] = "helper_prober_replaced",
		[HELPER_SAMPLER] = "helper_sampler_replaced",
		[HELPER_UNWINDER] = "helper_unwinder_replaced",
	};
	int err = counter_list_add(late, "helper_warden_absent",
				   warden->stats.not_replaced - warden->counted.not_replaced);

	for (int kind = HELPER_WARDEN; kind < HELPER_KINDS; kind++)
		err = err
			      ?: counter_list_add(repaired, names[kind],
						  warden->stats.replaced[kind] -
							  warden->counted.replaced[kind]);
	warden->counted = warden->stats;
	return err;
}

size_t warden_list(const struct warden *warden, struct helper *list, size_t room)
{
	size_t count = 0;

	for (struct entry *entry = warden->entries; entry && count < room; entry = entry->next)
		if (entry->helper && entry->helper->pid)
			list[count++] = *entry->helper;
	return count;
}

/* ---- its life ---- */

static int on_retry(void *ctx, uint32_t events);

static void retry_later(struct warden *warden)
{
	warden->retry_ns = warden->retry_ns ? warden->retry_ns * 2 : RETRY_NS;
	if (warden->retry_ns > RETRY_MAX_NS)
		warden->retry_ns = RETRY_MAX_NS;
	if (warden->timer >= 0)
		loop_set_timer(warden->timer, warden->retry_ns, 0);
}

/* All that the dead one knew is untold. */
static void forget_told(struct warden *warden)
{
	struct kept *kept, *next;

	for (struct entry *entry = warden->entries; entry; entry = entry->next)
		entry->told = false;
	for (uint32_t i = 0; i < SETTING_COUNT; i++) {
		warden->settings[i].told = false;
		if (warden->settings[i].forgotten)
			warden->settings[i].used = false;
	}
	HASH_ITER (hh, warden->kept, kept, next)
		kept->told = false;
	warden->dirty = true;
}

static void make_warden(struct warden *warden)
{
	struct entry *entry;
	int ends[2];

	if (!warden->make || channel_pair(ends)) {
		warden->stats.not_replaced++;
		retry_later(warden);
		return;
	}
	entry = add_entry(warden, &warden->self);
	if (!entry || warden->make(warden->make_ctx, ends[1])) {
		if (entry)
			remove_entry(warden, entry);
		close(ends[0]);
		close(ends[1]);
		warden->stats.not_replaced++;
		retry_later(warden);
		return;
	}
	close(ends[1]);
	warden->self.socket = ends[0];
	forget_told(warden);
	tell_all(warden);
	watch_socket(warden);
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
	sweep(warden);
	if (lived) {
		warden->retry_ns = 0;
		make_warden(warden);
	} else {
		warden->stats.not_replaced++;
		retry_later(warden);
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
	if (message->operation != WARDEN_EXITED)
		return;
	entry = find_entry(warden, message->key);
	if (!entry)
		return;
	if (message->cpu_ns > entry->cpu_ns)
		entry->cpu_ns = message->cpu_ns;
	remove_entry(warden, entry);
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
		if (helper_take_hello(&warden->self, &message, (size_t)n, fds, count))
			continue;
		if (n == sizeof(message))
			take_message(warden, &message);
		while (count)
			close(fds[--count]);
	}
	return n == -EAGAIN || n == -EMSGSIZE;
}

static int on_socket(void *ctx, uint32_t events)
{
	struct warden *warden = ctx;

	if (!take_messages(warden))
		warden_died(warden);
	else if (warden->dirty)
		tell_all(warden);
	return 0;
}

void warden_set_maker(struct warden *warden, int (*make)(void *ctx, int socket), void *ctx)
{
	warden->make = make;
	warden->make_ctx = ctx;
}

struct warden *warden_start(void)
{
	struct warden *warden = calloc(1, sizeof(*warden));
	int ends[2], err;
	pid_t pid;

	if (!warden)
		return NULL;
	warden->self = (struct helper){.kind = HELPER_WARDEN, .socket = -1, .pidfd = -1};
	warden->timer = -1;
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
	if (!err && !add_entry(warden, &warden->self))
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
	watch_socket(warden);
	if (warden->self.socket < 0)
		make_warden(warden);
	return 0;
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

		sweep(warden);
		for (struct entry *entry = warden->entries; entry; entry = entry->next)
			alive |= pid_of(entry) && !has_ended(pidfd_of(entry));
		if (!alive)
			return;
		poll(NULL, 0, 1);
	}
}

void warden_stop(struct warden *warden)
{
	struct warden_message bye = {.operation = WARDEN_BYE};
	struct kept *kept, *next;

	if (!warden)
		return;
	leave_loop(warden);
	if (warden->self.socket >= 0) {
		uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STOP_NS;

		tell_all(warden);
		tell(warden, &bye, NULL, 0);
		/* Not the last copies, as long as there is a warden. */
		HASH_ITER (hh, warden->kept, kept, next)
			free_kept(warden, kept);
		shutdown(warden->self.socket, SHUT_WR);
		/* should somebody have stopped it */
		signal_warden(warden, SIGCONT);
		wait_for_end(warden, until_ns);
	}
	sweep(warden);
	while (warden->entries) {
		struct helper *helper = warden->entries->helper;

		if (helper && helper != &warden->self)
			*helper = (struct helper){helper->kind, -1, -1, 0, 0};
		remove_entry(warden, warden->entries);
	}
	close_fd(&warden->self.socket);
	close_fd(&warden->self.pidfd);
	/* Without a warden these may wait for RCU here. */
	HASH_ITER (hh, warden->kept, kept, next)
		free_kept(warden, kept);
	free(warden);
}
