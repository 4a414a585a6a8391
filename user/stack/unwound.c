/* SPDX-License-Identifier: BSD-2-Clause */
/* Traces that hold everything that they need. */
#include <stdlib.h>
#include <string.h>

#include "jankscope/stack.h"
#include "util/hash.h"

const char *stack_end_text(enum stack_end end)
{
	static const char *const texts[END_COUNT] = {
		[END_OUTERMOST] = "outermost frame",
		[END_TRUNCATED] = "memory outside snapshot",
		[END_NO_TABLES] = "no unwind tables",
		[END_BAD_TABLES] = "malformed unwind tables",
		[END_NOT_MAPPED] = "return address not mapped",
		[END_NO_MODULE] = "no readable ELF file",
		[END_CYCLE] = "stack does not advance",
		[END_FRAME_LIMIT] = "frame limit",
		[END_KERNEL_ONLY] = "kernel stack only",
		[END_NO_REGISTERS] = "register not known",
		[END_COMPAT] = "32-bit code",
		[END_JIT] = "code of a JIT compiler",
		[END_LEFT_OUT] = "too many mappings to keep",
		[END_MAPS_UNREAD] = "mappings not read",
	};

	return end < END_COUNT ? texts[end] : "unknown";
}

static size_t room_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *place(char **at, const char *text)
{
	char *to = *at;

	if (!text)
		return NULL;
	*at = stpcpy(to, text) + 1;
	return to;
}

struct unwound *unwound_new(const struct unwound_frame *frames, size_t count)
{
	struct unwound *unwound;
	size_t bytes = 0;
	char *at;

	for (size_t i = 0; i < count; i++) {
		bytes += room_of(frames[i].symbol);
		if (!i || frames[i].module != frames[i - 1].module)
			bytes += room_of(frames[i].module) + room_of(frames[i].build_id);
	}
	unwound = malloc(sizeof(*unwound) + count * sizeof(*frames) + bytes);
	if (!unwound)
		return NULL;
	*unwound =
		(struct unwound){.count = count, .frames = (struct unwound_frame *)(unwound + 1)};
	at = (char *)(unwound->frames + count);
	for (size_t i = 0; i < count; i++) {
		struct unwound_frame *to = &unwound->frames[i];

		*to = frames[i];
		to->symbol = place(&at, frames[i].symbol);
		if (i && frames[i].module == frames[i - 1].module) {
			to->module = to[-1].module;
			to->build_id = to[-1].build_id;
		} else {
			to->module = place(&at, frames[i].module);
			to->build_id = place(&at, frames[i].build_id);
		}
	}
	return unwound;
}

struct unwound *unwound_copy(const struct unwound *from)
{
	struct unwound *copy = unwound_new(from->frames, from->count);

	if (copy) {
		copy->end = from->end;
		copy->complete = from->complete;
		copy->end_address = from->end_address;
	}
	return copy;
}

struct unwound *unwound_from_kernel(const struct stack_capture *capture)
{
	struct unwound_frame frames[STACK_KERNEL_FRAMES] = {0};
	size_t count = capture->kernel_frame_count;
	struct unwound *unwound;

	if (count > STACK_KERNEL_FRAMES)
		count = STACK_KERNEL_FRAMES;
	for (size_t i = 0; i < count; i++) {
		const char *name = capture->kernel_frames[i];

		frames[i].kind = FRAME_KERNEL;
		frames[i].function = hash_bytes(name, strlen(name), 3);
		frames[i].symbol = name;
	}
	unwound = unwound_new(frames, count);
	if (unwound)
		unwound->end = capture->failure == STACK_COMPAT ? END_COMPAT : END_KERNEL_ONLY;
	return unwound;
}
