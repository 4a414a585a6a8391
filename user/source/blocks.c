/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks_source.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "core/loop.h"
#include "core/summary.h"
#include "jankscope/target.h"
#include "source/blocks_stacks.h"
#include "source/blocks_watch.h"
#include "source/cpu.h"
#include "util/bounded_call.h"
#include "source/wait_stub.h"
#include "util/clock.h"

/* How often targets are compared with what is watched, when nothing else is due. */
#define IDLE_TICK_NS (200 * NSEC_PER_MSEC)
/* How often it is asked for a watch whose start is held up. */
#define STARTING_TICK_NS (20 * NSEC_PER_MSEC)
/* Samples are due at a time, on a machine that may be overloaded: that is when blocks happen. */
#define LOOP_NICENESS (-20)
#define DRAIN_NS      (800 * NSEC_PER_MSEC)

static struct blocks_source *blocks_source(struct source *source)
{
	return (struct blocks_source *)source;
}

/* ---- who is watched ---- */

static void tell_degraded(struct blocks_source *blocks, const struct watched *watched,
			  const char *why)
{
	struct record_event event = {
		.event = "degraded",
		.keys = {{"pid", NULL, watched->pid},
			 {"source", "blocks", 0},
			 {"detector", blocks_detector_name(blocks, watched->detector), 0},
			 {"reason", why, 0}},
		.key_count = 4,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	blocks->context.emit(blocks->context.emit_ctx, &record);
}

/* ---- starting a watch ---- */

enum probe_job_owner { PROBE_AWAITED, PROBE_DONE, PROBE_ABANDONED };

/* Reading its maps and putting the probes in. Both wait for its mmap_lock, and a probe for grace
 * periods of RCU: what takes longer than a bounded call goes on, and is looked for later. */
struct probe_job {
	struct looper_kernel *kernel;
	pid_t pid;
	struct looper_probes *probes;
	int err;
	_Atomic int owner; /* enum probe_job_owner: whoever comes second frees it or takes it */
};

static void run_probe(void *ctx)
{
	struct probe_job *job = ctx;
	struct looper_place places[2 * WAIT_STUB_MAX];
	struct wait_stub stub;
	size_t count = 0;

	job->err = wait_stub_find(job->pid, &stub);
	if (job->err)
		return;
	for (size_t i = 0; i < stub.leave_count; i++)
		places[count++] = (struct looper_place){stub.leave[i], LOOPER_PROBE_LEAVE};
	for (size_t i = 0; i < stub.enter_count; i++)
		places[count++] = (struct looper_place){stub.enter[i], LOOPER_PROBE_EPOLL};
	job->probes = looper_kernel_probe(job->kernel, job->pid, stub.path, places, count);
	if (!job->probes)
		job->err = -errno;
}

static void free_probe(struct probe_job *job)
{
	looper_probes_free(job->probes);
	free(job);
}

static void leave_probe(void *ctx)
{
	struct probe_job *job = ctx;

	if (atomic_exchange(&job->owner, PROBE_DONE) == PROBE_ABANDONED)
		free_probe(job);
}

static void abandon_probe(struct watched *watched)
{
	struct probe_job *job = watched->probing;

	watched->probing = NULL;
	if (job && atomic_exchange(&job->owner, PROBE_ABANDONED) == PROBE_DONE)
		free_probe(job);
}

static bool is_held_up(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY;
}

/* 0 with watched->probes, or why not; -ETIMEDOUT or -EBUSY: to be asked again. */
static int probe(struct blocks_source *blocks, struct watched *watched)
{
	struct probe_job *job = watched->probing;
	int err;

	if (!job) {
		job = calloc(1, sizeof(*job));
		if (!job)
			return -ENOMEM;
		job->kernel = blocks->kernel;
		job->pid = watched->pid;
		err = bounded_call(blocks->context.calls, watched->pid, run_probe, leave_probe,
				   job);
		if (err == -ETIMEDOUT) {
			watched->probing = job;
			return err;
		}
		if (err) {
			free(job);
			return err;
		}
	} else if (atomic_load(&job->owner) != PROBE_DONE) {
		return -ETIMEDOUT;
	}
	watched->probing = NULL;
	watched->probes = job->probes;
	err = job->err;
	free(job);
	/* The probe's own error is an answer: it is not to be asked again. */
	return is_held_up(err) ? -EIO : err;
}

/* Down the ladder of detectors for one process. 0, or -ETIMEDOUT or -EBUSY as probe(). */
static int choose_detector(struct blocks_source *blocks, struct watched *watched)
{
	int err;

	if (watched->detector && watched->detector != LOOPER_BY_UPROBE)
		return 0;
	if (watched->probes)
		return 0;
	watched->detector = LOOPER_BY_UPROBE;
	err = probe(blocks, watched);
	if (!err || is_held_up(err))
		return err;
	watched->detector = LOOPER_BY_SWITCH;
	if (!blocks->options.detector && !looper_kernel_hook_syscalls(blocks->kernel))
		watched->detector = LOOPER_BY_SYSCALL;
	snprintf(watched->degraded, sizeof(watched->degraded), "no uprobe: %s",
		 err == -ENOENT ? "its epoll stub was not found" : strerror(-err));
	return 0;
}

static void stop_watching(struct blocks_source *blocks, struct watched *watched)
{
	abandon_probe(watched);
	blocks_drop_samples(blocks, watched);
	blocks_watch_remove(blocks->watch, watched, blocks->kernel);
}

/* Go on with what was held up so far. */
static int go_on_starting(struct blocks_source *blocks, struct watched *watched)
{
	int err = choose_detector(blocks, watched);

	if (!err)
		err = blocks_watch_start(blocks->watch, watched, blocks->kernel,
					 blocks->context.block_ns);
	if (is_held_up(err))
		return 0;
	if (err) {
		/* It died meanwhile; the next scan says so. */
		stop_watching(blocks, watched);
		return err == -ENOMEM ? err : 0;
	}
	watched->starting = false;
	if (watched->degraded[0] && blocks->options.detector != LOOPER_BY_SWITCH)
		tell_degraded(blocks, watched, watched->degraded);
	return 0;
}

static int start_watching(struct blocks_source *blocks, const struct target_process *process)
{
	struct watched *watched = blocks_watch_add(blocks->watch, process);

	if (!watched) {
		blocks->unwatched_now += errno == ENOSPC;
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	watched->detector = (uint32_t)blocks->options.detector;
	if (wait_is_32_bit(watched->pid)) {
		/* Its system calls have other numbers, its stack other words. */
		watched->unwatchable = true;
		tell_degraded(blocks, watched, "32-bit programs are not watched");
		return 0;
	}
	watched->starting = true;
	return go_on_starting(blocks, watched);
}

/* What the set of targets says now, against what is watched. */
static int follow_targets(struct blocks_source *blocks)
{
	const struct target_process *process;
	int err = 0;

	blocks->unwatched_now = 0;
	for (uint32_t i = 0; i < BLOCKS_MAX_WATCHED; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (!watched)
			continue;
		process = target_set_find(blocks->context.targets, watched->pid);
		if (process && process->start_boot_ns == watched->start_boot_ns)
			continue;
		/* Its last period came through the ring when it died. */
		stop_watching(blocks, watched);
	}
	for (size_t n = 0; !err && (process = target_set_at(blocks->context.targets, n)); n++)
		if (!blocks_watch_find(blocks->watch, process->pid))
			err = start_watching(blocks, process);
	if (blocks->unwatched_now > blocks->unwatched)
		blocks->unwatched = blocks->unwatched_now;
	return err;
}

static int look_around(struct blocks_source *blocks)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), next_ns = now_ns + IDLE_TICK_NS;
	int err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);

	if (!err)
		err = looper_kernel_wakes(blocks->kernel, blocks_on_event, blocks);
	if (!err)
		err = follow_targets(blocks);
	for (uint32_t i = 0; i < BLOCKS_MAX_WATCHED && !err; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (watched && watched->starting) {
			err = go_on_starting(blocks, watched);
			next_ns = now_ns + STARTING_TICK_NS < next_ns ? now_ns + STARTING_TICK_NS
								      : next_ns;
		} else if (watched && !watched->unwatchable) {
			err = blocks_look_at(blocks, watched, now_ns, &next_ns);
		}
	}
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	loop_set_timer(
		blocks->timer,
		next_ns > now_ns + BLOCKS_MIN_TICK_NS ? next_ns - now_ns : BLOCKS_MIN_TICK_NS, 0);
	return err;
}

