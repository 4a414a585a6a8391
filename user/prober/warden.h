/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that work for the recorder, as the recorder sees them. The warden is forked first,
 * while this process is small; it forks all others with the rights that it still has, keeps what
 * must be freed when the recorder dies (probes, trace settings), and waits for nobody.
 *
 * A socket pair joins the recorder with each of them. A process whose recorder is gone reads the
 * end of its socket and ends; a process that hangs is killed through its pidfd by the warden,
 * because the recorder has no right to by then. When the warden itself dies, a prober is asked to
 * fork a new one (both have the same rights), and is told again what is to be kept. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/record.h"

struct loop;
struct warden;

enum helper_kind {
	HELPER_WARDEN = 1,
	HELPER_PROBER = 2,
	HELPER_SAMPLER = 3,
	HELPER_UNWINDER = 4,
	HELPER_ASKER = 5,
	HELPER_POWER = 6,
	HELPER_RUNNER = 7, /* of commands of --on-alert */
	HELPER_KINDS = 8,
};

/* What a helper that reads hostile bytes may take: address space, and CPU time in its whole life.
 */
#define HELPER_ADDRESS_BYTES (512ull << 20)
#define HELPER_CPU_S         3600

/* One process that was asked for. The socket is good at once: what is sent before the process runs
 * is read by it then. The first message that comes from it is a struct helper_hello with its pidfd,
 * or the end of the socket when it could not be made. */
struct helper {
	enum helper_kind kind;
	int socket;      /* -1: none */
	int pidfd;       /* -1: not said yet, or the kernel has none (before 5.3) */
	pid_t pid;       /* 0: not said yet */
	uint64_t serial; /* of the warden's list */
};

#define HELPER_HELLO 0x6a6b0001u
struct helper_hello {
	uint32_t type; /* HELPER_HELLO */
	uint32_t kind;
	int32_t pid;
	uint32_t reserved;
};

/* Fork the warden. Call it before any thread is made and before anything large is allocated: what
 * the process holds now, all helpers hold. NULL with errno. */
struct warden *warden_start(void);
/* Follow its death in the loop; loop NULL: leave it, before it is freed. 0 or -errno. */
int warden_join_loop(struct warden *warden, struct loop *loop);

/* Ask for a process; waits for nothing. *helper must stay at its address until warden_drop, because
 * the warden's list refers to it. 0 with *helper; -EPIPE: there is no warden now; another -errno.
 */
int warden_spawn(struct warden *warden, enum helper_kind kind, struct helper *helper);
/* Take the hello of a helper from its first message. False: it is another message. */
bool helper_take_hello(struct helper *helper, const void *message, size_t length, const int *fds,
		       size_t fd_count);
/* Close the socket, which ends a process that still listens; have it killed if `hung`. Leaves the
 * helper empty. */
void warden_drop(struct warden *warden, struct helper *helper, bool hung);

/* Have the warden hold copies of these descriptors (probes) under a key that is not 0, until they
 * are released: then it closes them in a thread of its own, which may wait for grace periods of
 * RCU. The recorder's own copies are taken over as well and closed at the release; they let a new
 * warden have them. 0 or -errno (then the descriptors are still the caller's). */
int warden_keep(struct warden *warden, uint64_t key, const int *fds, size_t fd_count);
void warden_release(struct warden *warden, uint64_t key);
/* Have the warden make the last close of these descriptors, as after warden_release; the caller's
 * copies are closed by this call. */
void warden_close(struct warden *warden, const int *fds, size_t fd_count);
/* The program looper_mm_locks, by which the last close of a probe waits for processes that hold
 * their mmap_lock (mm_locks.h). The descriptor stays the caller's. 0 or -errno. */
int warden_set_lock_reader(struct warden *warden, int program);

/* Settings of the device that must be as before when the recorder has died: the warden puts back
 * what the file behind `state` keeps then (trace_state.h), and frees its lock. root: of
 * trace_settings.h. Both stay the caller's. 0 or -errno. */
int warden_hold_settings(struct warden *warden, int state, int root);
/* Have it done now. 0; -ETIMEDOUT: it will be; -EPIPE: there is no warden. */
int warden_restore_settings(struct warden *warden, uint64_t timeout_ns);

struct warden_stats {
	uint64_t replaced[HELPER_KINDS]; /* processes that died or hung, by kind */
	uint64_t not_replaced;           /* times that a dead warden could not be replaced */
	uint64_t lost;                   /* times that it was given up: nobody is left to fork it */
};
void warden_stats(const struct warden *warden, struct warden_stats *stats);
/* What happened since the last call of this, by name: a process that was replaced is repaired
 * ("helper_prober_replaced" ...), a warden that is not replaced yet is late
 * ("helper_warden_absent"), and it is lost when nobody is left who could fork it ("helpers_lost",
 * once). 0 or -ENOMEM. */
int warden_counters(struct warden *warden, struct counter_list *lost, struct counter_list *late,
		    struct counter_list *repaired);
/* Of all helpers that are alive now (the warden too): pid and kind; returns how many (at most
 * room).
 */
size_t warden_list(const struct warden *warden, struct helper *list, size_t room);

/* What the helpers cost. */
struct warden_usage {
	uint64_t cpu_ns; /* of all helpers that ever were; of one that is dead, as much as is known
			  */
	uint64_t reaped_ns; /* of it, what getrusage(RUSAGE_CHILDREN) of this process holds too */
};
void warden_usage(struct warden *warden, struct warden_usage *usage);

/* Who forks a new warden when this one died; helpers of several kinds, because some may have died
 * with it. make(ctx, socket) has it forked on a copy of socket: 0 when that is under way, or
 * -errno: the next one is tried, and all of them again later. The maker may call warden_not_made
 * when it turns out that no warden comes; the end of the socket says so too. 0 or -ENOSPC. */
typedef int (*warden_make_fn)(void *ctx, int socket);
int warden_add_maker(struct warden *warden, warden_make_fn make, void *ctx);
void warden_remove_maker(struct warden *warden, void *ctx);
void warden_not_made(struct warden *warden);

/* End them all: the warden frees what it holds and ends after the others. Waits at most 200 ms, so
 * that a shell sees no process of ours behind it; what takes longer goes on without us. */
void warden_stop(struct warden *warden);

/* ---- the other side: the whole life of each kind; never return ---- */
void warden_main(int socket) __attribute__((noreturn));
void prober_main(int socket) __attribute__((noreturn));
void sampler_main(int socket) __attribute__((noreturn));
void unwinder_main(int socket) __attribute__((noreturn));
void asker_main(int socket) __attribute__((noreturn));
void power_reader_main(int socket) __attribute__((noreturn));
void runner_main(int socket) __attribute__((noreturn));
/* First of all in each: a name, a session of its own, the signals, no descriptor but the socket,
 * nice 0, the hello. The process ends here when its recorder is gone already. */
void helper_begin(enum helper_kind kind, int *socket);
/* In a helper that has all rights: fork a warden on this socket, which stays the caller's. The new
 * one is no child of this process. 0 or -errno. */
int helper_fork_warden(int socket);
