/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/flight/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/loop.h"
#include "core/rights.h"
#include "jankscope/target.h"
#include "kernel/flight_kernel.h"
#include "source/blocks/blocks.h"
#include "source/blocks/frame_samples.h"
#include "source/cpu/cpu.h"
#include "source/declarations.h"
#include "summary/summary.h"
#include "util/clock.h"

/* Threads are looked for in targets each TICK_NS in the first seconds of a target, then, and those
 * of the display, each LOOK_TICKS ticks. */
#define TICK_NS    (250 * NSEC_PER_MSEC)
#define SLACK_NS   (50 * NSEC_PER_MSEC)
#define LOOK_TICKS 16
#define IDLE_LOOKS 16 /* of all targets */
#define YOUNG_NS   (5 * NSEC_PER_SEC)
/* Of a frame, until the source of frames knows better; and what it may say. */
#define PERIOD_NS       16666667
#define LEAST_PERIOD_NS (4 * NSEC_PER_MSEC)
#define MOST_PERIOD_NS  (50 * NSEC_PER_MSEC)

static struct flight_source *flight_source(struct source *source)
{
	return (struct flight_source *)source;
}

static void look(struct flight_source *flight, bool all)
{
	uint64_t now_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	const struct target_process *process;

	flight_tidy_threads(flight, clock_now_ns(CLOCK_MONOTONIC));
	if (all)
		flight->crowded_now = 0;
	for (size_t n = 0; (process = target_set_at(flight->context.targets, n)); n++)
		if (all || now_boot_ns < process->start_boot_ns + YOUNG_NS)
			flight_find_threads(flight, process->pid);
	if (!all)
		flight_find_born(flight);
	if (all || flight->display_looks)
		flight_find_display(flight);
	flight->display_looks -= flight->display_looks != 0;
	if (all && flight->crowded_now > flight->crowded)
		flight->crowded = flight->crowded_now;
}

static int on_tick(void *ctx, uint32_t events)
{
	struct flight_source *flight = ctx;

	flight->ticks++;
	if (flight->ticks % (IDLE_LOOKS * LOOK_TICKS) == 0)
		flight_forget_idle(flight);
	look(flight, flight->ticks % LOOK_TICKS == 0);
	return 0;
}

static int flight_open(struct source *source, const struct source_context *context)
{
	struct flight_source *flight = flight_source(source);
	struct looper_kernel *loopers = blocks_source_kernel(flight->blocks);
	struct sched_kernel *sched = cpu_source_kernel(flight->cpu);
	struct flight_fds fds;

	flight->context = *context;
	if (!sched || !loopers) {
		snprintf(source->reason, sizeof(source->reason),
			 "the flight recorder needs the source blocks: %.100s",
			 flight->blocks->reason);
		return -ENOTSUP;
	}
	flight->kernel = flight_kernel_open(sched, loopers);
	if (!flight->kernel) {
		int err = -errno;

		snprintf(source->reason, sizeof(source->reason), "no flight recorder: %s",
			 strerror(-err));
		return err;
	}
	flight->glob = blocks_source_thread(flight->blocks);
	snprintf(flight->variant, sizeof(flight->variant), "%.1fMiB",
		 (double)flight_kernel_bytes(flight->kernel) / (1 << 20));
	source->variant = flight->variant;
	if (flight->step_ns && !flight_kernel_fds(flight->kernel, &fds) &&
	    !frame_samples_begin(flight->blocks, &fds, flight->step_ns, PERIOD_NS) &&
	    errno == ENOMEM)
		return -ENOMEM;
	look(flight, true);
	flight->timer = loop_add_timer(context->loop, TICK_NS, TICK_NS, on_tick, flight);
	if (flight->timer < 0)
		return flight->timer;
	return loop_set_slack(context->loop, flight->timer, SLACK_NS);
}

static bool flight_take_target(struct source *source, const struct target_process *process)
{
	flight_find_threads(flight_source(source), process->pid);
	return false;
}

static int add_loss(struct record_interval *interval, const char *name, uint64_t now,
		    uint64_t *told)
{
	uint64_t news = now - *told;

	*told = now;
	return news ? counter_list_add(&interval->lost, name, news) : 0;
}

static int flight_sample(struct source *source, struct record_interval *interval)
{
	struct flight_source *flight = flight_source(source);
	struct frame_samples_counts samples = frame_samples_counts(flight->blocks);

	return add_loss(interval, "flight_gaps", flight_kernel_missed(flight->kernel),
			&flight->gaps_told)
		       ?: add_loss(interval, "flight_placed", flight_kernel_placed(flight->kernel),
				   &flight->placed_told)
		       ?: add_loss(interval, "flight_overrun",
				   flight_kernel_overrun(flight->kernel), &flight->overrun_told)
		       ?: add_loss(interval, "flight_turns_gone",
				   flight_kernel_turns_gone(flight->kernel), &flight->turns_told)
		       ?: add_loss(interval, "flight_threads_unwatched", flight->crowded,
				   &flight->crowded_told)
		       ?: add_loss(interval, "frame_samples_thinned", samples.thinned,
				   &flight->thinned_told)
		       ?: add_loss(interval, "frame_samples_gone", samples.gone,
				   &flight->gone_told)
		       ?: add_loss(interval, "frame_samples_unkept", samples.unkept,
				   &flight->unkept_told);
}

