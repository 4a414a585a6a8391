/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/sched.h"
#include "summary/summary.h"
#include "kernel/looper_kernel.h"
#include "prober/warden.h"
#include "util/clock.h"
#include "proc/read.h"

/* How often targets are compared with what is watched, when nothing else is due. Without a sampler
 * nobody tells of a period that lasts, so looks must be close enough to tell it. */
#define IDLE_TICK_NS  (200 * NSEC_PER_MSEC)
#define REST_SLACK_NS (50 * NSEC_PER_MSEC)
#define LEAST_TICK_NS (20 * NSEC_PER_MSEC)
#define FIRST_LOOK_NS (100 * NSEC_PER_MSEC)
#define DRAIN_NS      (400 * NSEC_PER_MSEC)

static struct blocks_source *blocks_source(struct source *source)
{
	return (struct blocks_source *)source;
}

void blocks_wake_at(struct blocks_source *blocks, uint64_t at_ns)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (blocks->timer < 0 || (blocks->timer_ns && blocks->timer_ns <= at_ns))
		return;
	blocks->timer_ns = at_ns > now_ns ? at_ns : now_ns;
	loop_set_timer(blocks->context.loop, blocks->timer, at_ns > now_ns ? at_ns - now_ns : 1, 0);
	loop_set_slack(blocks->context.loop, blocks->timer, 0);
}

/* The recorder's own processes are never named as wakers. */
static void tell_own(struct blocks_source *blocks)
{
	struct helper helpers[LOOPER_OWN_PROCESSES];
	pid_t own[LOOPER_OWN_PROCESSES] = {getpid()};
	size_t count = warden_list(blocks->context.warden, helpers, LOOPER_OWN_PROCESSES), kept = 1;

	for (size_t i = 0; i < count && kept < LOOPER_OWN_PROCESSES; i++)
		if (helpers[i].pid)
			own[kept++] = helpers[i].pid;
	if (blocks->sampler && kept < LOOPER_OWN_PROCESSES)
		kept += blocks_sampler_workers(blocks->sampler, own + kept,
					       LOOPER_OWN_PROCESSES - kept);
	if (kept == blocks->own_count && !memcmp(own, blocks->own, kept * sizeof(*own)))
		return;
	memcpy(blocks->own, own, kept * sizeof(*own));
	blocks->own_count = kept;
	looper_kernel_set_own(blocks->kernel, own, kept);
}

static int look_around(struct blocks_source *blocks)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), next_ns = UINT64_MAX, idle_ns;
	int err;

	blocks->timer_ns = 0;
	/* Samples first: those of a period that has ended are its report's. */
	if (blocks->sampler) {
		blocks_sampler_take(blocks->sampler);
		blocks_sampler_check(blocks->sampler, blocks->rests, now_ns);
	}
	tell_own(blocks);
	err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
	if (!err)
		err = blocks_follow_targets(blocks);
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch) && !err; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (!watched)
			continue;
		blocks_tell_news(blocks, watched);
		if (watched->start.stage == WATCHED_RUNS)
			err = blocks_look_at(blocks, watched, now_ns, &next_ns);
		else
			blocks_start_watch(blocks, watched);
	}
	blocks_emit(blocks, false);
	blocks_frames_go_on(blocks);
	idle_ns = now_ns + blocks_idle_tick_ns(blocks, now_ns);
	if (next_ns < now_ns + BLOCKS_MIN_TICK_NS)
		next_ns = now_ns + BLOCKS_MIN_TICK_NS;
	blocks_wake_at(blocks, next_ns < idle_ns ? next_ns : idle_ns);
	/* Nothing is due then, so it may come with something else. */
	blocks->rests = blocks->timer_ns == idle_ns && idle_ns >= now_ns + REST_TICK_NS;
	if (blocks->rests) {
		loop_set_slack(blocks->context.loop, blocks->timer, REST_SLACK_NS);
		blocks->timer_ns += REST_SLACK_NS;
	}
	return err;
}

static int on_tick(void *ctx, uint32_t events)
{
	return look_around(ctx);
}

