/* SPDX-License-Identifier: BSD-2-Clause */
/* What one TracePacket says. */
#include "trace/perfetto_private.h"
#include "trace/perfetto_timeline.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_SEQUENCES 65536
#define MAX_WAITING   (1U << 20) /* bytes of packets that wait for a clock snapshot */

/* TracePacket */
enum {
	PACKET_FTRACE = 1,
	PACKET_PROCESS_TREE = 2,
	PACKET_UID = 3,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_FTRACE_STATS = 34,
	PACKET_TRACE_STATS = 35,
	PACKET_INCREMENTAL_CLEARED = 41,
	PACKET_PREVIOUS_DROPPED = 42,
	PACKET_PACKAGES_LIST = 47,
	PACKET_COMPRESSED = 50,
	PACKET_CLOCK_ID = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TIMELINE = 76,
	PACKET_PID = 79,
	PACKET_MACHINE = 98,
	PACKET_FIRST_ON_SEQUENCE = 87,
	PACKET_ZSTD_COMPRESSED = 133,
};

/* TracePacket.SequenceFlags */
#define FLAG_STATE_CLEARED 1
#define FLAG_NEEDS_STATE   2

struct packet {
	uint64_t offset; /* of the outermost packet, in the file */
	uint64_t timestamp, sequence_id, flags, dropped;
	uint32_t clock_id, machine;
	bool has_timestamp, has_clock, cleared, first, has_defaults, has_timeline;
	struct wire_field defaults, timeline; /* has_ says whether they are there */
	struct wire_field payload;            /* number 0: none that matters here */
};

void perfetto_loss(struct perfetto *p, const char *reason, uint64_t count)
{
	if (count && p->events->loss)
		p->events->loss(p->ctx, reason, count);
}

void perfetto_unusable(struct perfetto *p, const char *reason, const char *what, uint64_t offset)
{
	if (reason)
		perfetto_loss(p, reason, 1);
	if (!p->unusable[0])
		snprintf(p->unusable, sizeof(p->unusable), "the packet at byte %llu: %s",
			 (unsigned long long)offset, what);
}

static inline uint64_t sequence_key(const struct packet *packet)
{
	return (uint64_t)packet->machine << 32 | (uint32_t)packet->sequence_id;
}

static struct sequence *find_sequence(struct perfetto *p, const struct packet *packet, bool create)
{
	uint64_t key = sequence_key(packet);
	struct sequence *sequence;

	HASH_FIND(hh, p->sequences, &key, sizeof(key), sequence);
	if (!sequence && create && p->sequence_count < MAX_SEQUENCES) {
		sequence = calloc(1, sizeof(*sequence));
		if (!sequence)
			return NULL;
		sequence->key = key;
		p->sequence_count++;
		HASH_ADD(hh, p->sequences, key, sizeof(key), sequence);
	}
	return sequence;
}

/* True: packets of the sequence were lost before this one. The service also sets the flag on the
 * first packet of a sequence, where it means nothing. */
static bool note_sequence(struct perfetto *p, const struct packet *packet)
{
	uint64_t key = sequence_key(packet);
	bool seen = true;

	if (key != p->last_sequence) {
		p->last_sequence = key;
		seen = find_sequence(p, packet, false) != NULL;
		if (!seen)
			find_sequence(p, packet, true);
	}
	if (!packet->dropped || !seen || packet->first)
		return false;
	perfetto_loss(p, "packets_dropped_by_writer", 1);
	return true;
}

/* What a sequence carries from packet to packet. False: the packet builds on packets that are lost,
 * and trace_processor leaves it out, too. */
static bool keep_state(struct perfetto *p, const struct packet *packet)
{
	bool cleared = packet->cleared || packet->flags & FLAG_STATE_CLEARED;
	struct sequence *sequence = find_sequence(p, packet, true);

	if (sequence && cleared) {
		sequence->default_clock = 0;
		sequence->whole = true;
	} else if (sequence && packet->dropped) {
		sequence->whole = false;
	}
	if (!(packet->flags & FLAG_NEEDS_STATE) || (sequence && sequence->whole))
		return true;
	perfetto_loss(p, "packets_without_state", 1);
	return false;
}

