/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom a late frame waited for: of several looks, that of the wait that its cause is about. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "jankscope/target.h"
#include "source/blocks/frame_story.h"

#define MAIN 100

struct rig {
	struct blocks_source blocks;
	struct frame_story story;
	struct frame_sample samples[8];
	struct jank_thread thread;
	struct record_jank jank;
};

static void look(struct rig *rig, uint64_t walk_ns, unsigned owner, enum sampler_link how,
		 int32_t tid, enum sampler_chain_end end)
{
	struct frame_sample *sample = &rig->samples[rig->story.count];

	*sample = (struct frame_sample){
		.references = 1,
		.pid = MAIN,
		.tid = MAIN,
		.from = {.owner = owner,
			 .walk_ns = walk_ns,
			 .spell = walk_ns,
			 .how = how,
			 .pid = MAIN,
			 .tid = tid,
			 .end = end},
	};
	rig->story.samples[rig->story.count++] = sample;
}

static void begin(struct rig *rig, enum jank_cause cause)
{
	memset(rig, 0, sizeof(*rig));
	rig->story.blocks = &rig->blocks;
	rig->thread = (struct jank_thread){.pid = MAIN, .tid = MAIN, .role = JANK_ROLE_MAIN};
	rig->jank = (struct record_jank){
		.pid = MAIN,
		.cause = cause,
		.threads = &rig->thread,
		.thread_count = 1,
		.cause_thread = SOME_U64(0),
	};
	rig->blocks.context.targets = target_set_new(NULL, 0, "/nonexistent");
	cr_assert(rig->blocks.context.targets);
}

static void end(struct rig *rig)
{
	frame_story_clear(&rig->story);
	target_set_free(rig->blocks.context.targets);
}

/* First a long lock, then a short call; and the other way round. */
Test(frame_story, the_chain_is_of_the_wait_of_the_cause)
{
	struct rig rig;

	begin(&rig, JANK_CAUSE_LOCK);
	look(&rig, 1, 1, LINK_BY_LOCK, 7, CHAIN_GOES_ON);
	look(&rig, 1, 2, LINK_BY_LOCK, 8, CHAIN_GOES_ON);
	look(&rig, 2, 1, LINK_BY_BINDER, 9, CHAIN_GOES_ON);
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_assert_eq(rig.jank.chain_count, 2);
	cr_expect_eq(rig.jank.chain[0].tid, 7);
	cr_expect_eq(rig.jank.chain[1].tid, 8);
	end(&rig);
	begin(&rig, JANK_CAUSE_BINDER);
	look(&rig, 1, 1, LINK_BY_BINDER, 9, CHAIN_GOES_ON);
	look(&rig, 2, 1, LINK_BY_LOCK, 7, CHAIN_GOES_ON);
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_assert_eq(rig.jank.chain_count, 1);
	cr_expect_eq(rig.jank.chain[0].how, LINK_BINDER);
	end(&rig);
	/* That of another wait is better than none. */
	begin(&rig, JANK_CAUSE_BINDER);
	look(&rig, 2, 1, LINK_BY_LOCK, 7, CHAIN_GOES_ON);
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_expect_eq(rig.jank.chain_count, 1);
	end(&rig);
}

static const char *why_no_chain(const struct rig *rig)
{
	cr_assert_eq(rig->jank.missing.count, 1);
	return rig->jank.missing.items[0].reason;
}

/* A semaphore names nobody: that says so, and not that nobody looked. */
Test(frame_story, why_there_is_no_chain)
{
	struct record_stack stack = {.tid = MAIN, .asleep = true};
	struct rig rig;

	for (int asked = 0; asked < 2; asked++) {
		begin(&rig, asked ? JANK_CAUSE_LOCK : JANK_CAUSE_BINDER);
		look(&rig, 1, 1, LINK_BY_LOCK, 0, CHAIN_NO_OWNER);
		cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
		cr_expect_eq(rig.jank.chain_count, 0);
		cr_expect_str_eq(why_no_chain(&rig),
				 asked ? BLOCK_CHAIN_NO_OWNER : "no sample fell into the wait");
		missing_list_free(&rig.jank.missing);
		end(&rig);
	}
	/* A sample met the main thread asleep, and the look at whom it waits for came to nothing.
	 */
	begin(&rig, JANK_CAUSE_BINDER);
	rig.jank.stacks = &stack;
	rig.jank.stack_count = 1;
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_expect_str_eq(why_no_chain(&rig), "nothing told whom it waited for when it was sampled");
	missing_list_free(&rig.jank.missing);
	end(&rig);
}

Test(frame_story, a_circle_is_said)
{
	struct rig rig;

	begin(&rig, JANK_CAUSE_LOCK);
	look(&rig, 1, 1, LINK_BY_LOCK, 7, CHAIN_GOES_ON);
	look(&rig, 1, 2, LINK_BY_LOCK, 0, CHAIN_DEADLOCK);
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_expect(rig.jank.deadlock);
	cr_expect_eq(rig.jank.chain_count, 1);
	end(&rig);
	/* A lock that the thread holds itself. */
	begin(&rig, JANK_CAUSE_LOCK);
	look(&rig, 1, 1, LINK_BY_LOCK, 0, CHAIN_DEADLOCK);
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_expect(rig.jank.deadlock);
	cr_expect_eq(rig.jank.chain_count, 0);
	end(&rig);
}

Test(frame_story, what_found_no_room_is_counted)
{
	struct rig rig;

	begin(&rig, JANK_CAUSE_LOCK);
	rig.story.left_out = 3;
	cr_assert_eq(frame_story_tell(&rig.story, &rig.jank), 0);
	cr_expect_eq(counter_list_get(&rig.jank.lost, "stacks_over_limit"), 3);
	counter_list_free(&rig.jank.lost);
	end(&rig);
}