bool blocks_source_waits(struct source *source, pid_t pid, uint64_t start_boot_ns,
			 struct blocks_wait *wait)
{
	struct blocks_source *blocks = blocks_source(source);
	struct watched *watched = blocks->watch ? blocks_watch_find(blocks->watch, pid) : NULL;
	struct looper_slot slot;

	if (!watched || watched->start.stage != WATCHED_RUNS ||
	    watched->start_boot_ns != start_boot_ns ||
	    !looper_kernel_read(blocks->kernel, watched->index, &slot) || slot.on_cpu ||
	    slot.dead || slot.busy_since_ns || slot.off_state == OFF_CPU_RUNNABLE ||
	    slot.loop_kind == LOOPER_WAIT_NONE)
		return false;
	*wait = (struct blocks_wait){
		.tid = watched->tid,
		.since_mono_ns = slot.off_ns,
		.exact = slot.spell > watched->start.slot.spell,
	};
	return true;
}

struct looper_kernel *blocks_source_kernel(struct source *source)
{
	return blocks_source(source)->kernel;
}

const char *blocks_source_thread(struct source *source)
{
	return blocks_source(source)->options.thread;
}

/* ---- the source ---- */

static int open_stacks(struct blocks_source *blocks)
{
	static const enum stack_request requests[] = {STACK_AUTO, STACK_SNAPSHOT, STACK_PERF,
						      STACK_PTRACE};
	const struct blocks_sampler_config config = {
		.context = &blocks->context,
		.kernel = blocks->kernel,
		.binder = blocks->binder,
		.request = requests[blocks->options.stack % 4],
		.block_ns = blocks->context.block_ns,
		.on_sample = blocks_on_sample,
		.on_frame = blocks_on_frame_sample,
		.ctx = blocks,
	};

	/* It also finds the places for probes. */
	blocks->unwinder =
		unwinder_new(blocks->context.warden, blocks->context.probes, blocks->context.loop);
	if (!blocks->unwinder)
		return -errno;
	if (blocks->options.stack == BLOCKS_STACK_OFF)
		return 0;
	blocks->sampler = blocks_sampler_new(&config);
	if (!blocks->sampler) {
		blocks->base.state = SOURCE_DEGRADED;
		snprintf(blocks->base.reason, sizeof(blocks->base.reason), "no stacks: %s",
			 strerror(errno));
	}
	return 0;
}

static bool any_is_asked(const struct blocks_source *blocks)
{
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch); i++) {
		const struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (watched && (watched->start.stage <= WATCHED_ASKED ||
				blocks_place_pending(watched, clock_now_ns(CLOCK_MONOTONIC))))
			return true;
	}
	return false;
}

/* The header says which targets have no loop, so they are looked at before it is written; those
 * that do not answer in time are told later, as those that start later are. */
static int first_look(struct blocks_source *blocks)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + FIRST_LOOK_NS, now_ns;
	int err = blocks_follow_targets(blocks);

	while (!err && any_is_asked(blocks) && (now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns)
		err = loop_turn(blocks->context.loop, until_ns - now_ns);
	if (!err && !blocks->base.reason[0] && blocks->options.thread)
		blocks_explain_names(blocks, blocks->base.reason, sizeof(blocks->base.reason));
	if (!err && !blocks->base.reason[0])
		blocks_explain_loops(blocks, blocks->base.reason, sizeof(blocks->base.reason));
	return err;
}

