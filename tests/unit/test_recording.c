/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crc_reference.h"
#include "record/json_write.h"
#include "source/recording.h"

struct seen {
	uint64_t weight_ns, blocks, stacks, damages;
	char first[160];
	uint64_t first_line;
	bool shared;
};

static int on_block(void *ctx, const struct record_block *block)
{
	struct seen *seen = ctx;

	seen->blocks++;
	seen->stacks += block->stack_count;
	for (size_t i = 0; i < block->stack_count; i++) {
		seen->weight_ns += block->stacks[i].weight_ns;
		for (size_t k = 0; k < block->stacks[i].frame_count; k++)
			seen->shared |= block->stacks[i].frames[k].shared &&
					block->stacks[i].frames[k].by == FRAME_BY_SCAN;
	}
	return 0;
}

static void on_damage(void *ctx, uint64_t line, const char *what)
{
	struct seen *seen = ctx;

	if (seen->damages++)
		return;
	snprintf(seen->first, sizeof(seen->first), "%s", what);
	seen->first_line = line;
}

static char path[32];
static FILE *file;

static void begin(void)
{
	int fd;

	strcpy(path, "/tmp/recording.XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	file = fdopen(fd, "w");
}

static void end(void)
{
	unlink(path);
}

TestSuite(recording, .init = begin, .fini = end);

/* A line of this text, with its checksum (of an implementation of the test's own). */
static void line(const char *json)
{
	size_t length = strlen(json) - 1;

	fprintf(file, "%.*s,\"crc\":\"%08x\"}\n", (int)length, json,
		reference_crc32c(json, length));
}

static void record(struct record what)
{
	size_t length;
	char *text = record_to_line(&what, &length);

	cr_assert_not_null(text);
	cr_assert_eq(fwrite(text, 1, length, file), length);
	free(text);
}

static struct seen read_back(int want)
{
	struct seen seen = {0};
	const struct recording_reader reader = {
		.block = on_block, .damage = on_damage, .ctx = &seen};
	struct recording_counts counts;
	int err;

	fflush(file);
	err = recording_read(path, &reader, &counts);
	cr_expect_eq(err, want, "%d", err);
	cr_expect_eq(counts.damages, seen.damages);
	cr_expect_eq(counts.blocks, seen.blocks);
	return seen;
}

#define HEADER                                                                              \
	"{\"type\":\"header\",\"seq\":0,\"t_boot_ns\":1,\"schema\":1,\"version\":\"0\","    \
	"\"session\":\"\",\"boot_id\":\"\",\"kernel\":\"k\",\"arch\":\"arm64\",\"clock\":{" \
	"\"boot_ns\":1,\"mono_ns\":1,\"unix_ns\":1},\"interval_ns\":1,\"block_ns\":1,"      \
	"\"targets\":[],\"sources\":[]}"
#define FOOTER(n)                                                                         \
	"{\"type\":\"footer\",\"seq\":" #n ",\"t_boot_ns\":1,\"summary\":{},\"lost\":{}," \
	"\"missing\":{}}"
#define EVENT(n) "{\"type\":\"event\",\"seq\":" #n ",\"t_boot_ns\":1,\"event\":\"x\"}"
/* A block with one stack of these frames. */
#define BLOCK(n, pid, state, weight, frames)                                                   \
	"{\"type\":\"block\",\"seq\":" #n ",\"t_boot_ns\":1,\"pid\":" #pid ",\"tid\":1,"       \
	"\"start_boot_ns\":5,\"wall_ns\":1,\"state\":\"" state                                 \
	"\",\"class\":\"short\",\"ledger\":{"                                                  \
	"\"running_ns\":0,\"runnable_ns\":0,\"sleeping_ns\":0,\"uninterruptible_ns\":0,"       \
	"\"stopped_ns\":0},\"reasons\":[],\"preemptors\":[],\"stacks\":[{\"t_boot_ns\":1,"     \
	"\"weight_ns\":" #weight ",\"capture\":\"perf\",\"complete\":true,\"frames\":[" frames \
	"]}],\"lost\":{},\"missing\":{}}"

Test(recording, the_last_record_of_each_block_counts)
{
	struct seen seen;

	line(HEADER);
	line(BLOCK(1, 1, "open", 10, ""));
	line(BLOCK(2, 1, "closed", 20, ""));
	line(BLOCK(3, 2, "open", 3, ""));
	line(BLOCK(4, 2, "open", 4, "{\"offset\":-1,\"kind\":\"kernel\"}"));
	line(FOOTER(5));
	seen = read_back(0);
	cr_expect_eq(seen.weight_ns, 24);
	cr_expect_eq(seen.blocks, 2);
	cr_expect_eq(seen.damages, 0, "%s", seen.first);
}

/* A line whose checksum is right and whose values are not as the table of fields says. */
Test(recording, values_that_are_none)
{
	struct seen seen;

	line(HEADER);
	line(BLOCK(1, 1, "closed", 10, "{\"offset\":-1,\"kind\":\"kernel\"},7"));
	line(BLOCK(2, 2, "shut", 10, ""));
	line(BLOCK(3, 3, "closed", -10, ""));
	line("{\"type\":\"event\",\"seq\":4,\"t_boot_ns\":1}");
	line("[\"type\"]");
	line(FOOTER(6));
	seen = read_back(0);
	cr_expect_eq(seen.blocks, 0);
	cr_expect_eq(seen.damages, 5);
	cr_expect_str_eq(seen.first, "damaged: stacks[0].frames[1] is no object");
}

/* Of another version: passed over without a word. */
Test(recording, a_type_that_is_not_known)
{
	struct seen seen;

	line(HEADER);
	line("{\"type\":\"yank\",\"seq\":1,\"t_boot_ns\":1,\"x\":7}");
	line(FOOTER(2));
	seen = read_back(0);
	cr_expect_eq(seen.damages, 0, "%s", seen.first);
}

static int on_block_before(void *ctx, const struct record_block *block)
{
	(void)block;
	(*(unsigned *)ctx)++;
	return 0;
}

static int on_record_behind(void *ctx, const struct record *what)
{
	if (what->type == RECORD_FOOTER)
		cr_expect_eq(*(unsigned *)ctx, 2, "%u blocks before it", *(unsigned *)ctx);
	return 0;
}

/* The summary can be made anew from the blocks when the footer is told: those that never ended
 * have been told by then. */
Test(recording, the_footer_comes_behind_all_blocks)
{
	unsigned blocks = 0;
	const struct recording_reader reader = {
		.block = on_block_before, .record = on_record_behind, .ctx = &blocks};
	struct recording_counts counts;

	line(HEADER);
	line(BLOCK(1, 1, "open", 10, ""));
	line(BLOCK(2, 2, "closed", 3, ""));
	line(FOOTER(3));
	fflush(file);
	cr_expect_eq(recording_read(path, &reader, &counts), 0);
	cr_expect_eq(counts.blocks, 2);
	cr_expect_eq(counts.damages, 0);
}

/* A stack that follows is the block's that it names, unless a later record of the block has it. */
Test(recording, stacks_that_follow)
{
	struct record_frame frame = {.symbol = "f", .by = FRAME_BY_SCAN, .shared = true};
	struct record_stack stack = {.weight_ns = 7, .frames = &frame, .frame_count = 1};
	struct record_addition addition = {.of = 1, .stack = stack};
	struct record_header header = {.kernel = "k", .arch = "x86_64"};
	struct record_footer footer = {0};
	struct record_block open = {.pid = 1, .start_boot_ns = 5, .state = BLOCK_OPEN};
	struct record_block closed = {.pid = 1, .start_boot_ns = 5, .state = BLOCK_CLOSED};
	struct record_block whole = {.pid = 2,
				     .start_boot_ns = 5,
				     .state = BLOCK_CLOSED,
				     .stacks = &stack,
				     .stack_count = 1};
	struct seen seen;

	cr_assert_eq(missing_list_set(&open.missing, "stacks", MISSING_FOLLOWS), 0);
	cr_assert_eq(missing_list_set(&closed.missing, "stacks", MISSING_FOLLOWS), 0);
	record((struct record){RECORD_HEADER, 0, 0, .header = &header});
	record((struct record){RECORD_BLOCK, 1, 0, .block = &open});
	record((struct record){RECORD_STACK, 2, 0, .addition = &addition});
	record((struct record){RECORD_BLOCK, 3, 0, .block = &closed});
	record((struct record){RECORD_BLOCK, 4, 0, .block = &whole});
	addition.of = 3;
	addition.stack.weight_ns = 100;
	record((struct record){RECORD_STACK, 5, 0, .addition = &addition});
	record((struct record){RECORD_STACK, 6, 0, .addition = &addition});
	addition.of = 999;
	record((struct record){RECORD_STACK, 7, 0, .addition = &addition});
	record((struct record){RECORD_FOOTER, 8, 0, .footer = &footer});
	seen = read_back(0);
	cr_expect_eq(seen.blocks, 2);
	cr_expect_eq(seen.stacks, 3);
	cr_expect_eq(seen.weight_ns, 207);
	cr_expect(seen.shared);
	cr_expect_eq(seen.damages, 0, "%s", seen.first);
	missing_list_free(&open.missing);
	missing_list_free(&closed.missing);
}

Test(recording, more_blocks_wait_than_are_held)
{
	struct record_header header = {.kernel = "k", .arch = "x86_64"};
	struct record_footer footer = {0};
	struct record_block closed = {.pid = 1, .state = BLOCK_CLOSED};
	struct record_addition addition = {.of = 1, .stack = {.weight_ns = 1}};
	struct seen seen;

	cr_assert_eq(missing_list_set(&closed.missing, "stacks", MISSING_FOLLOWS), 0);
	record((struct record){RECORD_HEADER, 0, 0, .header = &header});
	for (uint64_t i = 1; i <= 2000; i++) {
		closed.start_boot_ns = i;
		record((struct record){RECORD_BLOCK, i, 0, .block = &closed});
	}
	addition.of = 2000;
	record((struct record){RECORD_STACK, 2001, 0, .addition = &addition});
	record((struct record){RECORD_FOOTER, 2002, 0, .footer = &footer});
	seen = read_back(0);
	cr_expect_eq(seen.blocks, 2000);
	cr_expect_eq(seen.weight_ns, 1);
	missing_list_free(&closed.missing);
}

Test(recording, a_changed_byte)
{
	struct seen seen;

	line(HEADER);
	fputs("{\"type\":\"block\",\"seq\":1,\"pid\":1,\"state\":\"closed\",\"stacks\":"
	      "[{\"weight_ns\":10,\"frames\":[]}],\"crc\":\"00000000\"}\n",
	      file);
	line(FOOTER(2));
	seen = read_back(0);
	cr_expect_eq(seen.blocks, 0);
	cr_expect_eq(seen.damages, 1);
	cr_expect_eq(seen.first_line, 2);
	cr_expect_str_eq(seen.first, "damaged: the checksum is wrong");
}

Test(recording, lines_that_were_deleted)
{
	struct seen seen;

	line(HEADER);
	line(EVENT(4));
	line(EVENT(3));
	line(FOOTER(4));
	seen = read_back(0);
	cr_expect_eq(seen.damages, 3);
	cr_expect_str_eq(seen.first, "missing: 3 records, seq 1 to 3");
}

Test(recording, no_footer_and_half_a_line)
{
	struct seen seen;

	line(HEADER);
	fputs("{\"type\":\"inter", file);
	seen = read_back(0);
	cr_expect_eq(seen.damages, 2);
	cr_expect_str_eq(seen.first, "torn: 14 bytes of a line without its end");
	cr_expect_eq(seen.first_line, 2);
}

Test(recording, no_header)
{
	struct seen seen;

	line(EVENT(0));
	line(FOOTER(1));
	seen = read_back(0);
	cr_expect_eq(seen.damages, 1);
	cr_expect(strstr(seen.first, "no header first"));
}

Test(recording, two_in_one_file)
{
	struct seen seen;

	line(HEADER);
	line(FOOTER(1));
	line(HEADER);
	line(FOOTER(1));
	seen = read_back(0);
	cr_expect_eq(seen.damages, 1);
	cr_expect(strstr(seen.first, "misplaced: a second header"), "%s", seen.first);
}

Test(recording, a_newer_schema)
{
	line("{\"type\":\"header\",\"seq\":0,\"schema\":2}");
	line(FOOTER(1));
	read_back(-EPROTONOSUPPORT);
}

Test(recording, what_is_no_recording)
{
	const struct recording_reader reader = {.block = on_block};
	struct recording_counts counts;

	fputs("Dear diary,\n\nnothing.\n", file);
	read_back(-EBADMSG);
	cr_expect_eq(recording_read("/dev/null", &reader, &counts), -EBADMSG);
	cr_expect_eq(recording_read("/nonexistent", &reader, &counts), -ENOENT);
}

/* A sparse file, or a few compressed bytes: it was read to its end, for minutes. */
Test(recording, a_line_without_an_end, .timeout = 60)
{
	struct seen seen;

	line(HEADER);
	line(FOOTER(1));
	fflush(file);
	cr_assert_eq(ftruncate(fileno(file), 1ll << 40), 0);
	seen = read_back(0);
	cr_expect_eq(seen.damages, 1);
	cr_expect_str_eq(seen.first, "unreadable from here on: a line, or the damage, has no end");
}
