/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the blocks source share: blocks.c is the source and follows the targets,
 * start.c begins and ends a watch, probes.c sets its probes, own.c tells a shared epoll from a
 * loop, tell.c tells of it, look.c looks at one thread, take.c takes events and samples, waker.c
 * takes who ended a sleep, report.c makes records of periods. */
#pragma once
#include "core/loop.h"
#include "jankscope/target.h"
#include "kernel/binder_kernel.h"
#include "source/blocks/blocks.h"
#include "source/blocks/reports.h"
#include "source/blocks/sampler.h"
#include "source/blocks/watch.h"
#include "source/cpu/cpu.h"
#include "util/clock.h"

struct summary;

struct blocks_source {
	struct source base;
	struct blocks_options options;
	struct source *cpu;
	struct source_context context;
	struct looper_kernel *kernel;
	struct binder_kernel *binder; /* NULL: this kernel has no binder, or it cannot be hooked */
	struct sched_kernel *sched;
	struct blocks_watch *watch;
	struct blocks_sampler *sampler; /* NULL: --stack off, or not to be had */
	struct unwinder *unwinder;      /* NULL: only with --stack off */
	struct frame_samples *frames;   /* NULL: no frame is sampled */
	struct block_reports reports;
	int timer;
	uint64_t timer_ns; /* when it is due; 0: not set */
	bool begun;        /* the header is out: events may be told */
	bool thinned;      /* samples are not taken: the recorder costs too much */
	bool rests;        /* nothing was due at the last look: no thread was in a period */
	uint64_t born_mono_ns, tick_ns, probe_key;
	pid_t own[LOOPER_OWN_PROCESSES]; /* the recorder's processes, as the kernel side knows them
					  */
	size_t own_count;
	/* counters: totals, and what of them was told */
	uint64_t losses[LOOPER_LOSS_MAX];
	/* processes that found no row: now, at most, and told */
	uint64_t unwatched_now, unwatched, unwatched_told;
	uint64_t probes_delayed, probes_delayed_told;
	uint64_t probes_held_off, probes_held_off_told;
	uint64_t samples_late, samples_late_told; /* their record was out when they came */
	uint64_t wakers_without_stack, wakers_without_stack_told;
	uint64_t ends_unseen, ends_unseen_told; /* of threads whose process has ended */
	uint64_t unproved; /* periods of which it was not known at the end whether they are blocks
			    */
	uint64_t abandoned_told, resynced_told, binder_losses_told;
	struct blocks_sampler_losses sampler_told;
	struct stack_stats seen;
	struct counter_list stack_losses;
	char variant[48];
};

#define BLOCKS_MIN_TICK_NS NSEC_PER_MSEC

/* ---- threads.c ---- */
/* Watch a thread of this process; one that has none of the wanted name yet is looked for again with
 * the next look. 0 or -ENOMEM; a full table is counted. */
int blocks_start_watching(struct blocks_source *blocks, const struct target_process *process);
/* What the set of targets says now, against what is watched: watches begin and end. 0 or -errno. */
int blocks_follow_targets(struct blocks_source *blocks);
/* One thread a process is watched: which, where the name leaves a choice, or that there is none. */
void blocks_explain_names(const struct blocks_source *blocks, char *text, size_t size);

/* ---- start.c ---- */
/* A request of the prober about the thread of a watch; the rest is the caller's to fill. */
struct probe_request blocks_request(const struct watched *watched, enum probe_operation operation);
/* A request that failed so may succeed when it is made again. */
bool blocks_try_again(int err);
/* Take the next step of a watch that has not begun, or is not settled; again after each answer. */
void blocks_start_watch(struct blocks_source *blocks, struct watched *watched);
/* The slot may say more of the thread's loop than was known. */
void blocks_follow_loop(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot);
/* The process runs another program: its probes are of the former one, its loop is not known. */
void blocks_start_over(struct blocks_source *blocks, struct watched *watched);
/* End a watch; the row is gone. */
void blocks_stop_watch(struct blocks_source *blocks, struct watched *watched);

/* ---- probes.c ---- */
/* Find out what code the loop in the slot waits in, as soon as a switch has shown the place:
 * whether it is the thread's own, and put probes there if the options want them. */
void blocks_want_probes(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot);
/* Let the probes of a watch go, and what was asked for them. */
void blocks_drop_probes(struct blocks_source *blocks, struct watched *watched);

/* ---- own.c ---- */
/* A block is not told for so long while a question about its loop is on its way. */
#define BLOCKS_HOLD_NS (150 * NSEC_PER_MSEC)
/* Ask whether other threads wait in the epoll as well, if that was not asked lately. */
void blocks_ask_waiters(struct blocks_source *blocks, struct watched *watched, uint32_t kind,
			int32_t fd, uint64_t now_ns);
/* It is not known yet whose code the loop is. */
bool blocks_place_pending(const struct watched *watched, uint64_t now_ns);
/* It is not known yet whether the loop is the thread's own: its blocks are not told yet. */
bool blocks_own_pending(const struct watched *watched, uint64_t now_ns);
/* One of the questions was answered in the thread's favour. */
void blocks_own_settle(struct blocks_source *blocks, struct watched *watched);
/* This epoll is not the thread's own: it is no loop from now on, and what was held is dropped. */
void blocks_own_shared(struct blocks_source *blocks, struct watched *watched, int32_t fd,
		       enum watched_shared why);
/* The thread has no loop any more, until it waits elsewhere: what was held is dropped. */
void blocks_own_none(struct blocks_source *blocks, struct watched *watched,
		     enum watched_shared why);
/* Why the thread's epoll is no loop; NULL: it was not found shared. */
const char *blocks_shared_reason(const struct watched *watched);

