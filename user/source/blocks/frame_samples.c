/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/frame_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/flight_kernel.h"
#include "source/blocks/frame_story.h"

/* What is kept: frames are told some seconds late, and the flight recorder has ten. */
#define KEPT       1024
#define KEPT_BYTES (6u << 20)
#define KEPT_NS    (15 * NSEC_PER_SEC)
#define PRIME_NS   (2 * NSEC_PER_SEC)
/* Given to the unwinder at a time: it has room for other captures besides. */
#define PUSHED_BYTES (1u << 20)

struct frame_samples {
	struct blocks_source *blocks;
	int fds[2];
	struct sampler_frames how;
	void (*news)(void *ctx);
	void *news_ctx;
	struct frame_sample *kept[KEPT]; /* a ring, in the order in which they came */
	size_t first, count, bytes;
	struct frame_story *stories; /* oldest first */
	uint64_t gone_ns;            /* samples up to then had to make room, CLOCK_BOOTTIME */
	pid_t primed_pid;            /* whose maps were asked for last, and when */
	uint64_t primed_ns;
	struct frame_samples_counts counts;
};

static struct blocks_source *blocks_source(struct source *source)
{
	return (struct blocks_source *)source;
}

static void put_sample(struct frame_sample *sample)
{
	if (--sample->references)
		return;
	stack_capture_free(sample->capture);
	block_sample_put(sample->stack);
	free(sample);
}

static void drop_first(struct frame_samples *frames)
{
	struct frame_sample *sample = frames->kept[frames->first];

	frames->bytes -= sample->bytes;
	frames->first = (frames->first + 1) % KEPT;
	frames->count--;
	put_sample(sample);
}

static void make_room(struct frame_samples *frames, uint64_t now_ns, size_t bytes)
{
	while (frames->count) {
		const struct frame_sample *oldest = frames->kept[frames->first];
		bool crowded = frames->count == KEPT || frames->bytes + bytes > KEPT_BYTES;

		if (!crowded && now_ns - oldest->at_ns < KEPT_NS)
			return;
		if (crowded)
			frames->gone_ns = oldest->at_ns;
		drop_first(frames);
	}
}

static void keep(struct frame_samples *frames, struct frame_sample *sample)
{
	make_room(frames, clock_now_ns(CLOCK_BOOTTIME), sample->bytes);
	frames->kept[(frames->first + frames->count++) % KEPT] = sample;
	frames->bytes += sample->bytes;
}

/* Its process may end before its frame is told. */
static void prime(struct frame_samples *frames, const struct frame_sample *sample)
{
	const struct stack_thread *thread = &sample->capture->thread;

	if (frames->primed_pid == thread->pid && sample->at_ns < frames->primed_ns + PRIME_NS)
		return;
	frames->primed_pid = thread->pid;
	frames->primed_ns = sample->at_ns;
	unwinder_prime(frames->blocks->unwinder, thread->pid, thread->start_boot_ns / 10000000);
}

void blocks_on_frame_sample(void *ctx, const struct sampler_sample *from, const uint8_t *stack,
			    const char *text)
{
	struct blocks_source *blocks = ctx;
	struct frame_samples *frames = blocks->frames;
	const struct sampler_frame_watch *watch = blocks_sampler_frame_of(blocks->sampler, from);
	uint64_t boot_minus_mono_ns = (uint64_t)blocks_boot_minus_mono_ns();
	const struct target_process *process;
	struct frame_sample *sample;

	if (!frames || !watch || from->kind > CAPTURE_KERNEL || from->failure >= STACK_FAILURES ||
	    blocks->thinned)
		return;
	sample = calloc(1, sizeof(*sample));
	if (!sample) {
		frames->counts.unkept++;
		return;
	}
	sample->references = 1;
	sample->pid = watch->pid;
	sample->tid = watch->tid;
	sample->from = *from;
	sample->at_ns = from->owner                      ? from->walk_ns + boot_minus_mono_ns
			: from->taken && from->t_boot_ns ? from->t_boot_ns
							 : from->t_ns + boot_minus_mono_ns;
	sample->bytes = sizeof(*sample) + from->stack_bytes;
	process = target_set_find(blocks->context.targets, from->pid);
	if (from->taken) {
		sample->stack = block_sample_new();
		sample->capture = blocks_capture(
			from, process ? process->start_boot_ns : from->process_start_boot_ns, stack,
			text);
	}
	if (from->taken && (!sample->stack || !sample->capture)) {
		frames->counts.unkept++;
		put_sample(sample);
		return;
	}
	if (sample->stack) {
		sample->stack->many = true;
		sample->stack->t_ns = from->t_ns;
		sample->stack->spell = from->spell;
		sample->stack->owner = from->owner;
		sample->stack->walk_ns = from->walk_ns;
		sample->stack->t_boot_ns = from->t_boot_ns;
		sample->stack->kind = (enum capture_kind)from->kind;
		prime(frames, sample);
	}
	frames->counts.taken += from->taken && !from->owner;
	keep(frames, sample);
}

