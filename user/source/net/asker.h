/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks for dumps and never waits for them: a process of its own makes them (net_diag_serve). One
 * request at a time. A dump that took long is followed by a rest of nine times as long, so that at
 * most a tenth of a core goes into dumps. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "source/net/diag.h"
#include "source/net/diag_wire.h"

struct net_asker;
struct warden;

/* The warden forks the process, with all the rights that there were at the start; it
 * stays the caller's. NULL: this process forks it, with its own. NULL with errno. */
struct net_asker *net_asker_new(struct warden *warden);
void net_asker_free(struct net_asker *asker);

/* 0; -EBUSY: an answer is due or it rests; -EPIPE: there is no process and none can be made. */
int net_asker_ask(struct net_asker *asker, const struct net_diag_request_wire *request);
/* The next request is the last one of a run: it need not rest before. */
void net_asker_hurry(struct net_asker *asker);
/* Call it in each read-out, also when nothing was asked: a process that died is made anew here. The
 * answer to the last request, if it has come within timeout_ns (0: do not wait). 0 with *diag
 * (free it with net_diag_free); -EAGAIN: not yet; -EPIPE: the process died or did not answer in
 * 10 s, and the request is lost; another -errno: it could not be served. */
int net_asker_take(struct net_asker *asker, uint64_t timeout_ns, struct net_diag *diag);

/* How often the process had to be replaced. */
uint64_t net_asker_replaced(const struct net_asker *asker);
