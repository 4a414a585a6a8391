/* SPDX-License-Identifier: BSD-2-Clause */
/* What the line of a late frame says of its stacks and of its chain. */
#include <criterion/criterion.h>
#include <string.h>

#include "why/line.h"

static struct record_frame burn[] = {{.symbol = "burn_layout"}, {.symbol = "bind_row"}};
/* The same function tells: what it calls is the C library's. */
static struct record_frame clock_[] = {{.symbol = "clock_gettime", .module = "/lib/libc.so.6"},
				       {.symbol = "burn_layout"},
				       {.symbol = "bind_row"}};
static struct record_frame other[] = {{.symbol = "measure"}};
static struct record_frame waits[] = {{.symbol = "pthread_mutex_lock"}, {.symbol = "take_lock"}};

static struct record_stack stacks[] = {
	{.tid = 7, .samples = 3, .frames = burn, .frame_count = 2},
	{.tid = 7, .samples = 2, .frames = clock_, .frame_count = 3},
	{.tid = 7, .samples = 1, .frames = other, .frame_count = 1},
	{.tid = 7, .samples = 1, .asleep = true, .frames = waits, .frame_count = 2},
	{.tid = 8, .samples = 9, .frames = burn, .frame_count = 2},
};
static struct block_reason futex = {"futex", 9000000};

static struct jank_thread main_thread(void)
{
	return (struct jank_thread){.tid = 7,
				    .role = JANK_ROLE_MAIN,
				    .ledger = {.running_ns = 12900000},
				    .reasons = &futex,
				    .reason_count = 1};
}

static struct record_jank jank_of(enum jank_cause cause, struct jank_thread *thread)
{
	return (struct record_jank){
		.cause = cause,
		.late_ns = 11400000,
		.window_end_ns = 16600000,
		.threads = thread,
		.thread_count = 1,
		.cause_thread = SOME_U64(0),
		.stacks = stacks,
		.stack_count = sizeof(stacks) / sizeof(*stacks),
	};
}

Test(why_line, the_function_of_most_samples)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_MAIN_CPU, &thread);
	char text[512];

	jank.top = SOME_U64(0);
	cr_assert(strstr(why_line(&jank, text, sizeof(text)),
			 "main ran 12.9 of 16.6 ms: bind_row < burn_layout (5 of 6 samples)"),
		  "%s", text);
	/* Out of place, it names nothing. */
	jank.top = SOME_U64(99);
	cr_assert(!strstr(why_line(&jank, text, sizeof(text)), "sample"), "%s", text);
}

Test(why_line, who_held_the_lock)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_LOCK, &thread);
	struct block_link chain[2] = {{.thread = "loader"}, {.thread = "saver"}};
	char text[512];

	jank.top = SOME_U64(3);
	jank.chain = chain;
	jank.chain_count = 2;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)),
			 "main waited 9.0 ms for a lock held by loader, which waits for saver: "
			 "take_lock"),
		  "%s", text);
	cr_assert(!strstr(text, "sample"), "%s", text);
}

Test(why_line, who_held_the_lock_of_the_callee)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_BINDER, &thread);
	struct block_reason binder = {"binder", 22100000};
	struct block_link chain[2] = {{.thread = "binder:1432_3",
				       .how = LINK_BINDER,
				       .process = "system_server",
				       .queued_ns = SOME_U64(20400000)},
				      {.thread = "binder:1432_7"}};
	char text[512];

	thread.reasons = &binder;
	jank.chain = chain;
	jank.chain_count = 2;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)),
			 "main in binder to system_server 22.1 ms (queued 20.4): lock held by "
			 "binder:1432_7"),
		  "%s", text);
}

Test(why_line, a_call_of_a_call_that_waits_for_a_lock)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_BINDER, &thread);
	struct block_reason binder = {"binder", 22100000};
	struct block_link chain[3] = {
		{.thread = "binder:1_1", .how = LINK_BINDER, .process = "system_server"},
		{.thread = "binder:2_1", .how = LINK_BINDER, .process = "mediaserver"},
		{.thread = "binder:2_7"}};
	char text[512];

	thread.reasons = &binder;
	jank.chain = chain;
	jank.chain_count = 3;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)),
			 "main in binder to system_server 22.1 ms, which calls mediaserver, which "
			 "waits for binder:2_7"),
		  "%s", text);
	/* It comes back to one of them. */
	jank.deadlock = true;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)), "binder:2_7 (deadlock)"), "%s", text);
	jank.deadlock = false;
	jank.chain_cut = true;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)), "binder:2_7 and so on"), "%s", text);
}

Test(why_line, a_chain_of_another_wait_is_not_that_of_the_cause)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_LOCK, &thread);
	struct block_link chain[2] = {
		{.thread = "binder:1_1", .how = LINK_BINDER, .process = "system_server"},
		{.thread = "binder:1_7"}};
	char text[512];

	jank.chain = chain;
	jank.chain_count = 2;
	jank.culprit = (struct record_thread){.present = true, .thread = "loader"};
	cr_assert(strstr(why_line(&jank, text, sizeof(text)), "for a lock, ended by loader"), "%s",
		  text);
}

Test(why_line, a_lock_that_it_holds_itself)
{
	struct jank_thread thread = main_thread();
	struct record_jank jank = jank_of(JANK_CAUSE_LOCK, &thread);
	char text[512];

	jank.deadlock = true;
	cr_assert(strstr(why_line(&jank, text, sizeof(text)), "for a lock (deadlock)"), "%s", text);
}