/* ---- tell.c ---- */
/* Tell target_start, with what the thread waits in; or target_loop, when that is known later. */
void blocks_tell_loop(struct blocks_source *blocks, struct watched *watched,
		      const char *event_name);
/* Emits a `degraded` event of this target, with the reason `why`. */
void blocks_tell_degraded(struct blocks_source *blocks, const struct watched *watched,
			  const char *why);
/* Tell what has become known of a watch since: its start with its loop, and what it does without.
 */
void blocks_tell_news(struct blocks_source *blocks, struct watched *watched);
/* Tell the start of a watch, also of one that has not come to know the thread. */
void blocks_tell_start(struct blocks_source *blocks, struct watched *watched);
/* Which of the threads watched now have no loop, and why; "" where all have one. */
void blocks_explain_loops(struct blocks_source *blocks, char *text, size_t size);
/* The text of an enum looper_wait in records. */
const char *blocks_loop_name(uint32_t kind);

/* ---- take.c ---- */
/* An event of the kernel side's ring. ctx: struct blocks_source. 0, -ENOMEM. */
int blocks_on_event(void *ctx, const struct looper_event *event, size_t size);
/* A message of the sampler. ctx: struct blocks_source. */
void blocks_on_sample(void *ctx, const struct sampler_sample *sample, const uint8_t *stack,
		      const char *text);
/* Follow a period of the thread: forget the one before. begin_ns 0: not known yet. */
void blocks_begin_period(struct blocks_source *blocks, struct watched *watched, uint64_t number,
			 uint64_t begin_ns);
struct watched_load blocks_load_now(const struct blocks_source *blocks, pid_t pid);

/* Have the capture of a sample unwound; takes the capture over. */
void blocks_unwind(struct blocks_source *blocks, struct block_sample *sample,
		   struct stack_capture *capture);

/* What the sampler sent as a capture; start_boot_ns: of its process, 0: not known. NULL: no memory.
 */
struct stack_capture *blocks_capture(const struct sampler_sample *from, uint64_t start_boot_ns,
				     const uint8_t *stack, const char *text);

/* ---- frame_samples.c ---- */
/* A message of the sampler about a thread that makes frames. ctx: struct blocks_source. */
void blocks_on_frame_sample(void *ctx, const struct sampler_sample *sample, const uint8_t *stack,
			    const char *text);
/* Go on with what waits to be unwound, and tell who waits for it. */
void blocks_frames_go_on(struct blocks_source *blocks);
bool blocks_frames_settled(const struct blocks_source *blocks);
void blocks_frames_free(struct blocks_source *blocks);

/* ---- waker.c ---- */
/* Who ended a long sleep of the thread: the rest of the event is that of LOOPER_EVENT_WAKER. */
void blocks_on_waker(struct blocks_source *blocks, struct watched *watched,
		     const struct looper_event *head, size_t size);

/* ---- look.c ---- */
/* The thread of the slot has a loop, as far as is known, and so it has blocks. */
bool blocks_is_loop(const struct looper_slot *slot);
/* With a sampler, and where all that is watched is known, looks are so far apart: the sampler, the
 * kernel side and the set of targets tell when something happens. */
#define REST_TICK_NS NSEC_PER_SEC
/* How long until the next look if nothing happens. */
uint64_t blocks_idle_tick_ns(const struct blocks_source *blocks, uint64_t now_ns);
/* Look at one watched thread: report what is due; *next_ns becomes when to look again, if that is
 * sooner. Times are CLOCK_MONOTONIC. 0, -ENOMEM. */
int blocks_look_at(struct blocks_source *blocks, struct watched *watched, uint64_t now_ns,
		   uint64_t *next_ns);

/* ---- report.c ---- */
/* Tell of the period that the slot is in, as far as it went. 0, -ENOMEM. */
int blocks_report_open(struct blocks_source *blocks, struct watched *watched,
		       const struct looper_slot *slot, uint64_t now_ns);
/* Make a record of a period and send it on its way; open_spell and open_since_ns: the sleep that it
 * is in, 0: none. The samples go with the last record of their period. 0, -ENOMEM. */
int blocks_report(struct blocks_source *blocks, struct watched *watched,
		  const struct looper_period_event *told, enum block_state state,
		  uint64_t open_spell, uint64_t open_since_ns);
/* Emit the records that are due, and have the timer call again for those that are not yet. */
void blocks_emit(struct blocks_source *blocks, bool final);
/* CLOCK_BOOTTIME - CLOCK_MONOTONIC now. */
int64_t blocks_boot_minus_mono_ns(void);
/* The text of an enum looper_detector in records. */
const char *blocks_detector_name(const struct blocks_source *blocks, uint32_t detector);

/* ---- chain_binder.c ---- */
/* Load the kernel side of binder calls, where this kernel has them; else a reason, or "" where it
 * has no binder. */
void blocks_open_binder(struct blocks_source *blocks, char *reason, size_t size);
/* The calls of the chain as they stand now: their times, as far as they are known. ended: the block
 * is over, so that none of them stands. */
void blocks_refresh_calls(const struct blocks_source *blocks, struct block_chain *chain,
			  bool ended);

/* ---- losses.c ---- */
extern const struct loss_table blocks_losses;
/* Add what was lost since the last call. */
void blocks_add_losses(struct blocks_source *blocks, struct record_interval *interval);
void blocks_set_totals(const struct blocks_source *blocks, struct summary *summary);

/* ---- blocks.c ---- */
/* Look again at this time (CLOCK_MONOTONIC) or sooner. */
void blocks_wake_at(struct blocks_source *blocks, uint64_t at_ns);
