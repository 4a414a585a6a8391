/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the blocks source share: blocks.c is the source and says who is watched,
 * blocks_look.c looks at one thread, blocks_report.c tells. */
#pragma once
#include "core/loop.h"
#include "jankscope/target.h"
#include "source/blocks.h"
#include "source/blocks_stacks.h"
#include "source/blocks_watch.h"
#include "source/cpu.h"
#include "util/clock.h"

struct blocks_source {
	struct source base;
	struct blocks_options options;
	struct source *cpu;
	struct source_context context;
	struct looper_kernel *kernel;
	struct sched_kernel *sched;
	struct blocks_stacks *stacks; /* NULL: --stack off, or not to be had */
	struct blocks_watch *watch;
	int timer;
	bool syscalls_hooked;
	uint64_t losses[LOOPER_LOSS_MAX], stacks_busy;
	/* processes that found no row: now, at most, and told */
	uint64_t unwatched_now, unwatched, unwatched_told;
	struct stack_stats seen;
	struct counter_list stack_losses;
	char variant[48];
};

#define BLOCKS_MIN_TICK_NS NSEC_PER_MSEC

/* An event of the kernel side's ring. ctx: struct blocks_source. 0, -ENOMEM. */
int blocks_on_event(void *ctx, const struct looper_event *event, size_t size);
/* Look at one watched thread: sample and report what is due; *next_ns becomes when to look again,
 * if that is sooner. Times are CLOCK_MONOTONIC. 0, -ENOMEM. */
int blocks_look_at(struct blocks_source *blocks, struct watched *watched, uint64_t now_ns,
		   uint64_t *next_ns);
/* Tell of the period that the slot is in, as far as it went. 0, -ENOMEM. */
int blocks_report_open(struct blocks_source *blocks, struct watched *watched,
		       const struct looper_slot *slot, uint64_t now_ns);
/* CLOCK_BOOTTIME - CLOCK_MONOTONIC now. */
int64_t blocks_boot_minus_mono_ns(void);
/* The text of an enum looper_detector in records. */
const char *blocks_detector_name(const struct blocks_source *blocks, uint32_t detector);
/* Loop callback: emit what came back from the unwinding thread. ctx: struct blocks_source. */
int blocks_on_reports(void *ctx, uint32_t events);
/* Forget a period that ended below the threshold. 0, -ENOMEM. */
int blocks_drop_samples(struct blocks_source *blocks, struct watched *watched);
/* Make a record of a period and send it on its way; open_spell and open_since_ns: the sleep that it
 * is in, 0: none. The samples go with the last record of their period. 0, -ENOMEM. */
int blocks_report(struct blocks_source *blocks, struct watched *watched,
		  const struct looper_period_event *told, enum block_state state,
		  uint64_t open_spell, uint64_t open_since_ns);