static void read_defaults(struct perfetto *p, const struct packet *packet)
{
	struct wire wire = wire_of(packet->defaults.data, packet->defaults.size);
	struct sequence *sequence = find_sequence(p, packet, true);
	struct wire_field field;

	if (!sequence)
		return;
	sequence->default_clock = 0;
	while (wire_next(&wire, &field) > 0) {
		if (field.number == PACKET_CLOCK_ID && field.type == WIRE_VARINT)
			sequence->default_clock = (uint32_t)field.value;
	}
}

static uint32_t clock_sequence(uint32_t clock_id, const struct packet *packet)
{
	return clock_id >= CLOCK_ID_SEQUENCE_FIRST && clock_id <= CLOCK_ID_SEQUENCE_LAST
		       ? (uint32_t)packet->sequence_id
		       : 0;
}

static int read_clock_snapshot(struct perfetto *p, const struct packet *packet)
{
	struct wire wire = wire_of(packet->payload.data, packet->payload.size), again = wire;
	struct wire_field field, inner;
	int64_t boot_ns = 0;
	bool found = false;

	/* A second pass needs those of the stretch, too. */
	if (p->block_count)
		p->blocks[p->block_count - 1].clocks = true;
	/* two rounds: BOOTTIME may stand behind the clocks that are compared with it */
	for (unsigned round = 0; round < 2; round++, wire = again) {
		while (wire_next(&wire, &field) > 0) {
			uint64_t id = 0, ts = 0, multiplier = 1;
			bool incremental = false;
			struct wire clock;

			if (field.number != 1 || field.type != WIRE_BYTES)
				continue;
			clock = wire_of(field.data, field.size);
			while (wire_next(&clock, &inner) > 0) {
				if (inner.number == 1)
					id = inner.value;
				else if (inner.number == 2)
					ts = inner.value;
				else if (inner.number == 3)
					incremental = inner.value;
				else if (inner.number == 4)
					multiplier = inner.value;
			}
			if (id == CLOCK_ID_BOOTTIME) {
				boot_ns = (int64_t)ts;
				found = true;
			} else if (round == 1 && !incremental && multiplier == 1 &&
				   id <= UINT32_MAX) {
				int err = trace_clocks_add(p->clocks, packet->machine,
							   clock_sequence((uint32_t)id, packet),
							   (uint32_t)id, (int64_t)ts, boot_ns);

				if (err)
					return err;
			}
		}
		if (!found)
			break;
	}
	return 0;
}

static int wait_for_clock(struct perfetto *p, const struct packet *packet, uint32_t clock_id)
{
	struct {
		uint64_t timestamp, sequence_id, machine, offset;
		uint32_t clock_id, size;
	} head = {packet->timestamp, packet->sequence_id,
		  packet->machine,   packet->offset,
		  clock_id,          (uint32_t)packet->timeline.size};

	if (!p->waiting && !(p->waiting = malloc(MAX_WAITING)))
		return -ENOMEM;
	if (packet->timeline.size > MAX_WAITING / 2 ||
	    p->waiting_size + sizeof(head) + head.size > MAX_WAITING) {
		perfetto_unusable(p, "unknown_clock", "its clock is never compared with BOOTTIME",
				  packet->offset);
		return 0;
	}
	memcpy(p->waiting + p->waiting_size, &head, sizeof(head));
	memcpy(p->waiting + p->waiting_size + sizeof(head), packet->timeline.data, head.size);
	p->waiting_size += sizeof(head) + head.size;
	return 0;
}

static int read_timeline(struct perfetto *p, const struct packet *packet, bool may_wait)
{
	struct timeline_event event;
	uint32_t clock_id = packet->clock_id;

	if (!p->events->timeline)
		return 0;
	if (!packet->has_clock) {
		struct sequence *sequence = find_sequence(p, packet, false);

		clock_id = sequence && sequence->default_clock ? sequence->default_clock
							       : CLOCK_ID_BOOTTIME;
	}
	event.machine = packet->machine;
	if ((clock_id != CLOCK_ID_MONOTONIC || event.machine || !p->events->boot_of ||
	     !p->events->boot_of(p->ctx, (int64_t)packet->timestamp, &event.ts_ns)) &&
	    !trace_clocks_convert(p->clocks, event.machine, clock_sequence(clock_id, packet),
				  clock_id, (int64_t)packet->timestamp, &event.ts_ns)) {
		if (may_wait)
			return wait_for_clock(p, packet, clock_id);
		perfetto_unusable(p, "unknown_clock", "its clock is never compared with BOOTTIME",
				  packet->offset);
		return 0;
	}
	if (may_wait && p->waiting_size) {
		int err = perfetto_drain_waiting(p);

		if (err)
			return err;
	}
	if (!packet->has_timestamp ||
	    !frame_timeline_decode(packet->timeline.data, packet->timeline.size, &event)) {
		perfetto_unusable(p, "malformed_timeline_events", "a malformed FrameTimeline event",
				  packet->offset);
		return 0;
	}
	if (!p->events->timeline(p->ctx, &event))
		perfetto_unusable(
			p, NULL,
			"a FrameTimeline event without cookie, token, pid or a possible time",
			packet->offset);
	return 0;
}

