/* SPDX-License-Identifier: BSD-2-Clause */
/* Telling the warden. What has no room is told later, when the socket has some. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/loop.h"
#include "prober/warden_private.h"

void warden_watch_socket(struct warden *warden)
{
	if (!warden->loop || warden->self.socket < 0 ||
	    (warden->watched && warden->watched_write == warden->dirty))
		return;
	if (warden->watched)
		loop_remove_fd(warden->loop, warden->self.socket);
	warden->watched_write = warden->dirty;
	warden->watched = !loop_add_fd(warden->loop, warden->self.socket,
				       warden->dirty ? EPOLLIN | EPOLLOUT : EPOLLIN,
				       warden_on_socket, warden);
}

int warden_send(struct warden *warden, const struct warden_message *message, const int *fds,
		size_t fd_count)
{
	struct iovec part = {(void *)message, sizeof(*message)};

	if (warden->self.socket < 0)
		return -EPIPE;
	return channel_send(warden->self.socket, &part, 1, fds, fd_count);
}

int warden_tell_entry(struct warden *warden, struct entry *entry)
{
	struct warden_message message = {.key = entry->serial, .number = entry->kind};
	int fd = entry->end >= 0 ? entry->end : entry_pidfd(entry), err;

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
	err = warden_send(warden, &message, &fd, fd >= 0);
	if (err)
		return err;
	if (entry->end >= 0) {
		entry->generation = warden->generation;
		warden_close_fd(&entry->end);
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

void warden_free_kept(struct warden *warden, struct kept *kept)
{
	HASH_DEL(warden->kept, kept);
	close_kept(kept);
	free(kept);
}

/* The recorder's copies are closed between the message that gives the warden its own and the one
 * that lets these go: so that they are never the last ones, whoever is faster. */
int warden_tell_kept(struct warden *warden, struct kept *kept)
{
	struct warden_message message = {.operation = WARDEN_KEEP, .key = kept->key};
	int err;

	if (!kept->told && kept->fd_count) {
		err = warden_send(warden, &message, kept->fds, kept->fd_count);
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
	err = kept->told ? warden_send(warden, &message, NULL, 0) : 0;
	if (!err)
		warden_free_kept(warden, kept);
	return err;
}

int warden_tell_lock_reader(struct warden *warden)
{
	struct warden_message message = {.operation = WARDEN_LOCKS};
	int err = 0;

	if (warden->lock_reader >= 0 && !warden->lock_reader_told)
		err = warden_send(warden, &message, &warden->lock_reader, 1);
	if (!err)
		warden->lock_reader_told = true;
	return err;
}

int warden_tell_settings(struct warden *warden)
{
	struct warden_message message = {.operation = WARDEN_HOLD};
	int err = 0;

	if (warden->settings[0] >= 0 && !warden->settings_told)
		err = warden_send(warden, &message, warden->settings, 2);
	if (!err)
		warden->settings_told = true;
	return err;
}

/* Tell all that is untold, as far as there is room. */
void warden_tell_all(struct warden *warden)
{
	struct kept *kept, *next;
	int err = 0;

	if (!warden->dirty || warden->self.socket < 0)
		return;
	err = warden_tell_lock_reader(warden);
	for (struct entry *entry = warden->entries; entry && !err; entry = entry->next)
		if (!entry->told)
			err = warden_tell_entry(warden, entry);
	if (!err)
		err = warden_tell_settings(warden);
	HASH_ITER (hh, warden->kept, kept, next) {
		if (err)
			break;
		if (!kept->told || kept->released)
			err = warden_tell_kept(warden, kept);
	}
	warden->dirty = err != 0;
	warden_watch_socket(warden);
}

/* err is what telling one thing came to. A warden that is dead shows in the loop too. */
void warden_told(struct warden *warden, int err)
{
	if (err) {
		warden->dirty = true;
		warden_watch_socket(warden);
	}
}
