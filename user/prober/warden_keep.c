/* SPDX-License-Identifier: BSD-2-Clause */
/* What the warden holds for the recorder: descriptors of probes, and settings of the device. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "prober/closer.h"
#include "prober/warden_private.h"

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
	warden_told(warden, warden_tell_kept(warden, kept));
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
	warden_told(warden, warden_tell_kept(warden, kept));
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

void warden_close_kept(struct warden *warden)
{
	struct closer closer = {.socket = -1, .program = warden->lock_reader};
	struct kept *kept, *next;

	HASH_ITER (hh, warden->kept, kept, next) {
		if (kept->fd_count)
			closer_add(&closer, kept->fds, kept->fd_count);
		kept->fd_count = 0;
		warden_free_kept(warden, kept);
	}
	while (!closer_flush(&closer) && closer.pid)
		poll(NULL, 0, 1);
	/* Without a process they stay open: the end of this one closes them, also if it is killed.
	 */
	closer_let_go(&closer);
	free(closer.pending);
}

int warden_set_lock_reader(struct warden *warden, int program)
{
	int copy = fcntl(program, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return -errno;
	warden_close_fd(&warden->lock_reader);
	warden->lock_reader = copy;
	warden->lock_reader_told = false;
	warden_told(warden, warden_tell_lock_reader(warden));
	return 0;
}

int warden_hold_settings(struct warden *warden, int state, int root)
{
	int copies[2] = {fcntl(state, F_DUPFD_CLOEXEC, 0), fcntl(root, F_DUPFD_CLOEXEC, 0)};
	int err = copies[0] < 0 || copies[1] < 0 ? -errno : 0;

	if (err) {
		warden_close_fd(&copies[0]);
		warden_close_fd(&copies[1]);
		return err;
	}
	warden_forget_settings(warden);
	memcpy(warden->settings, copies, sizeof(copies));
	warden->settings_told = false;
	warden_told(warden, warden_tell_settings(warden));
	return 0;
}

void warden_forget_settings(struct warden *warden)
{
	warden_close_fd(&warden->settings[0]);
	warden_close_fd(&warden->settings[1]);
}
