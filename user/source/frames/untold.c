/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/untold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/blocks/frame_samples.h"
#include "util/clock.h"
#include "why/tell.h"

#define MOST    128 /* that wait at a time */
#define WAIT_NS (2 * NSEC_PER_SEC)

struct untold {
	struct untold *next;
	struct record_jank jank;
	char *texts;               /* that it points to */
	struct frame_story *story; /* NULL: it waits for those before it */
	uint64_t until_ns;
};

struct frames_untold {
	const struct source_context *context;
	struct source *sampler;
	struct untold *first, **last;
	size_t count;
};

static void free_one(struct untold *one)
{
	frame_story_free(one->story);
	why_record_free(&one->jank);
	free(one->texts);
	free(one);
}

static void tell(struct frames_untold *untold, struct untold *one)
{
	struct record record = {.type = RECORD_JANK, .jank = &one->jank};

	if (one->story && frame_story_tell(one->story, &one->jank))
		counter_list_add(&one->jank.lost, "stacks_no_memory", 1);
	if (one->story && !one->jank.stack_count)
		missing_list_set(&one->jank.missing, "stacks", "not unwound in time");
	untold->context->emit(untold->context->emit_ctx, &record);
}

static void go_on(struct frames_untold *untold, bool all)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	while (untold->first) {
		struct untold *one = untold->first;

		if (!all && one->story && !frame_story_is_ready(one->story) &&
		    now_ns < one->until_ns)
			return;
		tell(untold, one);
		untold->first = one->next;
		untold->count--;
		if (!untold->first)
			untold->last = &untold->first;
		free_one(one);
	}
}

static void on_news(void *ctx)
{
	go_on(ctx, false);
}

struct frames_untold *frames_untold_new(const struct source_context *context,
					struct source *sampler)
{
	struct frames_untold *untold = calloc(1, sizeof(*untold));

	if (!untold)
		return NULL;
	untold->context = context;
	untold->sampler = sampler;
	untold->last = &untold->first;
	return untold;
}

void frames_untold_free(struct frames_untold *untold)
{
	if (!untold)
		return;
	frame_samples_call(untold->sampler, NULL, NULL);
	while (untold->first) {
		struct untold *one = untold->first;

		untold->first = one->next;
		free_one(one);
	}
	free(untold);
}

/* All texts of the record into one block. */
static int keep_texts(struct untold *one)
{
	struct record_jank *jank = &one->jank;
	const char **texts[4] = {&jank->package, &jank->process, &jank->layer, &jank->jank_type};
	const char *process = jank->process;
	size_t room = 1;
	char *at;

	for (size_t i = 0; i < 4; i++)
		room += *texts[i] ? strlen(*texts[i]) + 1 : 0;
	one->texts = at = malloc(room);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < 4; i++) {
		size_t length = *texts[i] ? strlen(*texts[i]) + 1 : 0;

		if (!length)
			continue;
		memcpy(at, *texts[i], length);
		*texts[i] = at;
		at += length;
	}
	/* Those of its threads are of the same process, or not known. */
	for (size_t i = 0; i < jank->thread_count; i++)
		jank->threads[i].process =
			jank->threads[i].process == process ? jank->process : NULL;
	return 0;
}

/* Which key of the record a cause leaves to the samples; NULL: it says all by itself. */
static const char *sampled_key(enum jank_cause cause)
{
	switch (cause) {
	case JANK_CAUSE_MAIN_CPU:
	case JANK_CAUSE_RENDER_CPU:
		return "stacks";
	case JANK_CAUSE_LOCK:
	case JANK_CAUSE_BINDER:
		return "chain";
	default:
		return NULL;
	}
}

int frames_untold_add(struct frames_untold *untold, struct record_jank *jank)
{
	struct untold *one = calloc(1, sizeof(*one));
	bool crowded = untold->count >= MOST;
	const char *what = sampled_key(jank->cause);

	if (!one) {
		why_record_free(jank);
		return -ENOMEM;
	}
	one->jank = *jank;
	if (keep_texts(one)) {
		free_one(one);
		return -ENOMEM;
	}
	errno = 0;
	one->story = crowded ? NULL
			     : frame_story_begin(untold->sampler, jank->pid, jank->window_start_ns,
						 jank->window_end_ns);
	one->until_ns = clock_now_ns(CLOCK_MONOTONIC) + WAIT_NS;
	if (!one->story && what) {
		const char *why =
			crowded ? "too many late frames waited for their stacks"
			: errno ? "no memory"
				: frame_samples_missing(untold->sampler, jank->pid,
							jank->window_start_ns, jank->window_end_ns);

		missing_list_set(&one->jank.missing, what, why);
	}
	*untold->last = one;
	untold->last = &one->next;
	untold->count++;
	frame_samples_call(untold->sampler, on_news, untold);
	go_on(untold, false);
	return 0;
}

void frames_untold_flush(struct frames_untold *untold)
{
	go_on(untold, true);
}