/* What waited for a snapshot is placed in time. */
int perfetto_drain_waiting(struct perfetto *p)
{
	size_t size = p->waiting_size, at = 0;
	int err = 0;

	p->waiting_size = 0;
	while (at < size && !err) {
		struct {
			uint64_t timestamp, sequence_id, machine, offset;
			uint32_t clock_id, size;
		} head;
		struct packet packet = {.has_clock = true, .has_timestamp = true};

		memcpy(&head, p->waiting + at, sizeof(head));
		at += sizeof(head);
		packet.offset = head.offset;
		packet.timestamp = head.timestamp;
		packet.sequence_id = head.sequence_id;
		packet.machine = (uint32_t)head.machine;
		packet.clock_id = head.clock_id;
		packet.timeline.data = p->waiting + at;
		packet.timeline.size = head.size;
		at += head.size;
		err = read_timeline(p, &packet, false);
	}
	return err;
}

static int dispatch(struct perfetto *p, unsigned depth, const struct packet *packet)
{
	const struct wire_field *payload = &packet->payload;

	/* Of which CPUs is not told. */
	if (note_sequence(p, packet) && payload->number == PACKET_FTRACE && packet->machine == 0)
		ftrace_lost(&p->ftrace);
	if ((packet->cleared || packet->flags || packet->dropped) && !keep_state(p, packet))
		return 0;
	if (packet->has_defaults)
		read_defaults(p, packet);
	if (packet->has_timeline)
		return read_timeline(p, packet, true);
	switch (payload->number) {
	case PACKET_FTRACE:
		p->ftrace_bundles++;
		/* threads of another machine have numbers of their own: not for us */
		if (packet->machine == 0 &&
		    ftrace_bundle(&p->ftrace, payload->data, payload->size) < 0)
			perfetto_unusable(p, "malformed_ftrace_bundles",
					  "a malformed ftrace bundle", packet->offset);
		return 0;
	case PACKET_PROCESS_TREE:
		if (packet->machine == 0)
			perfetto_process_tree(p, payload);
		return 0;
	case PACKET_CLOCK_SNAPSHOT:
		/* what waits is placed when the next event comes, or at the end: then all the
		 * snapshots that stand here together count, as in trace_processor */
		return read_clock_snapshot(p, packet);
	case PACKET_TRACK_EVENT:
		p->track_events++;
		return 0;
	case PACKET_FTRACE_STATS:
		perfetto_ftrace_stats(p, payload);
		return 0;
	case PACKET_TRACE_STATS:
		perfetto_trace_stats(p, payload);
		return 0;
	case PACKET_PACKAGES_LIST:
		if (packet->machine == 0)
			perfetto_packages(p, payload);
		return 0;
	case PACKET_COMPRESSED:
	case PACKET_ZSTD_COMPRESSED:
		return perfetto_nested(p, depth, payload,
				       payload->number == PACKET_ZSTD_COMPRESSED);
	}
	return 0;
}

/* Member by member and no more than is read: what "= {0}" becomes costs as much as the decoding. */
static inline void packet_clear(struct packet *packet)
{
	packet->timestamp = 0;
	packet->has_timestamp = false;
	packet->sequence_id = 0;
	packet->flags = 0;
	packet->dropped = 0;
	packet->clock_id = 0;
	packet->machine = 0;
	packet->has_clock = false;
	packet->cleared = false;
	packet->first = false;
	packet->has_defaults = false;
	packet->has_timeline = false;
	packet->payload.number = 0;
}

static bool is_tail(const struct packet_tail *tail, const struct wire *rest)
{
	return tail->size && tail->size == (size_t)(rest->end - rest->pos) &&
	       !memcmp(tail->bytes, rest->pos, tail->size);
}

