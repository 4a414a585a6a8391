/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the recorder's side of the probers: the queue and its deadlines (pool.c), the
 * processes that hold up (pool_holds.c), the probers and their answers (pool_probers.c), and the
 * call that waits (pool_call.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "prober/pool.h"
#include "prober/pool_wire.h"
#include "prober/warden.h"
#include "util/channel.h"
#include "util/clock.h"

#define MIN_PROBERS 2
#define MAX_PROBERS 6
#define HANG_NS     NSEC_PER_SEC
#define IDLE_NS     (5 * NSEC_PER_SEC) /* a prober beyond the first ones ends after that */
/* Where they are taken and somebody waits, one that is late is replaced after that. */
#define CROWDED_NS (200 * NSEC_PER_MSEC)
/* One more is made where none is free and none will be soon: to make and to end one costs more than
 * most requests. */
#define GROW_NS    (3 * NSEC_PER_MSEC)
#define MAX_QUEUED 4096
#define LONG_QUEUE 256 /* a tenth of a second's work, of one prober that is not held up */
#define MAX_HOLDS  512
#define PROVEN     32768 /* bits, by pid modulo their number */

struct asked {
	struct asked *next; /* in the queue */
	struct probe_call_header header;
	uint8_t *payload;
	int fds[CHANNEL_FDS];
	size_t fd_count;
	uint64_t deadline_at_ns, sent_ns;
	int failed; /* why it could not be sent; told in the loop */
	bool told;  /* the callback ran, or nobody waits for it */
	probe_fn callback;
	void *ctx;
};

struct prober {
	struct prober_pool *pool;
	struct helper helper; /* socket -1: not there */
	struct asked *asked;  /* NULL: free */
	uint64_t free_since_ns;
	bool watched;
};

/* A process that held up a prober until that was replaced. */
struct hold {
	pid_t pid;
	int pidfd; /* of the prober; -1: gone */
	uint64_t until_ns, backoff_ns;
};

enum given_up { GIVEN_UP_LATE, GIVEN_UP_REFUSED, GIVEN_UP_LOST, GIVEN_UP_KINDS };

struct prober_pool {
	struct warden *warden;
	struct loop *loop;
	int timer;
	uint64_t armed_ns; /* when the timer fires, CLOCK_MONOTONIC; UINT64_MAX: it does not */
	struct prober probers[MAX_PROBERS];
	struct asked *queue, **queue_end;
	size_t queued;
	uint64_t grows_at_ns; /* if none is free by then, one more is made for what waits; 0: no */
	unsigned unmade;      /* probers in a row that ended before they said who they are */
	uint64_t not_before_ns; /* for the next one, after these */
	int64_t last_id;
	struct hold holds[MAX_HOLDS];
	size_t hold_end;            /* those from here on were never used */
	uint8_t proven[PROVEN / 8]; /* processes that answered, and cost no prober since */
	uint64_t call_left_ns;
	uint64_t given_up[GIVEN_UP_KINDS][PROBE_OPERATIONS], given_up_total;
	uint8_t *buffer, *call_buffer; /* of an answer */
};

#define BUFFER_BYTES (sizeof(struct probe_answer_header) + PROBE_BYTES)

static inline uint64_t pool_now_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

/* ---- pool.c ---- */

/* Count a request that got no answer. */
void pool_give_up(struct prober_pool *pool, enum given_up kind, uint32_t operation);
/* A request with a copy of its payload and no descriptor; NULL: no memory. */
struct asked *pool_new_asked(struct prober_pool *pool, const struct probe_request *request,
			     const void *payload, size_t payload_length);
/* Frees it with its descriptors; NULL is fine. */
void pool_free_asked(struct asked *asked);
/* Run the callback, once, and count why there is no answer. */
void pool_finish(struct prober_pool *pool, struct asked *asked, int err,
		 const struct probe_answer *answer);
/* Take it out of the queue. */
void pool_unqueue(struct prober_pool *pool, struct asked *asked);
/* Set the timer to what is due first, of all that was asked. */
void pool_arm(struct prober_pool *pool);
/* The loop's callback for a prober's socket; ctx: struct prober. */
int pool_on_prober(void *ctx, uint32_t events);

/* ---- pool_holds.c ---- */

/* NULL: this process is not left alone. */
struct hold *pool_find_hold(struct prober_pool *pool, pid_t pid);
void pool_clear_hold(struct hold *hold);
/* This process cost a prober; pidfd (of the prober, -1: none) stays the caller's. */
void pool_add_hold(struct prober_pool *pool, pid_t pid, int pidfd);
/* Whether this process is not to be asked about now. */
bool pool_holds_up(struct prober_pool *pool, pid_t pid);
/* It has answered, or cost a prober. A pid that is used again passes for the one before. */
void pool_set_proven(struct prober_pool *pool, pid_t pid, bool proven);
bool pool_is_proven(const struct prober_pool *pool, pid_t pid);

/* ---- pool_probers.c ---- */

/* The prober that works on this process; NULL: none. */
struct prober *pool_prober_on(struct prober_pool *pool, pid_t pid);
/* Whether its request is beyond its deadline. */
bool pool_is_late(const struct prober *prober, uint64_t now_ns);
/* Hear its socket in the loop, if there is one. */
void pool_watch(struct prober_pool *pool, struct prober *prober);
void pool_drop_prober(struct prober_pool *pool, struct prober *prober, bool hung);
size_t pool_count_probers(const struct prober_pool *pool);
/* Start as many as there are to be at least. */
void pool_keep_minimum(struct prober_pool *pool);
/* Its process died, or is given up (hung). The request that it had is told -EPIPE, unless it was
 * late. */
void pool_prober_gone(struct prober_pool *pool, struct prober *prober, bool hung);
/* How many are free, or could be made. */
size_t pool_count_free(const struct prober_pool *pool);
/* One that is free for this process: first those that run. The last one is for processes that have
 * answered before, so that others, however many hang, cannot have all of them. NULL with *err: 0
 * wait for one, -EAGAIN (in_queue only) wait for GROW_NS before one more is made, or why none can
 * be made. */
struct prober *pool_free_prober(struct prober_pool *pool, pid_t pid, bool in_queue, int *err);
/* The same for the request to make a warden: one that was forked, for what is asked for now is
 * forked by the warden that is to be made. NULL with *err: 0 wait for one, -EPIPE there is none. */
struct prober *pool_made_prober(struct prober_pool *pool, int *err);
/* When the one that is late for longest is to be replaced because no other is free for everybody;
 * UINT64_MAX: there is one. */
uint64_t pool_crowded_until(const struct prober_pool *pool);
/* 0 or -errno; the request's descriptors are closed once they are sent. */
int pool_send_request(struct prober *prober, struct asked *asked);
/* Close what nobody took of an answer. */
void pool_close_answer(struct prober_pool *pool, uint32_t operation, int *fds, size_t count);
/* helper_take_hello of a prober. */
bool pool_take_hello(struct prober_pool *pool, struct prober *prober, const void *message,
		     size_t length, const int *fds, size_t fd_count);
/* Take all that a prober said. */
void pool_take_messages(struct prober_pool *pool, struct prober *prober);
/* Replace those that hang. Runs no callback. */
void pool_replace_hung(struct prober_pool *pool);
