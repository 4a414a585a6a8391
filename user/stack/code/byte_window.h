/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a byte source onward in pieces, for what consists of small numbers. */
#pragma once
#include "stack/code/byte_source.h"

#define BYTE_WINDOW_BYTES 4096

struct byte_window {
	const struct byte_source *source;
	uint64_t at, end; /* next byte; first byte that must not be read */
	uint64_t from;    /* where the piece begins */
	uint32_t length;
	uint8_t bytes[BYTE_WINDOW_BYTES];
};

static inline void byte_window_open(struct byte_window *window, const struct byte_source *source,
				    uint64_t end)
{
	window->source = source;
	window->end = end < source->size ? end : source->size;
	window->at = window->from = window->length = 0;
}

static inline int byte_window_fill(struct byte_window *window)
{
	uint64_t left;
	int err;

	if (window->at >= window->end)
		return -EBADMSG;
	left = window->end - window->at;
	window->length = left < BYTE_WINDOW_BYTES ? (uint32_t)left : BYTE_WINDOW_BYTES;
	window->from = window->at;
	err = byte_source_read(window->source, window->at, window->bytes, window->length);
	if (err)
		window->length = 0;
	return err;
}

static inline int byte_window_byte(struct byte_window *window, uint8_t *value)
{
	int err = 0;

	if (window->at < window->from || window->at - window->from >= window->length)
		err = byte_window_fill(window);
	if (!err)
		*value = window->bytes[window->at++ - window->from];
	return err;
}

/* ULEB128 of at most 32 bits, as dex-format has it: more than five bytes are malformed. */
static inline int byte_window_uleb(struct byte_window *window, uint32_t *value)
{
	uint64_t result = 0;
	uint8_t byte;

	for (unsigned shift = 0; shift < 35; shift += 7) {
		int err = byte_window_byte(window, &byte);

		if (err)
			return err;
		result |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*value = (uint32_t)result;
			return 0;
		}
	}
	return -EBADMSG;
}

static inline int byte_window_sleb(struct byte_window *window, int32_t *value)
{
	uint64_t result = 0;
	uint8_t byte;

	for (unsigned shift = 0; shift < 35; shift += 7) {
		int err = byte_window_byte(window, &byte);

		if (err)
			return err;
		result |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			if (byte & 0x40)
				result |= ~0ull << (shift + 7);
			*value = (int32_t)(uint32_t)result;
			return 0;
		}
	}
	return -EBADMSG;
}
