/* SPDX-License-Identifier: BSD-2-Clause */
/* The one epoll loop: file descriptors with callbacks, and timers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop;

/* Called with the epoll events of the descriptor. A negative return ends loop_run with it. */
typedef int (*loop_fn)(void *ctx, uint32_t events);

/* NULL with errno. */
struct loop *loop_new(void);
void loop_free(struct loop *loop);

/* Watch fd (not owned). 0, -EEXIST, -errno. */
int loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fn callback, void *ctx);
/* Stop watching; may be called from any callback, also its own. 0, or -ENOENT. */
int loop_remove_fd(struct loop *loop, int fd);

/* A timer on CLOCK_MONOTONIC: first after first_ns (0: it is stopped), then every period_ns (0:
 * once). Returns its number (from 0 on), or -errno. The callback gets as events how many periods
 * went by. */
int loop_add_timer(struct loop *loop, uint64_t first_ns, uint64_t period_ns, loop_fn callback,
		   void *ctx);
/* A timer that may come so much earlier or later, with something else that wakes the loop: what is
 * due at about the same time costs one turn. 0, or -ENOENT. */
int loop_set_slack(struct loop *loop, int timer, uint64_t slack_ns);
/* Set it anew, or stop it. 0, or -ENOENT. */
int loop_set_timer(struct loop *loop, int timer, uint64_t first_ns, uint64_t period_ns);
int loop_remove_timer(struct loop *loop, int timer);

/* loop_run paces itself: where events come without end, it takes what 40 ms brought in one turn. Of
 * an urgent timer or descriptor (one that is watched; its edges count) it hears at once. 0 or
 * -errno. */
int loop_urgent_fd(struct loop *loop, int fd);
int loop_urgent_timer(struct loop *loop, int timer);
/* A callback knows that more comes soon and that somebody waits for it: no pacing for 10 ms. */
void loop_hurry(struct loop *loop);

/* Have these called at the beginning of each turn, before the callbacks, and at its end. One pair
 * at a time; either may be NULL. */
void loop_on_turn(struct loop *loop, void (*begin)(void *ctx), void (*end)(void *ctx), void *ctx);

/* Run until loop_stop or a callback fails. 0, or that callback's error. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* One turn outside of loop_run: wait for events, at most this long, and call back. 0, or the
 * callback's error. */
int loop_turn(struct loop *loop, uint64_t timeout_ns);
