/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/unwinder_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STACK_BYTES (16u << 20)

/* One text: used when it lies in the texts, ends there, and is not longer than a name can be. */
static bool take_text(const char *texts, uint32_t text_bytes, uint32_t at, const char **text)
{
	*text = NULL;
	if (!at)
		return true;
	if (at > text_bytes || !memchr(texts + at - 1, 0, text_bytes - (at - 1)))
		return false;
	*text = texts + at - 1;
	return true;
}

static bool take_frame(const struct wire_frame *from, const char *texts, uint32_t text_bytes,
		       struct unwound_frame *to)
{
	if (from->kind > FRAME_VDSO || from->kind == FRAME_KERNEL || from->method >= METHOD_COUNT ||
	    from->exact > 1 || from->shared > 1 || from->inlined > 1)
		return false;
	*to = (struct unwound_frame){.pc = from->pc,
				     .offset = from->offset,
				     .function = from->function,
				     .kind = (enum frame_kind)from->kind,
				     .method = (enum stack_method)from->method,
				     .exact = from->exact,
				     .shared = from->shared,
				     .inlined = from->inlined,
				     .dex_place = from->dex_place,
				     .line = from->line};
	return take_text(texts, text_bytes, from->module, &to->module) &&
	       take_text(texts, text_bytes, from->build_id, &to->build_id) &&
	       take_text(texts, text_bytes, from->symbol, &to->symbol);
}

int wire_take_trace(const void *message, size_t length, struct unwound **trace,
		    struct wire_losses *losses)
{
	struct unwound_frame *frames = NULL;
	const uint8_t *bytes = message;
	const char *texts;
	struct wire_trace head;
	int err = -EBADMSG;