static int blocks_open(struct source *source, const struct source_context *context)
{
	struct blocks_source *blocks = blocks_source(source);
	struct sched_kernel_loopers unused;
	char why[144];
	int err;

	blocks->context = *context;
	blocks->born_mono_ns = clock_now_ns(CLOCK_MONOTONIC);
	blocks->tick_ns = IDLE_TICK_NS;
	if (blocks->options.stack == BLOCKS_STACK_OFF && context->block_ns / 2 < IDLE_TICK_NS)
		blocks->tick_ns = context->block_ns / 2 > LEAST_TICK_NS ? context->block_ns / 2
									: LEAST_TICK_NS;
	blocks->sched = cpu_source_kernel(blocks->cpu);
	if (!blocks->sched) {
		snprintf(source->reason, sizeof(source->reason),
			 "blocks need the switch program, which could not be loaded");
		return -ENOTSUP;
	}
	if (sched_kernel_loopers(blocks->sched, &unused)) {
		snprintf(source->reason, sizeof(source->reason),
			 "blocks need the switch program: leave out --cpu iter");
		return -ENOTSUP;
	}
	blocks->kernel = looper_kernel_open(
		blocks->sched,
		&(struct looper_kernel_options){
			.detector = (enum looper_detector)blocks->options.detector,
			.btf_path = blocks->options.btf_path,
			.test_one_by_one = blocks->options.test_one_by_one,
		},
		source->reason, sizeof(source->reason));
	if (!blocks->kernel)
		return -errno;
	blocks->watch = blocks_watch_new(looper_kernel_count(blocks->kernel));
	if (!blocks->watch)
		return -ENOMEM;
	/* Without it the warden asks each process itself. */
	if (looper_kernel_fds(blocks->kernel).mm_locks >= 0)
		warden_set_lock_reader(blocks->context.warden,
				       looper_kernel_fds(blocks->kernel).mm_locks);
	err = looper_kernel_hook_wakeups(blocks->kernel);
	if (err) {
		source->state = SOURCE_DEGRADED;
		snprintf(source->reason, sizeof(source->reason), "no wakers: %s", strerror(-err));
	}
	if (blocks->options.stack != BLOCKS_STACK_OFF)
		looper_kernel_want_waker_stacks(blocks->kernel);
	blocks_open_binder(blocks, why, sizeof(why));
	if (why[0] && !source->reason[0]) {
		source->state = SOURCE_DEGRADED;
		snprintf(source->reason, sizeof(source->reason), "no callees: %s", why);
	}
	snprintf(blocks->variant, sizeof(blocks->variant), "%s",
		 blocks->options.detector
			 ? blocks_detector_name(blocks, (uint32_t)blocks->options.detector)
			 : looper_kernel_probe_name(blocks->kernel));
	source->variant = blocks->variant;
	err = open_stacks(blocks);
	if (!err)
		err = first_look(blocks);
	if (!err)
		err = loop_add_fd(context->loop, looper_kernel_events_fd(blocks->kernel), EPOLLIN,
				  on_tick, blocks);
	if (err)
		return err;
	blocks->timer = loop_add_timer(context->loop, BLOCKS_MIN_TICK_NS, 0, on_tick, blocks);
	return blocks->timer < 0 ? blocks->timer : 0;
}

/* Watched at once, because its process may be gone before the next look. */
static bool blocks_take_target(struct source *source, const struct target_process *process)
{
	struct blocks_source *blocks = blocks_source(source);
	struct watched *watched = blocks_watch_find(blocks->watch, process->pid);

	/* The pid was another's. An error shows with the next look. */
	if (watched && watched->start_boot_ns != process->start_boot_ns) {
		looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
		blocks_stop_watch(blocks, watched);
		watched = NULL;
	}
	if (!watched)
		blocks_start_watching(blocks, process);
	return blocks_watch_find(blocks->watch, process->pid) != NULL;
}

/* Its last period is looked for at once. */
static void blocks_drop_target(struct source *source)
{
	blocks_wake_at(blocks_source(source), 0);
}

static int blocks_sample(struct source *source, struct record_interval *interval)
{
	struct blocks_source *blocks = blocks_source(source);
	int err;

	/* Targets that are there from the start are watched while the source opens, and the header
	 * says how all sources opened. */
	blocks->begun = true;
	err = look_around(blocks);
	if (!err)
		blocks_add_losses(blocks, interval);
	if (blocks->unwinder)
		interval->self.unwinder_cache_bytes =
			SOME_U64(unwinder_cache_bytes(blocks->unwinder));
	if (blocks->binder)
		binder_kernel_sweep(blocks->binder, clock_now_ns(CLOCK_MONOTONIC));
	return err;
}

/* The last interval was before the last stacks: what was lost since is the run's. */
static int add_last_losses(struct blocks_source *blocks, struct summary *summary)
{
	struct record_interval rest = {0};
	int err;

	blocks_add_losses(blocks, &rest);
	err = summary_add_losses(summary, &rest.lost);
	counter_list_free(&rest.lost);
	return err;
}

