/* SPDX-License-Identifier: BSD-2-Clause */
/* Bits of a byte source, the lowest one of a byte first, as ART packs what it knows of its code
 * (art/libartbase/base/bit_memory_region.h). An error stays until it is looked at: what is read
 * after it is 0. */
#pragma once
#include <stdbool.h>

#include "stack/code/byte_source.h"

#define BIT_READER_BYTES 256

struct bit_reader {
	const struct byte_source *source;
	uint64_t at; /* next bit of the source */
	int err;
	uint64_t from; /* byte where the piece that was read begins */
	uint32_t length;
	uint8_t bytes[BIT_READER_BYTES];
};

static inline void bit_reader_open(struct bit_reader *reader, const struct byte_source *source,
				   uint64_t byte)
{
	reader->source = source;
	reader->at = byte * 8;
	reader->err = 0;
	reader->from = reader->length = 0;
}

/* Have the bytes from first to last in the piece. */
static inline bool bit_reader_fill(struct bit_reader *reader, uint64_t first, uint64_t last)
{
	uint64_t left;

	if (first >= reader->from && last - reader->from < reader->length)
		return true;
	reader->length = 0;
	if (last >= reader->source->size) {
		reader->err = -EBADMSG;
		return false;
	}
	left = reader->source->size - first;
	reader->from = first;
	reader->err = byte_source_read(reader->source, first, reader->bytes,
				       left < BIT_READER_BYTES ? left : BIT_READER_BYTES);
	if (!reader->err)
		reader->length = left < BIT_READER_BYTES ? (uint32_t)left : BIT_READER_BYTES;
	return !reader->err;
}

/* At most 32 bits. */
static inline uint32_t bit_reader_bits(struct bit_reader *reader, unsigned count)
{
	uint64_t first = reader->at / 8, last = (reader->at + count - 1) / 8, value = 0;

	if (!count || reader->err || !bit_reader_fill(reader, first, last))
		return 0;
	for (uint64_t i = first; i <= last; i++)
		value |= (uint64_t)reader->bytes[i - reader->from] << 8 * (i - first);
	value >>= reader->at % 8;
	reader->at += count;
	return (uint32_t)(value & ((1ull << count) - 1));
}

/* What four bits say: the number itself up to 11, or in how many bytes more it is. */
static inline uint32_t bit_reader_rest(struct bit_reader *reader, uint32_t nibble)
{
	return nibble <= 11 ? nibble : bit_reader_bits(reader, 8 * (nibble - 11));
}

static inline uint32_t bit_reader_varint(struct bit_reader *reader)
{
	return bit_reader_rest(reader, bit_reader_bits(reader, 4));
}

/* Several numbers, the four bits of each first. */
static inline void bit_reader_varints(struct bit_reader *reader, uint32_t *values, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		values[i] = bit_reader_bits(reader, 4);
	for (unsigned i = 0; i < count; i++)
		values[i] = bit_reader_rest(reader, values[i]);
}
