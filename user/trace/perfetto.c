/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto.h"
#include "trace/perfetto_private.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_PACKET  (64U << 20)
#define BLOCK_BYTES (4U << 20)

/* What a packet of packets must end with to be found again after damage. */
static const uint8_t sync_marker[] = {0xa2, 0x02, 0x10, 0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42,
				      0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};

struct perfetto *perfetto_new(const struct trace_events *events, void *ctx)
{
	struct perfetto *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->events = events;
	p->ctx = ctx;
	p->ftrace.events = events;
	p->ftrace.ctx = ctx;
	p->last_sequence = UINT64_MAX;
	p->ftrace.first_ns = INT64_MAX;
	p->ftrace.last_ns = INT64_MIN;
	p->clocks = trace_clocks_new();
	if (!p->clocks) {
		free(p);
		return NULL;
	}
	p->ftrace.clocks = p->clocks;
	return p;
}

void perfetto_free(struct perfetto *p)
{
	struct sequence *sequence, *next;

	if (!p)
		return;
	HASH_ITER (hh, p->sequences, sequence, next) {
		HASH_DEL(p->sequences, sequence);
		free(sequence);
	}
	trace_clocks_free(p->clocks);
	free(p->framing.carry);
	free(p->waiting);
	free(p->blocks);
	free(p);
}

/* The head of a top-level field: 1, 0 when more bytes are needed, -EBADMSG. */
static inline int read_head(const uint8_t *data, size_t size, struct wire_field *field,
			    size_t *used)
{
	struct wire wire = wire_of(data, size);
	uint64_t key, length;

	/* a packet of less than 16 KiB */
	if (size > 2 && data[0] == (1 << 3 | WIRE_BYTES) && !(data[1] & data[2] & 0x80)) {
		bool two = data[1] & 0x80;

		field->number = 1;
		field->type = WIRE_BYTES;
		field->size = two ? (data[1] & 0x7fU) | (size_t)data[2] << 7 : data[1];
		*used = two ? 3 : 2;
		return 1;
	}
	if (!wire_varint(&wire, &key))
		return size >= 10 ? -EBADMSG : 0;
	field->number = (uint32_t)(key >> 3);
	field->type = key & 7;
	if (!field->number || key >> 32)
		return -EBADMSG;
	switch (field->type) {
	case WIRE_BYTES:
		if (!wire_varint(&wire, &length))
			return wire.end - wire.pos >= 10 ? -EBADMSG : 0;
		break;
	case WIRE_VARINT:
		length = 0;
		if (!wire_varint(&wire, &field->value))
			return wire.end - wire.pos >= 10 ? -EBADMSG : 0;
		break;
	case WIRE_FIXED64:
		length = 8;
		break;
	case WIRE_FIXED32:
		length = 4;
		break;
	default:
		return -EBADMSG;
	}
	if (length > 1ULL << 32)
		return -EBADMSG;
	field->size = length;
	*used = (size_t)(wire.pos - data);
	return 1;
}

static int keep(struct framing *framing, const uint8_t *data, size_t size)
{
	if (framing->carry_size + size > framing->carry_capacity) {
		size_t capacity = framing->carry_capacity ? framing->carry_capacity : 4096;
		uint8_t *carry;

		while (capacity < framing->carry_size + size)
			capacity *= 2;
		carry = realloc(framing->carry, capacity);
		if (!carry)
			return -ENOMEM;
		framing->carry = carry;
		framing->carry_capacity = capacity;
	}
	memcpy(framing->carry + framing->carry_size, data, size);
	framing->carry_size += size;
	return 0;
}

/* The last stretch of the file ends where the next packet begins. */
static void end_block(struct perfetto *p, uint64_t offset)
{
	struct perfetto_block *block;

	if (!p->block_count)
		return;
	block = &p->blocks[p->block_count - 1];
	block->size = offset - block->offset;
	block->first_ns = p->ftrace.first_ns;
	block->last_ns = p->ftrace.last_ns;
}

static int begin_block(struct perfetto *p, uint64_t offset)
{
	if (p->block_count == p->block_capacity) {
		size_t capacity = p->block_capacity ? p->block_capacity * 2 : 64;
		struct perfetto_block *blocks = realloc(p->blocks, capacity * sizeof(*blocks));

		if (!blocks)
			return -ENOMEM;
		p->blocks = blocks;
		p->block_capacity = capacity;
	}
	p->blocks[p->block_count++] = (struct perfetto_block){offset, 0, INT64_MAX, INT64_MIN};
	p->ftrace.first_ns = INT64_MAX;
	p->ftrace.last_ns = INT64_MIN;
	p->next_block = offset + BLOCK_BYTES;
	return 0;
}

/* Take one field that is whole. */
static int take(struct perfetto *p, unsigned depth, const struct wire_field *field,
		const uint8_t *data)
{
	if (field->number != 1 || field->type != WIRE_BYTES)
		return 0;
	return perfetto_read_packet(p, depth, data, field->size);
}