/* All samples that were taken are with the unwinder's answers, or will not be. */
static bool is_settled(const struct blocks_source *blocks)
{
	return block_reports_settled(&blocks->reports) && blocks_frames_settled(blocks) &&
	       (!blocks->unwinder || unwinder_idle(blocks->unwinder)) &&
	       (!blocks->sampler || blocks_sampler_answered(blocks->sampler));
}

static bool is_left_unproved(const struct blocks_source *blocks, const struct watched *watched)
{
	return watched->period.tracking && watched->period.unproved &&
	       clock_now_ns(CLOCK_MONOTONIC) - watched->period.begin_ns >= blocks->context.block_ns;
}

/* What blocks still when the run ends is told as far as it went, and its stacks are waited for, for
 * a time that leaves the rest of the second that a run may take to end. */
static int blocks_summarise(struct source *source, struct summary *summary)
{
	struct blocks_source *blocks = blocks_source(source);
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + DRAIN_NS, now_ns, unused_ns = 0;
	int err;

	if (blocks->sampler)
		blocks_sampler_take(blocks->sampler);
	err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch) && !err; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);
		struct looper_slot slot;
		bool told_open = watched && watched->period.reported_open;

		if (watched)
			blocks_tell_start(blocks, watched);
		/* The last look may be long ago. */
		if (watched && watched->start.stage == WATCHED_RUNS)
			err = blocks_look_at(blocks, watched, clock_now_ns(CLOCK_MONOTONIC),
					     &unused_ns);
		blocks->unproved += watched && is_left_unproved(blocks, watched);
		if (!err && told_open && watched->period.tracking && !watched->period.unproved &&
		    watched->period.reported_open && looper_kernel_read(blocks->kernel, i, &slot) &&
		    slot.busy_since_ns && slot.periods == watched->period.number)
			err = blocks_report_open(blocks, watched, &slot,
						 clock_now_ns(CLOCK_MONOTONIC));
	}
	if (blocks->sampler)
		blocks_sampler_ask(blocks->sampler);
	while (!err && !is_settled(blocks) && (now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns)
		err = loop_turn(blocks->context.loop, until_ns - now_ns);
	blocks_emit(blocks, true);
	if (!err)
		err = add_last_losses(blocks, summary);
	blocks_set_totals(blocks, summary);
	return err;
}

static void blocks_close(struct source *source)
{
	struct blocks_source *blocks = blocks_source(source);

	if (!source)
		return;
	for (uint32_t i = 0; blocks->watch && i < blocks_watch_room(blocks->watch); i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (watched)
			blocks_stop_watch(blocks, watched);
	}
	if (blocks->kernel && blocks->context.loop)
		loop_remove_fd(blocks->context.loop, looper_kernel_events_fd(blocks->kernel));
	blocks_frames_free(blocks);
	blocks_sampler_free(blocks->sampler);
	block_reports_free(&blocks->reports);
	unwinder_free(blocks->unwinder);
	blocks_watch_free(blocks->watch);
	binder_kernel_close(blocks->binder);
	looper_kernel_close(blocks->kernel);
	counter_list_free(&blocks->stack_losses);
	free(blocks);
}

static void blocks_thin(struct source *source, unsigned steps)
{
	blocks_source(source)->thinned = steps & THIN_STACKS;
}

static const struct source_ops blocks_ops = {
	.name = "blocks",
	.losses = &blocks_losses,
	.open = blocks_open,
	.sample = blocks_sample,
	.take_target = blocks_take_target,
	.drop_target = blocks_drop_target,
	.summarise = blocks_summarise,
	.thin = blocks_thin,
	.close = blocks_close,
};

struct source *blocks_source_new(const struct blocks_options *options, struct source *cpu)
{
	struct blocks_source *blocks = calloc(1, sizeof(*blocks));

	if (!blocks)
		return NULL;
	blocks->base.ops = &blocks_ops;
	blocks->options = *options;
	blocks->cpu = cpu;
	blocks->timer = -1;
	block_reports_init(&blocks->reports);
	return &blocks->base;
}