static void keep_tail(struct packet_tail *tail, const uint8_t *bytes, size_t size,
		      uint64_t sequence_id)
{
	if (size > sizeof(tail->bytes))
		return;
	memcpy(tail->bytes, bytes, size);
	tail->size = size;
	tail->sequence_id = sequence_id;
}

/* A FrameTimeline packet as all writers lay it out: clock, time, event, writer. False: another kind
 * of packet, or another writer than the last one; nothing is read of it then. */
static bool read_plain_timeline(struct perfetto *p, const uint8_t *data, size_t size,
				struct packet *packet)
{
	struct wire wire = wire_of(data, size);
	uint64_t length;

	if (size < 16)
		return false;
	if (wire.pos[0] == 0xd0 && wire.pos[1] == 0x03 && wire.pos[2] < 0x80) {
		packet->clock_id = wire.pos[2];
		packet->has_clock = true;
		wire.pos += 3;
	}
	if (*wire.pos++ != (PACKET_TIMESTAMP << 3 | WIRE_VARINT) ||
	    !wire_varint(&wire, &packet->timestamp))
		return false;
	if (wire.end - wire.pos < 2 || wire.pos[0] != 0xe2 || wire.pos[1] != 0x04)
		return false;
	wire.pos += 2;
	if (!wire_varint(&wire, &length) || length > (uint64_t)(wire.end - wire.pos))
		return false;
	packet->timeline.data = wire.pos;
	packet->timeline.size = (size_t)length;
	wire.pos += length;
	if (!is_tail(&p->tail, &wire))
		return false;
	packet->has_timestamp = true;
	packet->has_timeline = true;
	packet->sequence_id = p->tail.sequence_id;
	return true;
}

int perfetto_read_packet(struct perfetto *p, unsigned depth, const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	const uint8_t *tail = NULL; /* where it begins, while it says only who wrote the packet */
	struct wire_field field;
	struct packet packet;
	bool has_writer = false;
	int rc;

	packet_clear(&packet);
	packet.offset = p->packet_offset;
	if (read_plain_timeline(p, data, size, &packet)) {
		p->packet_count++;
		if (sequence_key(&packet) != p->last_sequence)
			note_sequence(p, &packet);
		return read_timeline(p, &packet, true);
	}
	packet_clear(&packet);
	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type == WIRE_BYTES) {
			switch (field.number) {
			case PACKET_TIMELINE:
				packet.timeline = field;
				packet.has_timeline = true;
				tail = wire.pos;
				has_writer = false;
				continue;
			case PACKET_DEFAULTS:
				packet.defaults = field;
				packet.has_defaults = true;
				break;
			case PACKET_FTRACE:
			case PACKET_PROCESS_TREE:
			case PACKET_CLOCK_SNAPSHOT:
			case PACKET_TRACK_EVENT:
			case PACKET_FTRACE_STATS:
			case PACKET_TRACE_STATS:
			case PACKET_PACKAGES_LIST:
			case PACKET_COMPRESSED:
			case PACKET_ZSTD_COMPRESSED:
				packet.payload = field;
				break;
			}
			tail = NULL;
			continue;
		}
		switch (field.number) {
		case PACKET_UID:
		case PACKET_PID:
			continue;
		case PACKET_TIMESTAMP:
			packet.timestamp = field.value;
			packet.has_timestamp = true;
			break;
		case PACKET_SEQUENCE_ID:
			packet.sequence_id = field.value;
			has_writer = tail != NULL;
			continue;
		case PACKET_SEQUENCE_FLAGS:
			packet.flags = field.value;
			break;
		case PACKET_INCREMENTAL_CLEARED:
			packet.cleared = field.value != 0;
			break;
		case PACKET_PREVIOUS_DROPPED:
			packet.dropped = field.value;
			break;
		case PACKET_CLOCK_ID:
			packet.clock_id = (uint32_t)field.value;
			packet.has_clock = true;
			break;
		case PACKET_FIRST_ON_SEQUENCE:
			packet.first = field.value != 0;
			break;
		case PACKET_MACHINE:
			packet.machine = (uint32_t)field.value;
			break;
		}
		tail = NULL;
	}
	if (rc < 0) {
		perfetto_unusable(p, "malformed_packets", "malformed", p->packet_offset);
		return 0;
	}
	if (tail && has_writer)
		keep_tail(&p->tail, tail, (size_t)(wire.end - tail), packet.sequence_id);
	p->packet_count++;
	return dispatch(p, depth, &packet);
}