/* Finish what the last piece left: a cut head or a cut packet. used: bytes taken from data. */
static int complete_carry(struct perfetto *p, struct framing *framing, unsigned depth,
			  const uint8_t *data, size_t size, size_t *used)
{
	struct wire_field field;
	size_t head = 0, need;
	int rc;

	*used = 0;
	while ((rc = read_head(framing->carry, framing->carry_size, &field, &head)) == 0) {
		if (*used == size)
			return 0;
		rc = keep(framing, data + (*used)++, 1);
		if (rc)
			return rc;
	}
	if (rc < 0)
		return rc;
	if (field.size > MAX_PACKET) {
		/* not kept, but the bytes that are here already count */
		size_t have = framing->carry_size - head;

		perfetto_unusable(p, "oversized_packets", "too large", p->packet_offset);
		framing->skip = field.size - have;
		framing->carry_size = 0;
		return 0;
	}
	need = head + field.size - framing->carry_size;
	need = need < size - *used ? need : size - *used;
	rc = keep(framing, data + *used, need);
	if (rc)
		return rc;
	*used += need;
	if (framing->carry_size < head + field.size)
		return 0;
	rc = take(p, depth, &field, framing->carry + head);
	framing->carry_size = 0;
	return rc;
}

int perfetto_read_stream(struct perfetto *p, struct framing *framing, unsigned depth,
			 const uint8_t *data, size_t size)
{
	const uint8_t *pos = data, *end = data + size;
	struct wire_field field;
	size_t head;
	int rc;

	while (pos < end) {
		if (framing->skip) {
			size_t skip = framing->skip < (uint64_t)(end - pos) ? (size_t)framing->skip
									    : (size_t)(end - pos);

			framing->skip -= skip;
			pos += skip;
			continue;
		}
		if (framing->carry_size) {
			rc = complete_carry(p, framing, depth, pos, (size_t)(end - pos), &head);
			if (rc)
				return rc;
			pos += head;
			continue;
		}
		if (depth == 0) {
			p->packet_offset = p->offset + (uint64_t)(pos - data);
			if (p->packet_offset >= p->next_block) {
				end_block(p, p->packet_offset);
				rc = begin_block(p, p->packet_offset);
				if (rc)
					return rc;
			}
		}
		rc = read_head(pos, (size_t)(end - pos), &field, &head);
		if (rc < 0)
			return rc;
		if (rc == 0 || field.size > (uint64_t)(end - pos) - head) {
			rc = keep(framing, pos, (size_t)(end - pos));
			if (rc)
				return rc;
			break;
		}
		rc = take(p, depth, &field, pos + head);
		if (rc)
			return rc;
		pos += head + field.size;
	}
	return 0;
}

/* Look for the marker that the service puts into the trace now and then; the packet that holds it
 * ends with it. Returns how many bytes to drop; all of them when it is not there. */
static size_t find_marker(struct perfetto *p, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] == sync_marker[p->marker_matched])
			p->marker_matched++;
		else
			p->marker_matched = data[i] == sync_marker[0];
		if (p->marker_matched == sizeof(sync_marker)) {
			p->marker_matched = 0;
			p->lost_framing = false;
			return i + 1;
		}
	}
	return size;
}

int perfetto_feed(struct perfetto *p, const uint8_t *data, size_t size)
{
	int rc = 0;

	while (size) {
		size_t dropped;

		if (!p->lost_framing) {
			rc = perfetto_read_stream(p, &p->framing, 0, data, size);
			if (rc != -EBADMSG) {
				p->offset += size;
				return p->error[0] && !rc ? -EBADMSG : rc;
			}
			if (!p->error[0])
				snprintf(p->error, sizeof(p->error),
					 "damaged at byte %llu: no packet starts there",
					 (unsigned long long)p->packet_offset);
			perfetto_loss(p, "damaged_stretches", 1);
			p->lost_framing = true;
			p->marker_matched = 0;
			/* what was carried belongs to the damage; look on from where it was seen */
			p->framing.carry_size = 0;
			if (p->packet_offset > p->offset) {
				size_t good = (size_t)(p->packet_offset - p->offset);

				p->offset += good;
				data += good;
				size -= good;
			}
		}
		dropped = find_marker(p, data, size);
		p->offset += dropped;
		data += dropped;
		size -= dropped;
	}
	return p->error[0] ? -EBADMSG : rc;
}

bool perfetto_finish(struct perfetto *p)
{
	bool cut = p->framing.carry_size || p->framing.skip;

	end_block(p, p->offset);
	perfetto_drain_waiting(p);
	perfetto_loss(p, "ftrace_overrun", p->ftrace_overrun);
	if (cut)
		perfetto_loss(p, "truncated_packets", 1);
	p->framing.carry_size = 0;
	p->framing.skip = 0;
	return cut;
}

uint64_t perfetto_packet_offset(const struct perfetto *p)
{
	return p->packet_offset;
}

const char *perfetto_error(const struct perfetto *p)
{
	return p->error;
}

const char *perfetto_unusable_line(const struct perfetto *p)
{
	return p->unusable;
}

uint64_t perfetto_packets(const struct perfetto *p)
{
	return p->packet_count;
}

int64_t perfetto_clock_error(const struct perfetto *p, int64_t from_ns, int64_t to_ns)
{
	return trace_clocks_error(p->clocks, from_ns, to_ns);
}

uint64_t perfetto_ftrace_bundles(const struct perfetto *p)
{
	return p->ftrace_bundles;
}

uint64_t perfetto_track_events(const struct perfetto *p)
{
	return p->track_events;
}

const struct perfetto_block *perfetto_blocks(const struct perfetto *p, size_t *count)
{
	*count = p->block_count;
	return p->blocks;
}

void perfetto_seek(struct perfetto *p, uint64_t offset)
{
	p->offset = offset;
	p->framing.carry_size = 0;
	p->framing.skip = 0;
	memset(p->ftrace.last_next_tid, 0, sizeof(p->ftrace.last_next_tid));
	memset(p->ftrace.lost, 0, sizeof(p->ftrace.lost));
}
