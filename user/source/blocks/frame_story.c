/* SPDX-License-Identifier: BSD-2-Clause */
/* What the samples of a late frame say: paths of each thread, and whom it waited for. */
#include "source/blocks/frame_story.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/telling.h"

struct group {
	pid_t tid;
	bool asleep;
};

static int merge_samples(struct frame_story *story, struct group groups[STORY_GROUPS],
			 size_t *group_count)
{
	for (size_t i = 0; i < story->count; i++) {
		const struct frame_sample *sample = story->samples[i];
		const struct block_sample *stack = sample->stack;
		struct unwound *copy;
		size_t n = 0;

		if (!stack || stack->owner || stack->state != SAMPLE_UNWOUND)
			continue;
		while (n < *group_count &&
		       (groups[n].tid != sample->tid || groups[n].asleep != (stack->spell != 0)))
			n++;
		if (n == STORY_GROUPS) {
			story->left_out++;
			continue;
		}
		if (n == *group_count)
			groups[(*group_count)++] = (struct group){sample->tid, stack->spell != 0};
		copy = unwound_copy(stack->trace);
		if (!copy || stack_merge_add(&story->merges[n], copy, stack->kind, stack->t_boot_ns,
					     story->step_ns))
			return -ENOMEM;
	}
	return 0;
}

/* The one that the cause is about: where that ran too long, a stack of it while it ran. */
static bool is_telling(const struct record_jank *jank, const struct group *group)
{
	bool ran = jank->cause == JANK_CAUSE_MAIN_CPU || jank->cause == JANK_CAUSE_RENDER_CPU;

	return jank->cause_thread.present && jank->cause_thread.value < jank->thread_count &&
	       jank->threads[jank->cause_thread.value].tid == group->tid && group->asleep != ran;
}

/* The heaviest stack of the function that tells in most samples. */
static size_t most_told(const struct record_stack *stacks, size_t count)
{
	uint64_t most = 0;
	size_t best = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t samples = stacks[i].samples;

		for (size_t k = i + 1; k < count; k++)
			if (telling_same(&stacks[i], &stacks[k]))
				samples += stacks[k].samples;
		if (samples > most) {
			most = samples;
			best = i;
		}
	}
	return best;
}

static int fill_stacks(struct frame_story *story, struct record_jank *jank)
{
	struct group groups[STORY_GROUPS];
	size_t group_count = 0, count = 0, first, counts[STORY_GROUPS] = {0};
	int err = merge_samples(story, groups, &group_count);

	for (size_t n = 0; n < group_count && !err; n++) {
		err = stack_merge_records(&story->merges[n], &story->texts[n], &counts[n]);
		count += counts[n];
	}
	if (err || !count)
		return err;
	story->stacks = calloc(count, sizeof(*story->stacks));
	if (!story->stacks)
		return -ENOMEM;
	for (size_t n = 0; n < group_count; n++) {
		first = jank->stack_count;
		for (size_t i = 0; i < counts[n]; i++) {
			struct record_stack *stack = &story->stacks[jank->stack_count++];

			*stack = story->texts[n][i];
			stack->tid = groups[n].tid;
			stack->asleep = groups[n].asleep;
			stack->samples = story->merges[n].paths[i].samples;
		}
		if (counts[n] && !jank->top.present && is_telling(jank, &groups[n]))
			jank->top = SOME_U64(first + most_told(&story->stacks[first], counts[n]));
	}
	jank->stacks = story->stacks;
	return 0;
}

/* The chain is one of the wait that the cause is about, where a frame had several. */
static bool fits(const struct record_jank *jank, const struct block_chain *chain)
{
	bool is_call = chain->count && chain->links[0].how != LINK_BY_LOCK;

	return jank->cause == JANK_CAUSE_BINDER ? is_call
	       : jank->cause == JANK_CAUSE_LOCK ? !is_call
						: true;
}

/* Why there is none, of a frame that waited for somebody. unnamed: for a futex that names nobody.
 */
static const char *why_no_chain(const struct record_jank *jank, bool unnamed)
{
	if (unnamed && jank->cause == JANK_CAUSE_LOCK)
		return BLOCK_CHAIN_NO_OWNER;
	for (size_t i = 0; i < jank->stack_count; i++)
		if (jank->stacks[i].asleep && jank->cause_thread.present &&
		    jank->threads[jank->cause_thread.value].tid == jank->stacks[i].tid)
			return "nothing told whom it waited for when it was sampled";
	return "no sample fell into the wait";
}

/* The last look at whom the thread waited for; all stacks of those that it names are of it. */
static int fill_chain(struct frame_story *story, struct record_jank *jank)
{
	struct block_chain chain = {0}, best = {0};
	const char *names[SAMPLER_CHAIN] = {NULL};
	struct block_sample *stacks[STORY_ROWS];
	struct record_block like = {.pid = jank->pid, .process = jank->process};
	bool unnamed = false;
	size_t stack_count = 0;
	int err;

	for (size_t i = 0; i < story->count; i++) {
		const struct frame_sample *sample = story->samples[i];

		if (!sample->from.owner)
			continue;
		if (jank->cause_thread.present &&
		    jank->threads[jank->cause_thread.value].tid != sample->tid)
			continue;
		block_chain_take(&chain, &sample->from);
		unnamed |= !chain.count && chain.end == CHAIN_NO_OWNER;
		if ((chain.count || chain.end == CHAIN_DEADLOCK) &&
		    (fits(jank, &chain) || !fits(jank, &best)))
			best = chain;
		if (sample->stack)
			stacks[stack_count++] = sample->stack;
	}
	if (!best.count && best.end != CHAIN_DEADLOCK)
		return jank->cause == JANK_CAUSE_LOCK || jank->cause == JANK_CAUSE_BINDER
			       ? missing_list_set(&jank->missing, "chain",
						  why_no_chain(jank, unnamed))
			       : 0;
	blocks_refresh_calls(story->blocks, &best, true);
	for (size_t i = 0; i < best.count; i++) {
		const char *name =
			target_process_name(story->blocks->context.targets, best.links[i].pid, 0);

		if (!name)
			continue;
		snprintf(story->processes[i], sizeof(story->processes[i]), "%s", name);
		names[i] = story->processes[i];
	}
	err = block_chain_fill(&like, &best, names, stacks, stack_count, &story->rows);
	missing_list_free(&like.missing);
	jank->chain = like.chain;
	jank->chain_count = like.chain_count;
	jank->chain_cut = like.chain_cut;
	jank->deadlock = like.deadlock;
	return err;
}

int frame_story_tell(struct frame_story *story, struct record_jank *jank)
{
	int err = fill_stacks(story, jank);

	if (!err)
		err = fill_chain(story, jank);
	if (!err && story->left_out)
		err = counter_list_add(&jank->lost, "stacks_over_limit", story->left_out);
	return err;
}

void frame_story_clear(struct frame_story *story)
{
	for (size_t n = 0; n < STORY_GROUPS; n++) {
		stack_merge_free(&story->merges[n]);
		free(story->texts[n]);
	}
	free(story->stacks);
	block_chain_rows_free(&story->rows);
}
