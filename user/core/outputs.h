/* SPDX-License-Identifier: BSD-2-Clause */
/* The sinks of a run: each gets every record until its reader goes away or it fails. */
#pragma once
#include "jankscope/sink.h"

struct loop;
struct outputs;

/* ended(ctx) is called when a sink failed, or when the last one lost its reader. NULL with ENOMEM.
 */
struct outputs *outputs_new(void (*ended)(void *ctx), void *ctx);
/* Closes the sinks, which get their time to finish first if they had not. */
void outputs_free(struct outputs *outputs);
/* Takes ownership, also when it fails with -ENOMEM. */
int outputs_add(struct outputs *outputs, struct sink *sink);
/* Follow errors of writing in the loop, so that they end the run when they happen and not at the
 * next record. 0 or -errno. */
int outputs_watch(struct outputs *outputs, struct loop *loop);
void outputs_write(struct outputs *outputs, const struct record *record);
/* What is written from here on goes out when it is let go, so that a turn of the loop wakes a
 * writer once. */
void outputs_hold(struct outputs *outputs, bool held);
/* What happened to the outputs since the last call, each as an event. */
void outputs_take_events(struct outputs *outputs,
			 void (*emit)(void *ctx, const struct record_event *event), void *ctx);
/* False when each sink lost its reader. */
bool outputs_any_left(const struct outputs *outputs);
/* Let all sinks write what they hold back, at most 600 ms; one that hangs is left behind. */
void outputs_finish(struct outputs *outputs);
/* The last error of a sink, 0: none; a reader that went away is none. */
int outputs_error(const struct outputs *outputs);

/* Add what recordings dropped since the last call ("records_dropped"). 0 or -ENOMEM. */
int outputs_count_dropped(struct outputs *outputs, struct counter_list *lost);
/* Records that tables did not print: no loss. */
uint64_t outputs_tables_dropped(const struct outputs *outputs);
/* CPU time of the processes that write for the sinks, since the last call. */
uint64_t outputs_take_cpu_ns(struct outputs *outputs);