static bool is_of(const struct frame_sample *sample, pid_t pid, uint64_t from_ns, uint64_t to_ns)
{
	return sample->pid == pid && sample->at_ns >= from_ns && sample->at_ns < to_ns;
}

/* A capture of a thread of the frame was tried; false: it tells whom that waited for. */
static bool is_own(const struct frame_sample *sample)
{
	return !sample->from.owner;
}

/* ---- what is asked for ---- */

bool frame_samples_begin(struct source *source, const struct flight_fds *fds, uint64_t step_ns,
			 uint64_t period_ns)
{
	struct blocks_source *blocks = blocks_source(source);
	struct frame_samples *frames;

	errno = 0;
	if (!blocks->sampler || blocks->frames)
		return false;
	frames = blocks->frames = calloc(1, sizeof(*frames));
	if (!frames)
		return false;
	frames->blocks = blocks;
	frames->fds[0] = fds->threads;
	frames->fds[1] = fds->entries;
	frames->how = (struct sampler_frames){
		.plain = fds->plain, .period_ns = period_ns, .step_ns = step_ns};
	blocks_sampler_frames(blocks->sampler, &frames->how, frames->fds);
	return true;
}

void frame_samples_call(struct source *source, void (*news)(void *ctx), void *ctx)
{
	struct frame_samples *frames = blocks_source(source)->frames;

	if (!frames)
		return;
	frames->news = news;
	frames->news_ctx = ctx;
}

void frame_samples_set_period(struct source *source, uint64_t period_ns)
{
	struct frame_samples *frames = blocks_source(source)->frames;

	if (!frames || frames->how.period_ns == period_ns)
		return;
	frames->how.period_ns = period_ns;
	blocks_sampler_frames(frames->blocks->sampler, &frames->how, frames->fds);
}

void frame_samples_watch(struct source *source, const struct frame_thread *thread)
{
	const struct sampler_frame_watch watch = {
		.index = thread->index,
		.pid = thread->pid,
		.tid = thread->tid,
		.is_main = thread->is_main,
	};

	if (blocks_source(source)->frames)
		blocks_sampler_watch_frame(blocks_source(source)->sampler, &watch);
}

void frame_samples_unwatch(struct source *source, uint32_t index)
{
	if (blocks_source(source)->frames)
		blocks_sampler_unwatch_frame(blocks_source(source)->sampler, index);
}

struct frame_samples_counts frame_samples_counts(struct source *source)
{
	const struct blocks_source *blocks = blocks_source(source);
	struct frame_samples_counts counts = {0};

	if (!blocks->frames)
		return counts;
	counts = blocks->frames->counts;
	counts.thinned = blocks_sampler_losses(blocks->sampler).frames_thinned;
	return counts;
}

const char *frame_samples_missing(struct source *source, pid_t pid, uint64_t from_ns,
				  uint64_t to_ns)
{
	const char *why = "no sample fell into it";
	struct blocks_source *blocks = blocks_source(source);

	if (!blocks->frames)
		return blocks->sampler ? "--frame-samples off" : "no sampler process";
	if (blocks->thinned)
		return "thinned: the recorder is above its own limits";
	if (from_ns <= blocks->frames->gone_ns)
		return "its samples had made room for later ones when it was told";
	for (size_t i = 0; i < blocks->frames->count; i++) {
		const struct frame_sample *sample =
			blocks->frames->kept[(blocks->frames->first + i) % KEPT];

		if (is_of(sample, pid, from_ns, to_ns) && is_own(sample) && !sample->stack)
			why = stack_failure_text((enum stack_failure)sample->from.failure);
	}
	return why;
}

