/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes in: events of the kernel side, samples of the sampler process, traces of the unwinder.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "source/blocks/source.h"

#define TICK_OF_BOOT_NS 10000000ull
#define MANY_NS         (5 * NSEC_PER_MSEC)

struct watched_load blocks_load_now(const struct blocks_source *blocks, pid_t pid)
{
	struct watched_load load = {.mono_ns = clock_now_ns(CLOCK_MONOTONIC)};
	uint64_t cpu_ns;

	load.idle_ns = SOME_U64(sched_kernel_idle_now_ns(blocks->sched));
	if (clock_process_cpu_ns(pid, &cpu_ns))
		load.cpu_ns = SOME_U64(cpu_ns);
	return load;
}

/* ---- periods ---- */

void blocks_begin_period(struct blocks_source *blocks, struct watched *watched, uint64_t number,
			 uint64_t begin_ns)
{
	if (!watched->period.tracking || watched->period.number != number) {
		blocks_watch_end_period(watched);
		watched->period.tracking = true;
		watched->period.number = number;
		watched->period.begin_ns = 0;
		watched->period.boot_minus_mono_ns = blocks_boot_minus_mono_ns();
		watched->period.load = (struct watched_load){0};
		watched->period.reported_open = watched->period.reported_anr = false;
	}
	if (!watched->period.begin_ns)
		watched->period.begin_ns = begin_ns;
}

/* ---- events ---- */

/* Its loop was found, or is another one now. */
static void on_loop(struct blocks_source *blocks, struct watched *watched,
		    const struct looper_loop_event *event)
{
	struct looper_slot slot;

	/* The period in which a nested loop took the place of the outer one, or another program
	 * began, is none. */
	if ((event->how == LOOPER_LOOP_ADOPTED || event->how == LOOPER_LOOP_CLOSED ||
	     event->how == LOOPER_LOOP_EXEC) &&
	    watched->period.tracking && watched->period.number <= event->head.period)
		blocks_watch_end_period(watched);
	if (event->how == LOOPER_LOOP_EXEC)
		blocks_start_over(blocks, watched);
	else if (looper_kernel_read(blocks->kernel, watched->index, &slot))
		blocks_follow_loop(blocks, watched, &slot);
}

int blocks_on_event(void *ctx, const struct looper_event *event, size_t size)
{
	struct blocks_source *blocks = ctx;
	struct watched *watched = blocks_watch_at(blocks->watch, event->index);
	const struct looper_period_event *period = (const struct looper_period_event *)event;

	if (!watched || watched->slot_id != event->slot_id)
		return 0;
	switch (event->type) {
	case LOOPER_EVENT_PERIOD:
		if (size < sizeof(*period))
			return 0;
		return blocks_report(
			blocks, watched, period,
			period->flags & LOOPER_EVENT_EXITED ? BLOCK_EXITED : BLOCK_CLOSED, 0, 0);
	case LOOPER_EVENT_SPELL:
		if (size < sizeof(struct looper_spell_event))
			return 0;
		/* Of the period that is followed, or of one that was not met yet. One that is older
		 * has ended without a report, or that comes without what it slept for. */
		if (watched->period.tracking && watched->period.number > event->period)
			return 0;
		blocks_begin_period(blocks, watched, event->period, 0);
		return block_spells_add(&watched->period.spells,
					(const struct looper_spell_event *)event);
	case LOOPER_EVENT_WAKER:
		if (size >= sizeof(struct looper_waker_event))
			blocks_on_waker(blocks, watched, event, size);
		return 0;
	case LOOPER_EVENT_LOOP:
		if (size >= sizeof(struct looper_loop_event))
			on_loop(blocks, watched, (const struct looper_loop_event *)event);
		return 0;
	}
	return 0;
}

/* ---- samples ---- */

static const char *why_lost(int err)
{
	switch (err) {
	case -EDQUOT:
		return "stacks of its process took the unwinder too long";
	case -EBUSY:
		return "too many stacks waited for the unwinder";
	case -ENOMEM:
		return "no memory to unwind it";
	default:
		return "the unwinder gave it up";
	}
}

static void on_unwound(void *ctx, int err, struct unwound *trace)
{
	struct block_sample *sample = ctx;

	sample->trace = trace;
	sample->state = trace && trace->count ? SAMPLE_UNWOUND : SAMPLE_LOST;
	sample->why_lost = trace ? "unwinding gave no frame" : why_lost(err);
	/* The timer of the blocks source emits the record that waits for this sample: fire it now.
	 */
	if (sample->blocks)
		blocks_wake_at(sample->blocks,
			       sample->many ? clock_now_ns(CLOCK_MONOTONIC) + MANY_NS : 0);
	block_sample_put(sample);
}

/* Its block was dropped, or told long ago: unwinding it would only hold up those behind it. */
static void on_forsaken(struct block_sample *sample)
{
	unwinder_cancel(sample->blocks->unwinder, sample);
	sample->state = SAMPLE_LOST;
	sample->why_lost = "its block was told before it was unwound";
	block_sample_put(sample); /* the job's reference */
}

void blocks_unwind(struct blocks_source *blocks, struct block_sample *sample,
		   struct stack_capture *capture)
{
	int err;

	sample->blocks = blocks;
	sample->forsaken = on_forsaken;
	block_sample_hold(sample); /* the job's */
	err = unwinder_push(blocks->unwinder, capture, on_unwound, sample);
	if (!err)
		return;
	sample->state = SAMPLE_LOST;
	sample->why_lost = why_lost(err);
	block_sample_put(sample);
}

