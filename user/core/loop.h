/* SPDX-License-Identifier: BSD-2-Clause */
/* The one epoll loop: file descriptors with callbacks, and timers that are descriptors too. */
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

/* A timer on CLOCK_MONOTONIC: first after first_ns, then every period_ns (0: once). Returns its
 * descriptor, owned by the loop, or -errno. The callback gets as events how many periods went by.
 */
int loop_add_timer(struct loop *loop, uint64_t first_ns, uint64_t period_ns, loop_fn callback,
		   void *ctx);
int loop_set_timer(int timer, uint64_t first_ns, uint64_t period_ns);
int loop_remove_timer(struct loop *loop, int timer);

/* Have this called at the beginning of each turn, before the callbacks. One at a time. */
void loop_on_turn(struct loop *loop, void (*callback)(void *ctx), void *ctx);

/* Run until loop_stop or a callback fails. 0, or that callback's error. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* One turn outside of loop_run: wait for events, at most this long, and call back. 0, or the
 * callback's error. */
int loop_turn(struct loop *loop, uint64_t timeout_ns);