static int flight_summarise(struct source *source, struct summary *summary)
{
	struct flight_source *flight = flight_source(source);
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), least_ns = UINT64_MAX;
	struct flight_watched watched;
	int err;

	/* What each of those has that filled its ring, or lived as long as the run. */
	for (size_t n = 0; flight_source_thread(source, n, &watched); n++)
		if (!watched.dead && watched.from_ns && now_ns - watched.from_ns < least_ns)
			least_ns = now_ns - watched.from_ns;
	err = summary_set_total(summary, "flight.threads", (double)flight->count);
	if (!err)
		err = summary_set_total(summary, "flight.bytes",
					(double)flight_kernel_bytes(flight->kernel));
	if (!err)
		err = summary_set_total(summary, "flight.samples",
					(double)frame_samples_counts(flight->blocks).taken);
	if (!err && least_ns != UINT64_MAX)
		err = summary_set_total(summary, "flight.least_covered_ns", (double)least_ns);
	return err;
}

static void flight_close(struct source *source)
{
	struct flight_source *flight = flight_source(source);

	if (!source)
		return;
	flight_kernel_close(flight->kernel);
	free(flight);
}

bool flight_source_thread(struct source *source, size_t n, struct flight_watched *out)
{
	struct flight_source *flight = flight_source(source);
	const struct followed *followed;

	if (!flight->kernel || n >= flight->count)
		return false;
	followed = &flight->threads[n];
	*out = (struct flight_watched){
		.pid = followed->pid,
		.tid = followed->tid,
		.role = followed->role,
		.dead = flight_kernel_is_dead(flight->kernel, followed->index),
		.from_ns = flight_kernel_from_ns(flight->kernel, followed->index),
	};
	memcpy(out->comm, followed->comm, sizeof(out->comm));
	return true;
}

int flight_source_spells(struct source *source, size_t n, uint64_t from_ns, uint64_t to_ns,
			 struct spell *spells, size_t size, size_t *count)
{
	struct flight_source *flight = flight_source(source);

	if (!flight->kernel || n >= flight->count)
		return -ENOENT;
	flight_check_runner(flight, &flight->threads[n]);
	return flight_kernel_spells(flight->kernel, flight->threads[n].index, from_ns, to_ns,
				    spells, size, count);
}

static const struct loss_info loss_items[] = {
	/* Spells of which nothing is known: a switch-out was not shown. */
	{"flight_gaps", LOSS_LOST, LOSS_OF_NOTHING},
	/* Switch-ins that were not shown, placed by what the kernel charged. */
	{"flight_placed", LOSS_REPAIRED, LOSS_OF_NOTHING},
	/* Entries that were written over while they were read. */
	{"flight_overrun", LOSS_LOST, LOSS_OF_NOTHING},
	/* Waits that were asked for when it was no longer there who ran in all of their time. */
	{"flight_turns_gone", LOSS_LOST, LOSS_OF_NOTHING},
	/* The most threads at a time that make frames and found no room. */
	{"flight_threads_unwatched", LOSS_LOST, LOSS_OF_NOTHING},
	/* Samples of frames that would have cost more than 1 % of a core. */
	{"frame_samples_thinned", LOSS_LOST, LOSS_OF_NOTHING},
	/* Late frames of which some samples had made room for later ones when they were told. */
	{"frame_samples_gone", LOSS_LOST, LOSS_OF_NOTHING},
	/* Samples for which there was no memory. */
	{"frame_samples_unkept", LOSS_LOST, LOSS_OF_NOTHING},
};
const struct loss_table flight_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items),
					 NULL};

static const struct source_ops ops = {
	.name = "flight",
	.losses = &flight_losses,
	.open = flight_open,
	.sample = flight_sample,
	.take_target = flight_take_target,
	.summarise = flight_summarise,
	.close = flight_close,
};

void flight_source_set_period(struct source *source, uint64_t period_ns)
{
	struct flight_source *flight = flight_source(source);

	if (period_ns < LEAST_PERIOD_NS || period_ns > MOST_PERIOD_NS ||
	    (flight->period_ns && period_ns >= flight->period_ns))
		return;
	flight->period_ns = period_ns;
	frame_samples_set_period(flight->blocks, period_ns);
}

struct source *flight_source_sampler(struct source *source)
{
	return flight_source(source)->blocks;
}

struct source *flight_source_new(struct source *cpu, struct source *blocks, uint64_t step_ns)
{
	struct flight_source *flight = calloc(1, sizeof(*flight));

	if (!flight)
		return NULL;
	flight->base.ops = &ops;
	flight->base.rights = RIGHT_MAPS;
	flight->cpu = cpu;
	flight->blocks = blocks;
	flight->timer = -1;
	flight->step_ns = step_ns;
	cpu_source_want_flight(cpu);
	return &flight->base;
}