struct stack_capture *blocks_capture(const struct sampler_sample *from, uint64_t start_boot_ns,
				     const uint8_t *stack, const char *text)
{
	struct stack_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return NULL;
	capture->stack = malloc(from->stack_bytes ? from->stack_bytes : 1);
	if (!capture->stack) {
		free(capture);
		return NULL;
	}
	memcpy(capture->stack, stack, from->stack_bytes);
	capture->stack_bytes = capture->stack_room = from->stack_bytes;
	capture->thread = (struct stack_thread){
		.pid = from->pid,
		.tid = from->tid,
		.pidfd = -1,
		.start_boot_ns = start_boot_ns,
	};
	capture->kind = (enum capture_kind)from->kind;
	capture->failure = (enum stack_failure)from->failure;
	capture->t_boot_ns = from->t_boot_ns;
	capture->registers = from->registers;
	capture->stack_base = from->stack_base;
	capture->sequence = from->sequence;
	capture->state = from->state;
	memcpy(capture->wchan, from->wchan, sizeof(from->wchan));
	for (size_t at = 0; at < from->text_bytes; at += strlen(text + at) + 1) {
		if (capture->kernel_frame_count == STACK_KERNEL_FRAMES)
			break;
		capture->kernel_frames[capture->kernel_frame_count] = strdup(text + at);
		if (!capture->kernel_frames[capture->kernel_frame_count])
			break;
		capture->kernel_frame_count++;
	}
	return capture;
}

static struct block_sample *make_sample(struct blocks_source *blocks, const struct watched *watched,
					const struct sampler_sample *from, const uint8_t *stack,
					const char *text)
{
	struct block_sample *sample = block_sample_new();
	/* A thread that is waited for may be of another process. */
	struct stack_capture *capture = blocks_capture(
		from,
		from->pid == watched->pid ? watched->start_boot_ns : from->process_start_boot_ns,
		stack, text);

	if (!sample || !capture) {
		stack_capture_free(capture);
		block_sample_put(sample);
		return NULL;
	}
	sample->t_ns = from->t_ns;
	sample->spell = from->spell;
	sample->owner = from->owner;
	sample->walk_ns = from->walk_ns;
	sample->t_boot_ns = from->t_boot_ns;
	sample->kind = (enum capture_kind)from->kind;
	blocks_unwind(blocks, sample, capture);
	return sample;
}

/* The sampler looks at whom the thread waits for in another sleep than at its last look. */
static bool is_next_sleep(const struct watched *watched, const struct sampler_sample *from)
{
	return from->owner == 1 && watched->period.chain.walk_ns &&
	       watched->period.chain.spell != from->spell;
}

/* The chain of the sleep before is kept where that was the longest one so far: a thread that got
 * its lock often waits a moment more, for another one or for the end of the thread that had it. */
static void keep_chain(struct watched *watched)
{
	if (block_chain_outlasts(&watched->period.chain, &watched->period.chain_before,
				 &watched->period.spells))
		watched->period.chain_before = watched->period.chain;
}

void blocks_on_sample(void *ctx, const struct sampler_sample *from, const uint8_t *stack,
		      const char *text)
{
	struct blocks_source *blocks = ctx;
	struct watched *watched = blocks_watch_at(blocks->watch, from->index);
	struct block_sample *sample;

	if (!watched || watched->slot_id != from->slot_id || from->kind > CAPTURE_KERNEL ||
	    from->failure >= STACK_FAILURES || blocks->thinned)
		return;
	/* What the kernel side told of the periods before is in the ring by now, but was perhaps
	 * not read yet: to begin another one would drop a period that is followed with its samples,
	 * and the spells of an older one would drop this sample. So is the end of the sleep that
	 * the last chain is of. A ring that cannot be read says so when the loop reads it. */
	if (watched->period.number < from->period || is_next_sleep(watched, from)) {
		looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
		watched = blocks_watch_at(blocks->watch, from->index);
		if (!watched || watched->slot_id != from->slot_id)
			return;
	}
	/* The period is over and told, or another one was met already. */
	if (watched->period.tracking ? watched->period.number > from->period
				     : watched->period.number >= from->period) {
		if (from->owner)
			block_reports_late_owner(&blocks->reports, from);
		if (!from->taken) {
			if (!from->owner)
				block_reports_late_failure(&blocks->reports, from->slot_id,
							   from->period,
							   (enum stack_failure)from->failure);
			return;
		}
		sample = make_sample(blocks, watched, from, stack, text);
		if (sample && !block_reports_late_sample(&blocks->reports, from->slot_id,
							 from->period, sample))
			blocks->samples_late++;
		return;
	}
	blocks_begin_period(blocks, watched, from->period, 0);
	blocks_wake_at(blocks, 0);
	if (!watched->period.load.mono_ns) {
		watched->period.load = blocks_load_now(blocks, watched->pid);
		if (from->app_rss_bytes)
			watched->period.load.rss_bytes = SOME_U64(from->app_rss_bytes);
	}
	if (is_next_sleep(watched, from))
		keep_chain(watched);
	if (from->owner)
		block_chain_take(&watched->period.chain, from);
	watched->period.failed += !from->taken && !from->owner;
	if (!from->taken && !from->owner)
		watched->period.failure = (enum stack_failure)from->failure;
	if (!from->taken)
		return;
	if (!watched->period.samples.count)
		unwinder_prime(blocks->unwinder, watched->pid,
			       watched->start_boot_ns / TICK_OF_BOOT_NS);
	sample = make_sample(blocks, watched, from, stack, text);
	if (sample)
		block_samples_add(&watched->period.samples, sample);
}