static int on_tick(void *ctx, uint32_t events)
{
	return look_around(ctx);
}

static int index_of(void *ctx, pid_t tid)
{
	struct blocks_source *blocks = ctx;
	struct watched *watched = blocks_watch_find(blocks->watch, tid);

	return watched ? (int)watched->index : -1;
}

/* ---- the source ---- */

static int open_stacks(struct blocks_source *blocks)
{
	static const enum stack_request requests[] = {STACK_AUTO, STACK_SNAPSHOT, STACK_PERF,
						      STACK_PTRACE};

	if (blocks->options.stack == BLOCKS_STACK_OFF)
		return 0;
	blocks->stacks = blocks_stacks_new(blocks->kernel, requests[blocks->options.stack],
					   blocks->context.calls, index_of, blocks);
	if (!blocks->stacks) {
		blocks->base.state = SOURCE_DEGRADED;
		snprintf(blocks->base.reason, sizeof(blocks->base.reason), "no stacks: %s",
			 strerror(errno));
		return 0;
	}
	return loop_add_fd(blocks->context.loop, blocks_stacks_fd(blocks->stacks), EPOLLIN,
			   blocks_on_reports, blocks);
}

static int blocks_open(struct source *source, const struct source_context *context)
{
	struct blocks_source *blocks = blocks_source(source);
	struct sched_kernel_loopers unused;
	int err;

	blocks->context = *context;
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
	blocks->watch = blocks_watch_new(context->calls);
	if (!blocks->watch)
		return -ENOMEM;
	err = looper_kernel_hook_wakeups(blocks->kernel);
	if (err) {
		source->state = SOURCE_DEGRADED;
		snprintf(source->reason, sizeof(source->reason), "no wakers: %s", strerror(-err));
	}
	snprintf(blocks->variant, sizeof(blocks->variant), "%s",
		 blocks->options.detector
			 ? blocks_detector_name(blocks, (uint32_t)blocks->options.detector)
			 : looper_kernel_probe_name(blocks->kernel));
	source->variant = blocks->variant;
	/* Only the loop's thread; the unwinding thread has its own. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), LOOP_NICENESS);
	err = open_stacks(blocks);
	if (!err)
		err = loop_add_fd(context->loop, looper_kernel_events_fd(blocks->kernel), EPOLLIN,
				  on_tick, blocks);
	if (!err)
		err = loop_add_fd(context->loop, looper_kernel_wakes_fd(blocks->kernel), EPOLLIN,
				  on_tick, blocks);
	if (err)
		return err;
	blocks->timer = loop_add_timer(context->loop, BLOCKS_MIN_TICK_NS, 0, on_tick, blocks);
	return blocks->timer < 0 ? blocks->timer : 0;
}

static void add_delta(struct counter_list *lost, const char *name, uint64_t now, uint64_t *before)
{
	if (now > *before)
		counter_list_add(lost, name, now - *before);
	*before = now;
}

static void add_losses(struct blocks_source *blocks, struct record_interval *interval)
{
	struct counter_list *lost = &interval->lost;
	uint64_t losses[LOOPER_LOSS_MAX];
	struct counter_list now = {0};
	struct stack_stats stats;

	if (!looper_kernel_losses(blocks->kernel, losses)) {
		add_delta(lost, "blocks_event_ring_full", losses[LOOPER_LOSS_EVENT_RING_FULL],
			  &blocks->losses[LOOPER_LOSS_EVENT_RING_FULL]);
		add_delta(lost, "blocks_missed_entry", losses[LOOPER_LOSS_MISSED_ENTRY],
			  &blocks->losses[LOOPER_LOSS_MISSED_ENTRY]);
		add_delta(lost, "blocks_missed_switches", losses[LOOPER_LOSS_MISSED_SWITCH],
			  &blocks->losses[LOOPER_LOSS_MISSED_SWITCH]);
	}
	add_delta(lost, "blocks_not_watched", blocks->unwatched, &blocks->unwatched_told);
	if (!blocks->stacks)
		return;
	add_delta(lost, "stacks_not_unwound", blocks_stacks_busy(blocks->stacks),
		  &blocks->stacks_busy);
	blocks_stacks_stats(blocks->stacks, &stats);
	interval->self.stops += stats.stops - blocks->seen.stops;
	if (stats.stops > blocks->seen.stops && stats.stop_max_ns > interval->self.stop_max_ns)
		interval->self.stop_max_ns = stats.stop_max_ns;
	blocks->seen = stats;
	if (!blocks_stacks_losses(blocks->stacks, &now)) {
		for (size_t i = 0; i < now.count; i++) {
			const char *name = now.items[i].name;
			uint64_t before = counter_list_get(&blocks->stack_losses, name);

			counter_list_add(lost, name, now.items[i].value - before);
		}
		counter_list_free(&blocks->stack_losses);
		blocks->stack_losses = now;
	}
}

static int blocks_sample(struct source *source, struct record_interval *interval)
{
	struct blocks_source *blocks = blocks_source(source);
	int err = look_around(blocks);

	if (!err)
		add_losses(blocks, interval);
	return err;
}

static void set(struct summary *summary, const char *key, uint64_t value)
{
	summary_set_total(summary, key, (double)value);
}

/* What blocks still when the run ends is told as far as it went, and all stacks are waited for. */
static int blocks_summarise(struct source *source, struct summary *summary)
{
	struct blocks_source *blocks = blocks_source(source);
	struct stack_stats stats;
	int err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);

	for (uint32_t i = 0; i < BLOCKS_MAX_WATCHED && !err; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);
		struct looper_slot slot;

		if (watched && watched->tracking && watched->reported_open &&
		    looper_kernel_read(blocks->kernel, i, &slot) && slot.busy_since_ns &&
		    slot.periods == watched->period)
			err = blocks_report_open(blocks, watched, &slot,
						 clock_now_ns(CLOCK_MONOTONIC));
	}
	if (!blocks->stacks)
		return err;
	blocks_stacks_drain(blocks->stacks, DRAIN_NS);
	blocks_on_reports(blocks, 0);
	blocks_stacks_stats(blocks->stacks, &stats);
	set(summary, "captures.snapshot", stats.captures[CAPTURE_SNAPSHOT]);
	set(summary, "captures.perf", stats.captures[CAPTURE_PERF]);
	set(summary, "captures.ptrace", stats.captures[CAPTURE_PTRACE]);
	set(summary, "captures.kernel", stats.captures[CAPTURE_KERNEL]);
	set(summary, "captures.stops", stats.stops);
	set(summary, "captures.stop_p50_ns", stats.stop_p50_ns);
	set(summary, "captures.stop_p99_ns", stats.stop_p99_ns);
	set(summary, "captures.stop_max_ns", stats.stop_max_ns);
	set(summary, "captures.eintr_risk", stats.eintr_risk);
	set(summary, "captures.workers_replaced", stats.workers_replaced);
	return err;
}

static void blocks_close(struct source *source)
{
	struct blocks_source *blocks = blocks_source(source);

	if (!source)
		return;
	for (uint32_t i = 0; blocks->watch && i < BLOCKS_MAX_WATCHED; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (watched)
			stop_watching(blocks, watched);
	}
	if (blocks->kernel && blocks->context.loop) {
		loop_remove_fd(blocks->context.loop, looper_kernel_events_fd(blocks->kernel));
		loop_remove_fd(blocks->context.loop, looper_kernel_wakes_fd(blocks->kernel));
	}
	if (blocks->stacks && blocks->context.loop)
		loop_remove_fd(blocks->context.loop, blocks_stacks_fd(blocks->stacks));
	blocks_stacks_free(blocks->stacks);
	blocks_watch_free(blocks->watch);
	/* A probe that is held up still is the kernel's, until the process ends. */
	if (!bounded_calls_held_up(blocks->context.calls))
		looper_kernel_close(blocks->kernel);
	counter_list_free(&blocks->stack_losses);
	free(blocks);
}

static const struct source_ops blocks_ops = {
	.name = "blocks",
	.open = blocks_open,
	.sample = blocks_sample,
	.summarise = blocks_summarise,
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
	return &blocks->base;
}
