/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/folded.h"
#include "stack/stack_merge.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull

/* A trace from letters, innermost first. */
static struct unwound *trace_of(const char *letters)
{
	struct unwound_frame frames[STACK_MAX_FRAMES] = {0};
	size_t count = strlen(letters);
	struct unwound *trace;

	for (size_t i = 0; i < count; i++)
		frames[i] = (struct unwound_frame){.pc = i, .function = letters[i]};
	trace = unwound_new(frames, count);
	trace->complete = true;
	return trace;
}

static void add(struct stack_merge *merge, const char *letters, uint64_t ms)
{
	cr_assert_eq(stack_merge_add(merge, trace_of(letters), CAPTURE_SNAPSHOT, merge->samples + 1,
				     ms * MS),
		     0);
}

static void expect_path(const struct stack_path *path, const char *letters, uint64_t ms)
{
	cr_expect_eq(path->count, strlen(letters), "%zu frames for %s", path->count, letters);
	for (size_t i = 0; i < path->count; i++)
		cr_expect_eq(path->frames[i].function, (uint64_t)letters[i]);
	cr_expect_eq(path->weight_ns, ms * MS);
}

Test(stack_merge, weights_add_up_and_sort)
{
	struct stack_merge merge = {0};

	add(&merge, "Cm", 30);
	for (unsigned i = 0; i < 8; i++)
		add(&merge, "Am", 40);
	add(&merge, "Bm", 80);
	add(&merge, "Am", 80);
	stack_merge_sort(&merge);
	cr_assert_eq(merge.count, 3);
	expect_path(&merge.paths[0], "Am", 400);
	expect_path(&merge.paths[1], "Bm", 80);
	expect_path(&merge.paths[2], "Cm", 30);
	cr_assert_eq(merge.samples, 11);
	cr_assert_eq(merge.weight_ns, 510 * MS);
	stack_merge_free(&merge);
}

Test(stack_merge, recursion_is_folded)
{
	struct stack_merge merge = {0};
	char deep[401];

	add(&merge, "lrrrrrm", 1);
	add(&merge, "lrrm", 2);
	add(&merge, "lfgfgfgm", 3); /* two functions in turn */
	add(&merge, "lfgm", 4);
	memset(deep, 'r', 400);
	deep[0] = 'l', deep[399] = 'm', deep[400] = 0;
	add(&merge, deep, 5);
	add(&merge, "", 6);
	cr_assert_eq(merge.count, 3);
	expect_path(&merge.paths[0], "lrm", 8);
	expect_path(&merge.paths[1], "lfgm", 7);
	expect_path(&merge.paths[2], "", 6);
	stack_merge_free(&merge);
}

Test(stack_merge, the_lightest_gives_way_and_its_weight_stays)
{
	struct stack_merge merge = {0};
	uint64_t kept = 0;

	for (unsigned i = 0; i < 250; i++) {
		struct unwound_frame frame = {.function = i + 1};

		stack_merge_add(&merge, unwound_new(&frame, 1), CAPTURE_PERF, i, (i + 1) * MS);
	}
	cr_assert_eq(merge.count, STACK_MERGE_PATHS);
	for (size_t i = 0; i < merge.count; i++) {
		kept += merge.paths[i].weight_ns;
		cr_assert_gt(merge.paths[i].frames[0].function, 150);
	}
	cr_assert_eq(kept + merge.thinned_ns, merge.weight_ns);
	cr_assert_eq(merge.weight_ns, 250 * 251 / 2 * MS);
	stack_merge_free(&merge);
}

Test(stack_merge, folded_line)
{
	struct record_frame frames[] = {
		{.symbol = "do_wait", .kind = FRAME_KERNEL},
		{.symbol = "f(a;b)\n"},
		{.module = "/system/lib64/libx.so", .offset = 0x123},
		{.offset = 0x77},
		{.symbol = "main"},
	};
	struct record_stack stack = {.weight_ns = 400000400, .frames = frames, .frame_count = 5};
	char *line = stack_folded_line(&stack);

	cr_assert_str_eq(line, "main;[unknown+0x77];[libx.so+0x123];f(a,b)?;do_wait_[k] 400000\n");
	free(line);
	stack.frame_count = 0;
	line = stack_folded_line(&stack);
	cr_assert_str_eq(line, "[no stack] 400000\n");
	free(line);
}

