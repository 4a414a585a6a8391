/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes from the unwinder process is a stranger's. */
#include "stack/unwinder_wire.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t make(uint8_t *bytes)
{
	struct unwound_frame frames[] = {
		{.pc = 1,
		 .offset = 2,
		 .function = 3,
		 .module = "/lib/a",
		 .build_id = "0011",
		 .symbol = "inner",
		 .exact = true},
		{.pc = 4, .module = "/lib/b", .symbol = "middle", .method = METHOD_CFI},
		{.pc = 5, .module = "/lib/a", .build_id = "0011", .method = METHOD_SCAN},
		{.pc = 6, .kind = FRAME_JIT, .symbol = "jit", .line = 77}};
	struct unwound *trace = unwound_new(frames, 4);
	struct wire_losses losses = {.elf_malformed = 7};
	size_t length;

	trace->end = END_JIT;
	trace->end_address = 9;
	length = wire_put_trace(bytes, 42, 0, trace, 4096, &losses);
	free(trace);
	return length;
}

Test(stack_wire, a_trace_comes_back)
{
	uint8_t *bytes = malloc(WIRE_MAX_BYTES);
	size_t length = make(bytes);
	struct wire_losses losses;
	struct unwound *trace;

	cr_assert_eq(wire_take_trace(bytes, length, &trace, &losses), 0);
	cr_assert(trace->count == 4 && trace->end == END_JIT && trace->end_address == 9 &&
		  !trace->complete && losses.elf_malformed == 7);
	cr_assert_eq(((const struct wire_trace *)(const void *)bytes)->cache_bytes, 4096);
	cr_assert_str_eq(trace->frames[0].symbol, "inner");
	cr_assert_str_eq(trace->frames[2].module, "/lib/a");
	cr_assert_str_eq(trace->frames[2].build_id, "0011");
	cr_assert(!trace->frames[1].build_id && !trace->frames[2].symbol &&
		  !trace->frames[3].module);
	cr_assert(trace->frames[0].exact && trace->frames[2].method == METHOD_SCAN &&
		  trace->frames[3].kind == FRAME_JIT && trace->frames[3].line == 77 &&
		  !trace->frames[0].line);
	free(trace);
	free(bytes);
}

/* Each byte changed to each of a few values, and each length: an error or a trace, never a crash.
 */
Test(stack_wire, lies, .timeout = 60)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	uint8_t *bytes = malloc(WIRE_MAX_BYTES);
	size_t length = make(bytes);
	struct wire_losses losses;
	struct unwound *trace;

	for (size_t at = 0; at < length; at++) {
		/* of its own size, so that a byte too far is seen */
		uint8_t *copy = malloc(length);

		for (size_t i = 0; i < sizeof(values); i++) {
			memcpy(copy, bytes, length);
			copy[at] = values[i];
			if (!wire_take_trace(copy, length, &trace, &losses) && trace) {
				for (size_t f = 0; f < trace->count; f++) {
					const struct unwound_frame *frame = &trace->frames[f];

					cr_assert(frame->method < METHOD_COUNT &&
						  frame->kind <= FRAME_VDSO);
					cr_assert(!frame->symbol || strlen(frame->symbol) < length);
				}
				free(trace);
			}
		}
		free(copy);
		copy = malloc(at ? at : 1);
		memcpy(copy, bytes, at);
		cr_assert_eq(wire_take_trace(copy, at, &trace, &losses), -EBADMSG);
		free(copy);
	}
	free(bytes);
}

Test(stack_wire, no_process_has_so_much)
{
	uint8_t *bytes = malloc(WIRE_MAX_BYTES);
	size_t length = make(bytes);
	struct wire_trace *head = (struct wire_trace *)(void *)bytes;
	struct wire_losses losses;
	struct unwound *trace;

	head->cache_bytes = WIRE_MOST_CACHE + 1;
	cr_assert_eq(wire_take_trace(bytes, length, &trace, &losses), -EBADMSG);
	head->cache_bytes = WIRE_MOST_CACHE;
	cr_assert_eq(wire_take_trace(bytes, length, &trace, &losses), 0);
	free(trace);
	free(bytes);
}