/* ---- stories ---- */

struct frame_story *frame_story_begin(struct source *source, pid_t pid, uint64_t from_ns,
				      uint64_t to_ns)
{
	struct frame_samples *frames = blocks_source(source)->frames;
	struct frame_story *story, **link;
	size_t own = 0, step, nth = 0;

	errno = 0;
	if (!frames)
		return NULL;
	frames->counts.gone += from_ns <= frames->gone_ns;
	for (size_t i = 0; i < frames->count; i++) {
		const struct frame_sample *sample = frames->kept[(frames->first + i) % KEPT];

		own += is_of(sample, pid, from_ns, to_ns) && is_own(sample) && sample->stack;
	}
	if (!own)
		return NULL;
	story = calloc(1, sizeof(*story));
	if (!story)
		return NULL;
	story->frames = frames;
	story->blocks = frames->blocks;
	story->step_ns = frames->how.step_ns;
	/* Of a frame of seconds evenly chosen ones tell as much. */
	step = (own + STORY_SAMPLES - 1) / STORY_SAMPLES;
	for (size_t i = 0; i < frames->count; i++) {
		struct frame_sample *sample = frames->kept[(frames->first + i) % KEPT];

		if (!is_of(sample, pid, from_ns, to_ns) ||
		    (is_own(sample) && (!sample->stack || nth++ % step)))
			continue;
		if (story->count == STORY_ROWS) {
			story->left_out++;
			continue;
		}
		sample->references++;
		story->samples[story->count++] = sample;
	}
	for (link = &frames->stories; *link; link = &(*link)->next)
		;
	*link = story;
	blocks_wake_at(frames->blocks, 0);
	return story;
}

bool frame_story_is_ready(const struct frame_story *story)
{
	if (story->pushed < story->count)
		return false;
	for (size_t i = 0; i < story->count; i++) {
		const struct block_sample *stack = story->samples[i]->stack;

		if (stack && stack->state == SAMPLE_WAITS)
			return false;
	}
	return true;
}

void frame_story_free(struct frame_story *story)
{
	struct frame_story **link;

	if (!story)
		return;
	for (link = &story->frames->stories; *link != story; link = &(*link)->next)
		;
	*link = story->next;
	for (size_t i = 0; i < story->count; i++)
		put_sample(story->samples[i]);
	frame_story_clear(story);
	free(story);
}

/* Give the unwinder as much as it has room for, in the order in which frames were told. */
static void push(struct frame_samples *frames)
{
	size_t waiting = 0;

	for (struct frame_story *story = frames->stories; story; story = story->next) {
		for (size_t i = 0; i < story->pushed; i++) {
			const struct frame_sample *sample = story->samples[i];

			if (sample->stack && sample->stack->state == SAMPLE_WAITS)
				waiting += sample->bytes;
		}
		for (; story->pushed < story->count; story->pushed++) {
			struct frame_sample *sample = story->samples[story->pushed];
			struct stack_capture *capture = sample->capture;

			/* A frame before this one had it unwound. */
			if (!capture)
				continue;
			if (waiting && waiting + sample->bytes > PUSHED_BYTES)
				return;
			waiting += sample->bytes;
			sample->capture = NULL;
			blocks_unwind(frames->blocks, sample->stack, capture);
		}
	}
}

void blocks_frames_go_on(struct blocks_source *blocks)
{
	if (!blocks->frames || !blocks->frames->stories)
		return;
	push(blocks->frames);
	if (blocks->frames->news)
		blocks->frames->news(blocks->frames->news_ctx);
	if (blocks->frames->stories)
		push(blocks->frames);
}

bool blocks_frames_settled(const struct blocks_source *blocks)
{
	return !blocks->frames || !blocks->frames->stories;
}

void blocks_frames_free(struct blocks_source *blocks)
{
	if (!blocks->frames)
		return;
	while (blocks->frames->stories)
		frame_story_free(blocks->frames->stories);
	while (blocks->frames->count)
		drop_first(blocks->frames);
	free(blocks->frames);
	blocks->frames = NULL;
}
