/* SPDX-License-Identifier: BSD-2-Clause */
/* A reader of protobuf's wire form that copies nothing. Every length is checked against the end of
 * the enclosing message; a group or an unknown wire type is an error. The form is described at
 * protobuf.dev/programming-guides/encoding. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* What is left of one message. */
struct wire {
	const uint8_t *pos, *end;
};

struct wire_field {
	uint32_t number;
	uint32_t type;
	uint64_t value;      /* of a varint or a fixed field */
	const uint8_t *data; /* of a length-delimited field; points into the message */
	size_t size;
};

static inline struct wire wire_of(const uint8_t *data, size_t size)
{
	return (struct wire){data, data + size};
}

/* Read one varint of at most 10 bytes. False where it does not end in time. */
static inline __attribute__((always_inline)) bool wire_varint(struct wire *wire, uint64_t *value)
{
	const uint8_t *pos = wire->pos, *end = wire->end;
	uint64_t sum, last;
	unsigned shift = 0;

	if (pos < end && *pos < 0x80) {
		*value = *pos;
		wire->pos = pos + 1;
		return true;
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (end - pos >= 8) {
		memcpy(&sum, pos, 8);
		last = ~sum & 0x8080808080808080;
		if (last) {
			/* eight at once: cut behind the last byte, then close the gaps pair by pair
			 */
			wire->pos = pos + __builtin_ctzll(last) / 8 + 1;
			sum &= last ^ (last - 1);
			sum = (sum & 0x7f007f007f007f00) >> 1 | (sum & 0x007f007f007f007f);
			sum = (sum & 0x3fff00003fff0000) >> 2 | (sum & 0x00003fff00003fff);
			*value = (sum & 0x0fffffff00000000) >> 4 | (sum & 0x0fffffff);
			return true;
		}
	}
#endif
	/* ten bytes are as long as one gets: one look at the end is enough */
	if (end - pos > 10)
		end = pos + 10;
	for (sum = 0; pos < end; shift += 7) {
		uint64_t byte = *pos++;

		sum |= (byte & 0x7f) << shift;
		if (byte < 0x80) {
			wire->pos = pos;
			*value = sum;
			return true;
		}
	}
	return false;
}

/* Read the next field. 1, 0 at the end of the message, -EBADMSG where it is malformed. */
static inline __attribute__((always_inline)) int wire_next(struct wire *wire,
							   struct wire_field *field)
{
	uint64_t key;

	if (wire->pos >= wire->end)
		return 0;
	if (*wire->pos < 0x80)
		key = *wire->pos++;
	else if (!wire_varint(wire, &key))
		return -EBADMSG;
	/* a field of another type than expected reads as 0 or as empty */
	field->value = 0;
	field->data = NULL;
	field->size = 0;
	field->number = (uint32_t)(key >> 3);
	field->type = key & 7;
	if (field->number == 0 || key >> 32)
		return -EBADMSG;
	switch (field->type) {
	case WIRE_VARINT:
		return wire_varint(wire, &field->value) ? 1 : -EBADMSG;
	case WIRE_BYTES:
		if (!wire_varint(wire, &key) || key > (uint64_t)(wire->end - wire->pos))
			return -EBADMSG;
		field->data = wire->pos;
		field->size = (size_t)key;
		wire->pos += key;
		return 1;
	case WIRE_FIXED64:
		if (wire->end - wire->pos < 8)
			return -EBADMSG;
		memcpy(&field->value, wire->pos, 8);
		wire->pos += 8;
		return 1;
	case WIRE_FIXED32: {
		uint32_t value;

		if (wire->end - wire->pos < 4)
			return -EBADMSG;
		memcpy(&value, wire->pos, 4);
		field->value = value;
		wire->pos += 4;
		return 1;
	}
	}
	return -EBADMSG;
}