Test(stack_wire, texts_have_a_limit)
{
	struct unwound_frame *frames = calloc(STACK_MAX_FRAMES, sizeof(*frames));
	uint8_t *bytes = malloc(WIRE_MAX_BYTES);
	struct wire_losses losses = {0};
	struct unwound *trace, *back;
	static char name[2000];
	size_t length;

	memset(name, 'n', sizeof(name) - 1);
	for (size_t i = 0; i < STACK_MAX_FRAMES; i++)
		frames[i].symbol = name;
	trace = unwound_new(frames, STACK_MAX_FRAMES);
	length = wire_put_trace(bytes, 1, 0, trace, 0, &losses);
	cr_assert_leq(length, WIRE_MAX_BYTES);
	cr_assert_eq(losses.names_dropped, STACK_MAX_FRAMES - WIRE_TEXT_BYTES / sizeof(name));
	cr_assert_eq(wire_take_trace(bytes, length, &back, &losses), 0);
	cr_assert_eq(back->count, STACK_MAX_FRAMES);
	free(back);
	free(trace);
	free(frames);
	free(bytes);
}

Test(stack_wire, needs_and_places)
{
	struct wire_need need = {.header = {WIRE_NEED, sizeof(need), 1},
				 .kind = NEED_MEMORY,
				 .length = WIRE_MEMORY_BYTES},
			 out;
	struct wire_places places = {.header = {WIRE_PLACES, sizeof(places), 1}};
	struct wait_places taken;
	int error;

	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), 0);
	need.length++;
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), -EBADMSG);
	need = (struct wire_need){.header = need.header, .kind = NEED_FILE, .end = 1, .inode = 1};
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), 0);
	memset(need.path, 'x', sizeof(need.path));
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), -EBADMSG);
	need = (struct wire_need){.header = need.header, .kind = NEED_JIT_LIST, .start = 8};
	need.symfiles = 1;
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), 0);
	need.symfiles = 2;
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), -EBADMSG);
	need.symfiles = need.start = 0;
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), -EBADMSG);
	need.path[5] = 0;
	need.kind = 77;
	cr_assert_eq(wire_take_need(&need, sizeof(need), &out), -EBADMSG);

	places.places.enter_count = 2;
	places.places.enter[1].offset = 5;
	cr_assert_eq(wire_take_places(&places, sizeof(places), &error, &taken), 0);
	places.places.enter[0].offset = 6;
	cr_assert_eq(wire_take_places(&places, sizeof(places), &error, &taken), -EBADMSG);
	places.places.enter[0] = (struct wait_place_at){.kind = WAIT_KINDS};
	cr_assert_eq(wire_take_places(&places, sizeof(places), &error, &taken), -EBADMSG);
	places.places.enter_count = WAIT_PLACES_MAX + 1;
	cr_assert_eq(wire_take_places(&places, sizeof(places), &error, &taken), -EBADMSG);
}

Test(stack_wire, stack_follows_its_question)
{
	struct wire_unwind wire = {.header = {WIRE_UNWIND, sizeof(wire) + 64, 1},
				   .pid = 1,
				   .valid = 1,
				   .stack_bytes = 64},
			   out;
	const size_t length = sizeof(wire) + 64;
	uint8_t *bytes = calloc(1, length);

	memcpy(bytes, &wire, sizeof(wire));
	cr_assert_eq(wire_take_unwind(bytes, length, false, &out), 0);
	/* Not with a descriptor as well, and not a byte more or less than it says. */
	cr_assert_eq(wire_take_unwind(bytes, length, true, &out), -EBADMSG);
	for (int more = -1; more <= 1; more += 2) {
		wire.stack_bytes = (uint64_t)(64 + more);
		memcpy(bytes, &wire, sizeof(wire));
		cr_assert_eq(wire_take_unwind(bytes, length, false, &out), -EBADMSG);
	}
	/* In a file: there are bytes, and none of them behind the question. */
	wire.header.bytes = sizeof(wire);
	wire.stack_bytes = 64;
	cr_assert_eq(wire_take_unwind(&wire, sizeof(wire), true, &out), 0);
	cr_assert_eq(wire_take_unwind(&wire, sizeof(wire), false, &out), -EBADMSG);
	wire.stack_bytes = 0;
	cr_assert_eq(wire_take_unwind(&wire, sizeof(wire), true, &out), -EBADMSG);
	cr_assert_eq(wire_take_unwind(&wire, sizeof(wire), false, &out), 0);
	free(bytes);
}
