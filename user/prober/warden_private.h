/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the recorder's side of the warden: its life (warden.c), what it is told
 * (warden_tell.c), the processes that were asked for (warden_entries.c), and what it keeps
 * (warden_keep.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include <uthash.h>

#include "prober/warden.h"
#include "prober/warden_wire.h"
#include "util/channel.h"

#define WARDEN_MAKERS 4

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
	int lock_reader; /* own copy of the program looper_mm_locks; -1: none */
	bool lock_reader_told;
	int settings[2]; /* own copies of what WARDEN_HOLD takes; -1: nothing is to be restored */
	bool settings_told, restored;
	struct warden_stats stats, counted;
	struct {
		warden_make_fn make;
		void *ctx;
	} makers[WARDEN_MAKERS];
	size_t maker_count, maker; /* the one to be asked next */
	unsigned refusals;         /* in a row, since there was a warden */
};

static inline void warden_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- warden.c ---- */

/* The loop's callback for the warden's socket; ctx: struct warden. */
int warden_on_socket(void *ctx, uint32_t events);

/* ---- warden_tell.c ---- */

/* Hear the socket in the loop; also when there is room, while something is untold. */
void warden_watch_socket(struct warden *warden);
/* 0; -EAGAIN: no room; -EPIPE: there is no warden; another -errno. */
int warden_send(struct warden *warden, const struct warden_message *message, const int *fds,
		size_t fd_count);
/* Tell one thing; as warden_send. */
int warden_tell_entry(struct warden *warden, struct entry *entry);
int warden_tell_kept(struct warden *warden, struct kept *kept);
int warden_tell_settings(struct warden *warden);
int warden_tell_lock_reader(struct warden *warden);
/* Tell all that is untold, as far as there is room. */
void warden_tell_all(struct warden *warden);
/* err is what telling one thing came to: what failed is told later. A warden that is dead shows in
 * the loop too. */
void warden_told(struct warden *warden, int err);
/* Forget it and close the recorder's copies. */
void warden_forget_settings(struct warden *warden);
void warden_free_kept(struct warden *warden, struct kept *kept);

/* ---- warden_entries.c ---- */

pid_t entry_pid(const struct entry *entry);
int entry_pidfd(const struct entry *entry);
/* NULL: there is none. */
struct entry *entry_find(const struct warden *warden, uint64_t serial);
/* One for this helper, which refers to it by its serial. NULL: no memory. */
struct entry *entry_add(struct warden *warden, struct helper *helper);
/* The process is dead and reaped. */
void entry_remove(struct warden *warden, struct entry *entry);
/* Take the CPU time that the process has used so far. */
void entry_look_at_cpu(struct entry *entry);
/* Whether the process of this pidfd has ended; false where it is -1. */
bool entry_has_ended(int pidfd);
/* Look at all of them, and remove those that ended and that the warden does not reap. */
void entry_sweep(struct warden *warden);
