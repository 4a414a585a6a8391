/* SPDX-License-Identifier: BSD-2-Clause */
/* What report shows of a block's stacks, those of other threads too. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verb/report_stacks.h"

static const char *const mapping_text = "# compiler: R8\n# min_api: 26\ncom.example.Price -> a.c:\n"
					"com.example.Store -> a.a:\n"
					"    0:9:void com.example.Price.of(int):5:14 -> a\n"
					"    0:9:void load(int):40 -> a\n"
					"    30:45:void save(int):60:75 -> a\n"
					"    0:65535:int sum():70:70 -> b\n";

static struct report_stacks *begin(struct options *options, char path[32])
{
	struct report_stacks *stacks;
	enum exit_code code;
	int fd;

	strcpy(path, "/tmp/mapping-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, mapping_text, strlen(mapping_text)), (ssize_t)strlen(mapping_text));
	close(fd);
	options->mapping = path;
	stacks = report_stacks_new(options, &code);
	unlink(path);
	cr_assert_not_null(stacks);
	cr_assert_eq(report_stacks_begin(stacks), 0);
	return stacks;
}

static void expect(const struct record_stack *stack, const char *wanted)
{
	char text[512] = "";

	cr_assert_not_null(stack);
	for (size_t i = 0; i < stack->frame_count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " < " : "",
			 stack->frames[i].symbol);
	cr_expect_str_eq(text, wanted);
}

static struct record_frame native(const char *symbol)
{
	return (struct record_frame){.module = "/apex/com.android.art/lib64/libart.so",
				     .symbol = symbol,
				     .kind = FRAME_NATIVE};
}

static struct record_frame java(const char *symbol, uint32_t line)
{
	return (struct record_frame){
		.module = "base.vdex", .symbol = symbol, .kind = FRAME_DEX, .line = line};
}

Test(report_stacks, mapping_renames_a_chain)
{
	struct record_frame own[] = {native("futex"), native("nterp_helper"), java("a.a.b", 0)};
	struct record_frame first[] = {native("futex"), native("nterp_helper"), java("a.a.a", 3)};
	struct record_frame second[] = {native("a.a.a"), java("a.a.b", 0), java("x.y.z", 0)};
	struct record_stack stacks[] = {{.frames = own, .frame_count = 3}};
	struct record_stack of_first = {.frames = first, .frame_count = 3};
	struct record_stack of_second = {.frames = second, .frame_count = 3};
	struct block_link links[] = {{.tid = 8, .thread = "first", .stack = &of_first},
				     {.tid = 9, .thread = "none"},
				     {.tid = 10, .thread = "second", .stack = &of_second}};
	struct record_block block = {.wall_ns = 1000,
				     .state = BLOCK_CLOSED,
				     .stacks = stacks,
				     .stack_count = 1,
				     .chain = links,
				     .chain_count = 3};
	struct record_block shown;
	struct options options = {0};
	char path[32];
	struct report_stacks *report = begin(&options, path);

	for (int again = 0; again < 2; again++) {
		cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
		cr_assert_eq(shown.chain_count, 3);
		expect(&shown.stacks[0], "futex < com.example.Store.sum");
		expect(shown.chain[0].stack,
		       "futex < com.example.Price.of < com.example.Store.load");
		cr_expect_null(shown.chain[1].stack);
		expect(shown.chain[2].stack, "a.a.a < com.example.Store.sum < x.y.z");
		cr_expect_eq(shown.chain[2].tid, 10);
		cr_expect_str_eq(shown.chain[0].thread, "first");
	}
	/* The record keeps its own. */
	expect(&of_first, "futex < nterp_helper < a.a.a");
	cr_expect_eq(block.chain[2].stack, &of_second);
	report_stacks_free(report);
}