/* A path of names, innermost first. */
static void add_names(struct stack_merge *merge, const char *const *names, uint64_t ms)
{
	struct unwound_frame frames[8] = {0};
	size_t count = 0;

	for (; names[count]; count++) {
		frames[count].symbol = names[count];
		for (const char *c = names[count]; *c; c++)
			frames[count].function = frames[count].function * 31 + (unsigned char)*c;
	}
	cr_assert_eq(
		stack_merge_add(merge, unwound_new(frames, count), CAPTURE_SNAPSHOT, 1, ms * MS),
		0);
}

/* The loop's own wait, met at the edge of the period, is not what the block did. */
Test(stack_merge, the_loops_own_wait_comes_last)
{
	static const char *const own[] = {"__epoll_pwait", "pollInner", "loop", "main", NULL};
	static const char *const work[] = {"decode", "onClick", "pollInner", "loop", "main", NULL};
	static const char *const nested[] = {"epoll_wait", "fetch", "onClick", "pollInner",
					     "loop",       "main",  NULL};
	struct stack_merge merge = {0};
	struct record_stack *stacks;
	size_t count;

	add_names(&merge, own, 27);
	add_names(&merge, work, 4);
	stack_merge_sort(&merge);
	cr_assert_str_eq(merge.paths[0].frames[0].symbol, "decode");
	cr_assert(merge.paths[1].at_wait && merge.paths[1].in_wait);
	stack_merge_free(&merge);
	/* A wait inside a handler is what the block did. */
	add_names(&merge, nested, 27);
	add_names(&merge, work, 4);
	cr_assert_eq(stack_merge_records(&merge, &stacks, &count), 0);
	cr_assert_str_eq(stacks[0].frames[0].symbol, "epoll_wait");
	cr_assert(!merge.paths[0].at_wait && stacks[0].in_wait && !stacks[1].in_wait);
	free(stacks);
	stack_merge_free(&merge);
	/* A lone one is all there is, but it says so. */
	add_names(&merge, own, 27);
	cr_assert_eq(stack_merge_records(&merge, &stacks, &count), 0);
	cr_assert(count == 1 && stacks[0].in_wait && !merge.paths[0].at_wait);
	free(stacks);
	stack_merge_free(&merge);
}

Test(stack_merge, guesses_and_shared_code_say_so)
{
	struct unwound_frame frames[] = {
		{.symbol = "[DEDUPED]",
		 .module = "/a/base.odex",
		 .offset = 16,
		 .function = 1,
		 .shared = true},
		{.symbol = "f", .function = 2, .method = METHOD_SCAN},
		{.symbol = "g", .function = 3, .method = METHOD_FRAME_POINTER},
		{.symbol = "main", .function = 4, .method = METHOD_CFI}};
	struct stack_merge merge = {0};
	struct record_stack *stacks;
	size_t count;
	char *line;

	stack_merge_add(&merge, unwound_new(frames, 4), CAPTURE_SNAPSHOT, 1, MS);
	cr_assert_eq(stack_merge_records(&merge, &stacks, &count), 0);
	cr_assert(stacks[0].frames[0].shared && stacks[0].frames[1].by == FRAME_BY_SCAN &&
		  stacks[0].frames[2].by == FRAME_BY_FP && stacks[0].frames[3].by == FRAME_BY_CFI);
	line = stack_folded_line(stacks);
	cr_assert_str_eq(line, "main;g?;f?;[base.odex+0x10] 1000\n", "%s", line);
	free(line);
	free(stacks);
	stack_merge_free(&merge);
}

Test(stack_merge, schedule)
{
	struct stack_schedule schedule;
	uint64_t last, widest = 0;

	stack_schedule_start(&schedule, 200 * MS, 1000);
	cr_assert_eq(schedule.due_ns, 1000 + 40 * MS);
	stack_schedule_start(&schedule, 5000 * MS, 0);
	cr_assert_eq(schedule.due_ns, 100 * MS);
	for (unsigned i = 0; i < 100; i++) {
		last = schedule.due_ns;
		stack_schedule_taken(&schedule, schedule.due_ns);
		cr_assert_geq(schedule.due_ns - last, widest);
		widest = schedule.due_ns - last;
	}
	cr_assert_gt(schedule.due_ns, 33000 * MS);
	/* never a distance that wraps */
	for (unsigned i = 0; i < 10000; i++)
		stack_schedule_taken(&schedule, 1);
	cr_assert_gt(schedule.due_ns, 1);
}
