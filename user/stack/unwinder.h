/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the unwinder process: captures go in, traces with names come out. The
 * process gets one job at a time and has 1 s for it, without what it waits for a CPU; a process
 * that is late or dead is replaced. What it asks for while it works (maps, files, memory of the
 * target) comes from the prober pool. Every byte that it sends is taken for hostile. All functions
 * and callbacks run in the loop's thread; none of them waits. */
#pragma once
#include "jankscope/stack.h"
#include "stack/wait_places.h"

struct loop;
struct prober_pool;
struct unwinder;
struct warden;

/* What may wait to be unwound: beyond it the newest capture of the process that has most of it is
 * dropped and counted. */
#define UNWINDER_WAITING_BYTES (4u << 20)

/* All three are borrowed for the life of the unwinder. The process is made with the first job. NULL
 * with errno. */
struct unwinder *unwinder_new(struct warden *warden, struct prober_pool *pool, struct loop *loop);
/* The jobs that are left are given up; their callbacks are not called. */
void unwinder_free(struct unwinder *unwinder);

/* Called once for each job that was taken and not cancelled. err 0: the trace becomes the callee's,
 * to be freed with free(). Else it was lost, and counted: -EBUSY: it made room for another
 * process's; -ETIMEDOUT, -EPIPE: the unwinder hung on it or died of it; -ENOMEM. */
typedef void (*unwound_fn)(void *ctx, int err, struct unwound *trace);
/* Have a capture unwound. The capture is taken over, also on failure. done is called from the loop
 * later, never during this call. 0; -EBUSY: too many bytes of this process wait; -EDQUOT: stacks of
 * this process took too long lately; -ENOMEM. All are counted. */
int unwinder_push(struct unwinder *unwinder, struct stack_capture *capture, unwound_fn done,
		  void *ctx);

/* err: 0 with the places; -ENOENT: the file has none; -ENOTSUP: it is no 64-bit ELF of a known
 * machine; -ENOEXEC, -EIO: malformed; -EACCES: the unwinder hung on this file before; -ETIMEDOUT,
 * -EPIPE: the unwinder hung on it or died of it. places is valid during the call. */
typedef void (*wait_places_fn)(void *ctx, int err, const struct wait_places *places);
/* Look for places that wait in the ELF that starts at byte elf_start of the file. fd is taken over,
 * also on failure. The offsets that are found count from the start of the ELF. These jobs pass the
 * captures that wait. 0 or -ENOMEM. */
int unwinder_find_waits(struct unwinder *unwinder, int fd, uint64_t elf_start, wait_places_fn done,
			void *ctx);

/* Ask for the maps of a process at once, so that its stacks can still be named when it is gone by
 * the time that they are unwound. A few pictures are kept (64, at most 4 MiB together). start_ticks
 * as in stack_thread: 10 ms of CLOCK_BOOTTIME. */
void unwinder_prime(struct unwinder *unwinder, pid_t pid, uint64_t start_ticks);

/* Callbacks with this ctx are not called any more. */
void unwinder_cancel(struct unwinder *unwinder, void *ctx);
/* No job waits or is at work. */
bool unwinder_idle(const struct unwinder *unwinder);

/* What its process keeps of files of code and gives back by use, in bytes of its heap, as it told
 * it last: hostile, so it is a number to show. */
uint64_t unwinder_cache_bytes(const struct unwinder *unwinder);

/* Totals of the run so far, by the names of unwinder_losses. elf_refused: a file that the unwinder
 * hung on before was not read again. unwinder_malformed: an answer made no sense, and the process
 * was replaced. 0 or -ENOMEM. */
int unwinder_counters(const struct unwinder *unwinder, struct counter_list *lost);
extern const struct loss_table unwinder_losses;