/* The owner of its lock, where no chain leads to it, and who woke it. */
Test(report_stacks, mapping_renames_owner_and_waker)
{
	struct record_frame holds[] = {native("nap"), native("nterp_helper"), java("a.a.a", 3)};
	struct record_frame wakes[] = {native("futex"), native("nterp_helper"), java("a.a.b", 0)};
	struct record_stack of_owner = {.frames = holds, .frame_count = 3};
	struct record_stack of_waker = {.frames = wakes, .frame_count = 3};
	struct record_block block = {.owner_stack = &of_owner}, shown;
	struct options options = {0};
	char path[32];
	struct report_stacks *report = begin(&options, path);

	block.waker.stack = &of_waker;
	cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
	expect(shown.owner_stack, "nap < com.example.Price.of < com.example.Store.load");
	expect(shown.waker.stack, "futex < com.example.Store.sum");
	/* The record keeps its own. */
	expect(block.owner_stack, "nap < nterp_helper < a.a.a");
	expect(block.waker.stack, "futex < nterp_helper < a.a.b");
	block.owner_stack = NULL;
	block.waker.stack = NULL;
	cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
	cr_expect(!shown.owner_stack && !shown.waker.stack);
	report_stacks_free(report);
}

Test(report_stacks, native_leaves_a_chain_whole)
{
	struct record_frame frames[] = {native("futex"), native("nterp_helper"), java("a.a.b", 0)};
	struct record_stack stack = {.frames = frames, .frame_count = 3};
	struct block_link link = {.stack = &stack};
	struct record_block block = {.chain = &link, .chain_count = 1}, shown;
	struct options options = {.native = true};
	char path[32];
	struct report_stacks *report = begin(&options, path);

	cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
	expect(shown.chain[0].stack, "futex < nterp_helper < com.example.Store.sum");
	report_stacks_free(report);
}

/* A method that ART inlined is one that was inlined under its name of the source too, and so is
 * what R8 had inlined into it. */
Test(report_stacks, mapping_keeps_what_is_inlined)
{
	struct record_frame frames[] = {java("a.a.a", 3), java("a.a.b", 0)};
	struct record_stack stack = {.frames = frames, .frame_count = 2};
	struct record_block block = {.stacks = &stack, .stack_count = 1}, shown;
	struct options options = {0};
	char path[32];
	struct report_stacks *report = begin(&options, path);

	frames[0].inlined = true;
	cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
	expect(&shown.stacks[0],
	       "com.example.Price.of < com.example.Store.load < com.example.Store.sum");
	cr_expect(shown.stacks[0].frames[0].inlined && shown.stacks[0].frames[1].inlined);
	cr_expect_not(shown.stacks[0].frames[2].inlined);
	report_stacks_free(report);
}

/* R8 leaves the lines out, and the mapping has places in the byte code. */
Test(report_stacks, mapping_of_places_in_byte_code)
{
	struct record_frame dex = java("a.a.a", 0), line = java("a.a.a", 40),
			    shared = java("a.a.a (shared code)", 0), jit = dex, inlined = dex;
	struct record_frame *const frames[] = {&dex, &line, &shared, &jit, &inlined};
	static const char *const wanted[] = {
		"com.example.Price.of < com.example.Store.load",
		"com.example.Store.save",
		NULL, /* which of several methods it is is not known */
		/* its line may be there, and was not found */
		"com.example.Store.load or save",
		"com.example.Price.of < com.example.Store.load",
	};
	struct options options = {0};
	char path[32];
	struct report_stacks *report = begin(&options, path);

	dex.offset = line.offset = shared.offset = 0;
	jit.kind = inlined.kind = FRAME_JIT;
	jit.offset = inlined.offset = 40;
	jit.dex_pc = inlined.dex_pc = SOME_U64(2);
	inlined.inlined = true;
	for (size_t i = 0; i < 5; i++) {
		struct record_stack stack = {.frames = frames[i], .frame_count = 1};
		struct record_block block = {.stacks = &stack, .stack_count = 1}, shown;

		cr_assert_eq(report_stacks_take(report, &block, &shown), 0);
		if (wanted[i])
			expect(&shown.stacks[0], wanted[i]);
		else
			cr_expect_null(strstr(shown.stacks[0].frames[0].symbol, "Price"));
	}
	report_stacks_free(report);
}