	*trace = NULL;
	if (length < sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	if (head.header.type != WIRE_TRACE || head.header.bytes != length || head.error > 0 ||
	    head.frame_count > STACK_MAX_FRAMES || head.text_bytes > WIRE_TEXT_BYTES ||
	    length !=
		    sizeof(head) + head.frame_count * sizeof(struct wire_frame) + head.text_bytes ||
	    head.end >= END_COUNT || head.complete > 1 || head.cache_bytes > WIRE_MOST_CACHE)
		return -EBADMSG;
	*losses = head.losses;
	if (head.error)
		return head.frame_count ? -EBADMSG : 0;
	texts = (const char *)bytes + length - head.text_bytes;
	frames = calloc(head.frame_count + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < head.frame_count; i++) {
		struct wire_frame frame;

		memcpy(&frame, bytes + sizeof(head) + i * sizeof(frame), sizeof(frame));
		if (!take_frame(&frame, texts, head.text_bytes, &frames[i]))
			goto out;
		/* One module has one build-id: that is how it is kept. */
		if (i && frames[i].module == frames[i - 1].module)
			frames[i].build_id = frames[i - 1].build_id;
	}
	*trace = unwound_new(frames, head.frame_count);
	err = *trace ? 0 : -ENOMEM;
	if (*trace) {
		(*trace)->end = (enum stack_end)head.end;
		(*trace)->complete = head.complete;
		(*trace)->end_address = head.end_address;
	}
out:
	free(frames);
	return err;
}

static bool ascending(const struct wait_place_at *places, uint32_t count)
{
	if (count > WAIT_PLACES_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (places[i].kind >= WAIT_KINDS || (i && places[i].offset < places[i - 1].offset))
			return false;
	return true;
}

int wire_take_places(const void *message, size_t length, int *error, struct wait_places *places)
{
	struct wire_places wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, message, sizeof(wire));
	if (wire.header.type != WIRE_PLACES || wire.header.bytes != length || wire.error > 0 ||
	    wire.error < -4095 || wire.places.go > 1 ||
	    !ascending(wire.places.enter, wire.places.enter_count) ||
	    !ascending(wire.places.leave, wire.places.leave_count))
		return -EBADMSG;
	*error = wire.error;
	*places = wire.places;
	return 0;
}

int wire_take_need(const void *message, size_t length, struct wire_need *need)
{
	if (length != sizeof(*need))
		return -EBADMSG;
	memcpy(need, message, sizeof(*need));
	if (need->header.type != WIRE_NEED || need->header.bytes != length ||
	    need->kind < NEED_MAPS || need->kind > NEED_JIT_LIST || need->fresh > 1 ||
	    need->symfiles > 1 || !memchr(need->path, 0, sizeof(need->path)))
		return -EBADMSG;
	if (need->kind == NEED_MEMORY && (!need->length || need->length > WIRE_MEMORY_BYTES))
		return -EBADMSG;
	if (need->kind == NEED_JIT_LIST && !need->start)
		return -EBADMSG;
	if (need->kind == NEED_FILE && (need->start >= need->end || !need->inode))
		return -EBADMSG;
	return 0;
}

int wire_take_unwind(const void *message, size_t length, bool has_fd, struct wire_unwind *unwind)
{
	if (length < sizeof(*unwind))
		return -EBADMSG;
	memcpy(unwind, message, sizeof(*unwind));
	if (unwind->header.type != WIRE_UNWIND || unwind->header.bytes != length ||
	    unwind->arch > STACK_ARM64 || unwind->valid >> STACK_REGISTERS || !unwind->valid ||
	    unwind->pid <= 0 || unwind->stack_bytes > MAX_STACK_BYTES ||
	    unwind->stack_base > UINT64_MAX - unwind->stack_bytes ||
	    length != sizeof(*unwind) + (has_fd ? 0 : unwind->stack_bytes) ||
	    (has_fd && !unwind->stack_bytes))
		return -EBADMSG;
	return 0;
}

/* ---- the process puts its answer together ---- */

struct texts {
	char *to;
	uint32_t used;
	uint64_t left_out;
};

static uint32_t put_text(struct texts *texts, const char *text)
{
	size_t len = text ? strlen(text) + 1 : 0;
	uint32_t at = texts->used;

	if (!len)
		return 0;
	if (len > WIRE_TEXT_BYTES - at) {
		texts->left_out++;
		return 0;
	}
	memcpy(texts->to + at, text, len);
	texts->used += (uint32_t)len;
	return at + 1;
}

size_t wire_put_trace(void *to, uint64_t job, int error, const struct unwound *trace,
		      uint64_t cache_bytes, struct wire_losses *losses)
{
	struct wire_trace head = {.header = {.type = WIRE_TRACE, .job = job}, .error = error};
	struct wire_frame *frames = (struct wire_frame *)((uint8_t *)to + sizeof(head));
	struct texts texts = {0};

	if (trace) {
		head.end = trace->end;
		head.complete = trace->complete;
		head.end_address = trace->end_address;
		head.frame_count =
			trace->count < STACK_MAX_FRAMES ? (uint32_t)trace->count : STACK_MAX_FRAMES;
	}
	texts.to = (char *)(frames + head.frame_count);
	for (uint32_t i = 0; i < head.frame_count; i++) {
		const struct unwound_frame *from = &trace->frames[i];
		uint32_t same = i && from->module == trace->frames[i - 1].module ? i - 1 : 0;

		frames[i] = (struct wire_frame){.pc = from->pc,
						.offset = from->offset,
						.function = from->function,
						.kind = (uint8_t)from->kind,
						.method = (uint8_t)from->method,
						.exact = from->exact,
						.shared = from->shared,
						.inlined = from->inlined,
						.dex_place = from->dex_place,
						.line = from->line};
		frames[i].symbol = put_text(&texts, from->symbol);
		/* A path is said once: recursion and calls to and fro meet the same few modules. */
		while (same < i &&
		       (!from->module || !trace->frames[same].module ||
			strcmp(trace->frames[same].module, from->module) || !frames[same].module))
			same++;
		frames[i].module = same < i ? frames[same].module : put_text(&texts, from->module);
		frames[i].build_id =
			same < i ? frames[same].build_id : put_text(&texts, from->build_id);
	}
	losses->names_dropped += texts.left_out;
	head.text_bytes = texts.used;
	head.losses = *losses;
	head.cache_bytes = cache_bytes;
	head.header.bytes =
		(uint32_t)(sizeof(head) + head.frame_count * sizeof(*frames) + texts.used);
	memcpy(to, &head, sizeof(head));
	return head.header.bytes;
}
