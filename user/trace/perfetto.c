/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto.h"
#include "trace/perfetto_clock.h"
#include "trace/perfetto_ftrace.h"
#include "trace/wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>
#include <zlib.h>
#include <zstd.h>

#define MAX_PACKET    (64U << 20)
#define MAX_SEQUENCES 65536
#define MAX_NESTING   3
#define MAX_INFLATED  (256U << 20) /* of one packet of packets */
#define BLOCK_BYTES   (4U << 20)
#define PIECE_BYTES   (64U << 10)
#define MAX_WAITING   (1U << 20) /* bytes of packets that wait for a clock snapshot */
#define MAX_BUFFERS   64

/* TracePacket */
enum {
	PACKET_FTRACE = 1,
	PACKET_PROCESS_TREE = 2,
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
	PACKET_MACHINE = 98,
	PACKET_FIRST_ON_SEQUENCE = 87,
	PACKET_ZSTD_COMPRESSED = 133,
};

/* What a packet of packets must end with to be found again after damage. */
static const uint8_t sync_marker[] = {0xa2, 0x02, 0x10, 0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42,
				      0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};

struct sequence {
	uint64_t key; /* machine in the upper half */
	uint32_t default_clock;
	UT_hash_handle hh;
};

struct buffer_loss {
	uint64_t overwritten, discarded, writer_loss;
};

/* The framing of one stream of packets; nested streams have their own. */
struct framing {
	uint8_t *carry;
	size_t carry_size, carry_capacity;
	uint64_t skip; /* what is left of a field that nobody wants */
};

struct perfetto {
	const struct trace_events *events;
	void *ctx;
	struct framing framing;
	uint64_t offset, packet_offset;
	bool lost_framing;
	size_t marker_matched;
	struct trace_clocks *clocks;
	struct ftrace_decoder ftrace;
	struct sequence *sequences;
	uint64_t last_sequence; /* key of the packet before; all bits set: none */
	unsigned sequence_count;
	uint64_t track_events, packet_count, ftrace_bundles;
	struct buffer_loss buffers[MAX_BUFFERS];
	uint64_t ftrace_overrun_start, ftrace_overrun;
	uint8_t *waiting; /* FrameTimeline packets whose clock is not known yet, each with its size
			   */
	size_t waiting_size;
	struct perfetto_block *blocks;
	size_t block_count, block_capacity;
	char error[160];
};

struct packet {
	uint64_t timestamp, clock_id, sequence_id, flags, dropped, machine;
	bool has_clock, cleared, first;
	struct wire_field defaults, payload, timeline;
	bool has_defaults, has_timeline;
};

static int packets(struct perfetto *p, struct framing *framing, unsigned depth, const uint8_t *data,
		   size_t size);

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

static void loss(struct perfetto *p, const char *reason, uint64_t count)
{
	if (count && p->events->loss)
		p->events->loss(p->ctx, reason, count);
}

static struct sequence *find_sequence(struct perfetto *p, const struct packet *packet, bool create)
{
	uint64_t key = packet->machine << 32 | (uint32_t)packet->sequence_id;
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

/* The service also sets the flag on the first packet of a sequence, where it means nothing. */
static void note_sequence(struct perfetto *p, const struct packet *packet)
{
	uint64_t key = packet->machine << 32 | (uint32_t)packet->sequence_id;
	bool seen = true;

	if (key != p->last_sequence) {
		p->last_sequence = key;
		seen = find_sequence(p, packet, false) != NULL;
		if (!seen)
			find_sequence(p, packet, true);
	}
	if (packet->dropped && seen && !packet->first)
		loss(p, "packets_dropped_by_writer", 1);
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
				int err = trace_clocks_add(p->clocks, (uint32_t)packet->machine,
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

/* Fields 2 to 4 and up mean different things in each of the five messages; see timeline.h. */
static bool decode_timeline(const struct wire_field *payload, struct timeline_event *event)
{
	struct wire wire = wire_of(payload->data, payload->size);
	struct wire_field outer, field;
	unsigned shift;

	if (wire_next(&wire, &outer) <= 0 || outer.type != WIRE_BYTES || outer.number < 1 ||
	    outer.number > 5)
		return false;
	event->kind = (enum timeline_kind)outer.number;
	/* Surface messages have display_frame_token before pid and layer_name after it: from there
	 * on their numbers are those of the display messages plus 1, and plus 2. */
	shift = event->kind >= TIMELINE_EXPECTED_SURFACE ? 1 : 0;
	wire = wire_of(outer.data, outer.size);
	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1 && field.type == WIRE_VARINT) {
			event->has_cookie = true;
			event->cookie = (int64_t)field.value;
		} else if (event->kind == TIMELINE_END) {
			continue;
		} else if (field.number == 2 && field.type == WIRE_VARINT) {
			event->has_token = true;
			event->token = (int64_t)field.value;
		} else if (shift && field.number == 3 && field.type == WIRE_VARINT) {
			event->has_display_token = true;
			event->display_token = (int64_t)field.value;
		} else if (field.number == 3 + shift && field.type == WIRE_VARINT) {
			event->has_pid = true;
			event->pid = (int32_t)field.value;
		} else if (shift && field.number == 5 && field.type == WIRE_BYTES) {
			event->layer = (const char *)field.data;
			event->layer_size = field.size;
		} else if (field.type == WIRE_VARINT && field.number >= 4 + 2 * shift &&
			   (event->kind == TIMELINE_ACTUAL_DISPLAY ||
			    event->kind == TIMELINE_ACTUAL_SURFACE)) {
			switch (field.number - 2 * shift) {
			case 4:
				event->present_type = (uint32_t)field.value;
				break;
			case 5:
				event->on_time = field.value != 0;
				break;
			case 6:
				event->gpu = field.value != 0;
				break;
			case 7:
				event->jank = (uint32_t)field.value;
				break;
			case 8:
				event->prediction_type = (uint32_t)field.value;
				break;
			case 9:
				/* is_buffer stands here in surface messages, severity after it */
				if (shift) {
					event->is_buffer = field.value != 0;
				} else {
					event->has_severity = true;
					event->severity = (uint32_t)field.value;
				}
				break;
			case 10:
				if (shift) {
					event->has_severity = true;
					event->severity = (uint32_t)field.value;
				}
				break;
			}
		}
	}
	return true;
}

static int wait_for_clock(struct perfetto *p, const struct packet *packet, uint32_t clock_id)
{
	struct {
		uint64_t timestamp, sequence_id, machine;
		uint32_t clock_id, size;
	} head = {packet->timestamp, packet->sequence_id, packet->machine, clock_id,
		  (uint32_t)packet->timeline.size};

	if (!p->waiting && !(p->waiting = malloc(MAX_WAITING)))
		return -ENOMEM;
	if (packet->timeline.size > MAX_WAITING / 2 ||
	    p->waiting_size + sizeof(head) + head.size > MAX_WAITING) {
		loss(p, "unknown_clock", 1);
		return 0;
	}
	memcpy(p->waiting + p->waiting_size, &head, sizeof(head));
	memcpy(p->waiting + p->waiting_size + sizeof(head), packet->timeline.data, head.size);
	p->waiting_size += sizeof(head) + head.size;
	return 0;
}

static int read_timeline(struct perfetto *p, const struct packet *packet, bool may_wait)
{
	struct timeline_event event = {.is_buffer = -1, .machine = (uint32_t)packet->machine};
	uint32_t clock_id = (uint32_t)packet->clock_id;

	if (!p->events->timeline)
		return 0;
	if (!packet->has_clock) {
		struct sequence *sequence = find_sequence(p, packet, false);

		clock_id = sequence && sequence->default_clock ? sequence->default_clock
							       : CLOCK_ID_BOOTTIME;
	}
	if (!trace_clocks_convert(p->clocks, event.machine, clock_sequence(clock_id, packet),
				  clock_id, (int64_t)packet->timestamp, &event.ts_ns)) {
		if (may_wait)
			return wait_for_clock(p, packet, clock_id);
		loss(p, "unknown_clock", 1);
		return 0;
	}
	if (decode_timeline(&packet->timeline, &event))
		p->events->timeline(p->ctx, &event);
	else
		loss(p, "malformed_timeline_events", 1);
	return 0;
}

/* A snapshot came: what waited for it can be placed in time. */
static int drain_waiting(struct perfetto *p)
{
	size_t size = p->waiting_size, at = 0;
	int err = 0;

	p->waiting_size = 0;
	while (at < size && !err) {
		struct {
			uint64_t timestamp, sequence_id, machine;
			uint32_t clock_id, size;
		} head;
		struct packet packet = {.has_clock = true, .has_timeline = true};

		memcpy(&head, p->waiting + at, sizeof(head));
		at += sizeof(head);
		packet.timestamp = head.timestamp;
		packet.sequence_id = head.sequence_id;
		packet.machine = head.machine;
		packet.clock_id = head.clock_id;
		packet.timeline.data = p->waiting + at;
		packet.timeline.size = head.size;
		at += head.size;
		err = read_timeline(p, &packet, false);
	}
	return err;
}

static void read_process(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;
	const char *name = "";
	size_t size = 0;
	int64_t pid = -1, uid = -1;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1)
			pid = (int32_t)field.value;
		else if (field.number == 3 && field.type == WIRE_BYTES && !size) {
			name = (const char *)field.data;
			size = field.size;
		} else if (field.number == 5)
			uid = (int32_t)field.value;
	}
	if (pid >= 0 && p->events->process)
		p->events->process(p->ctx, (int32_t)pid, uid, name, size);
}

static void read_thread(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;
	const char *name = "";
	size_t size = 0;
	int32_t tid = -1, tgid = -1;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1)
			tid = (int32_t)field.value;
		else if (field.number == 2 && field.type == WIRE_BYTES) {
			name = (const char *)field.data;
			size = field.size;
		} else if (field.number == 3)
			tgid = (int32_t)field.value;
	}
	if (tid >= 0 && p->events->thread)
		p->events->thread(p->ctx, tid, tgid, name, size);
}

static void read_process_tree(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;

	while (wire_next(&wire, &field) > 0) {
		if (field.type != WIRE_BYTES)
			continue;
		if (field.number == 1)
			read_process(p, &field);
		else if (field.number == 2)
			read_thread(p, &field);
	}
}

static void read_packages(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size), inner;
	struct wire_field field, part;

	while (p->events->package && wire_next(&wire, &field) > 0) {
		const char *name = NULL;
		size_t size = 0;
		uint64_t uid = 0;

		if (field.number != 1 || field.type != WIRE_BYTES)
			continue;
		inner = wire_of(field.data, field.size);
		while (wire_next(&inner, &part) > 0) {
			if (part.number == 1 && part.type == WIRE_BYTES) {
				name = (const char *)part.data;
				size = part.size;
			} else if (part.number == 2) {
				uid = part.value;
			}
		}
		if (name)
			p->events->package(p->ctx, (uint32_t)uid, name, size);
	}
}

/* The counters of TraceStats.buffer_stats only grow; the last ones stand for the whole trace. */
static void read_trace_stats(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size), inner;
	struct wire_field field, part;
	unsigned n = 0;

	while (wire_next(&wire, &field) > 0) {
		struct buffer_loss *buffer;

		if (field.number != 1 || field.type != WIRE_BYTES || n == MAX_BUFFERS)
			continue;
		buffer = &p->buffers[n++];
		inner = wire_of(field.data, field.size);
		while (wire_next(&inner, &part) > 0) {
			if (part.number == 3)
				buffer->overwritten = part.value;
			else if (part.number == 18)
				buffer->discarded = part.value;
			else if (part.number == 19)
				buffer->writer_loss = part.value;
		}
	}
}

/* FtraceStats: phase 1 (1 start, 2 end), cpu_stats 2 {overrun 3}. */
static void read_ftrace_stats(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size), inner;
	struct wire_field field, part;
	uint64_t phase = 0, overrun = 0;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1 && field.type == WIRE_VARINT)
			phase = field.value;
		if (field.number != 2 || field.type != WIRE_BYTES)
			continue;
		inner = wire_of(field.data, field.size);
		while (wire_next(&inner, &part) > 0)
			overrun += part.number == 3 && part.type == WIRE_VARINT ? part.value : 0;
	}
	if (phase == 1)
		p->ftrace_overrun_start = overrun;
	else if (overrun > p->ftrace_overrun_start)
		p->ftrace_overrun = overrun - p->ftrace_overrun_start;
}

static int inflate_zlib(struct perfetto *p, struct framing *framing, unsigned depth,
			const struct wire_field *field, uint8_t *out)
{
	z_stream z = {.next_in = (uint8_t *)field->data, .avail_in = (unsigned)field->size};
	size_t total = 0;
	int rc, err = 0;

	if (inflateInit2(&z, 15 + 32) != Z_OK)
		return -ENOMEM;
	do {
		z.next_out = out;
		z.avail_out = PIECE_BYTES;
		rc = inflate(&z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END) {
			loss(p, "damaged_compressed_packets", 1);
			break;
		}
		total += PIECE_BYTES - z.avail_out;
		if (total > MAX_INFLATED) {
			loss(p, "oversized_compressed_packets", 1);
			break;
		}
		err = packets(p, framing, depth, out, PIECE_BYTES - z.avail_out);
	} while (!err && rc != Z_STREAM_END);
	inflateEnd(&z);
	return err;
}

static int inflate_zstd(struct perfetto *p, struct framing *framing, unsigned depth,
			const struct wire_field *field, uint8_t *out)
{
	ZSTD_DStream *stream = ZSTD_createDStream();
	ZSTD_inBuffer in = {field->data, field->size, 0};
	size_t total = 0;
	bool full = false;
	int err = 0;

	if (!stream)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 25);
	while (!err && (in.pos < in.size || full)) {
		ZSTD_outBuffer piece = {out, PIECE_BYTES, 0};
		size_t rc = ZSTD_decompressStream(stream, &piece, &in);

		if (ZSTD_isError(rc)) {
			loss(p, "damaged_compressed_packets", 1);
			break;
		}
		total += piece.pos;
		if (total > MAX_INFLATED) {
			loss(p, "oversized_compressed_packets", 1);
			break;
		}
		err = packets(p, framing, depth, out, piece.pos);
		full = piece.pos == PIECE_BYTES;
	}
	ZSTD_freeDStream(stream);
	return err;
}

/* A packet that holds compressed packets: they count at its place in the file. */
static int nested_packets(struct perfetto *p, unsigned depth, const struct wire_field *field)
{
	struct framing framing = {.carry = NULL};
	uint8_t *out;
	int err;

	if (depth + 1 > MAX_NESTING) {
		loss(p, "packets_nested_too_deep", 1);
		return 0;
	}
	out = malloc(PIECE_BYTES);
	if (!out)
		return -ENOMEM;
	if (field->number == PACKET_COMPRESSED)
		err = inflate_zlib(p, &framing, depth + 1, field, out);
	else
		err = inflate_zstd(p, &framing, depth + 1, field, out);
	if (err == -EBADMSG) {
		loss(p, "damaged_compressed_packets", 1);
		err = 0;
	} else if (framing.carry_size || framing.skip) {
		loss(p, "truncated_packets", 1);
	}
	free(framing.carry);
	free(out);
	return err;
}

static int dispatch(struct perfetto *p, unsigned depth, const struct packet *packet)
{
	const struct wire_field *payload = &packet->payload;
	int err;

	note_sequence(p, packet);
	if (packet->cleared || packet->flags & 1) {
		struct sequence *sequence = find_sequence(p, packet, false);

		if (sequence)
			sequence->default_clock = 0;
	}
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
			loss(p, "malformed_ftrace_bundles", 1);
		return 0;
	case PACKET_PROCESS_TREE:
		if (packet->machine == 0)
			read_process_tree(p, payload);
		return 0;
	case PACKET_CLOCK_SNAPSHOT:
		err = read_clock_snapshot(p, packet);
		return err ? err : drain_waiting(p);
	case PACKET_TRACK_EVENT:
		p->track_events++;
		return 0;
	case PACKET_FTRACE_STATS:
		read_ftrace_stats(p, payload);
		return 0;
	case PACKET_TRACE_STATS:
		read_trace_stats(p, payload);
		return 0;
	case PACKET_PACKAGES_LIST:
		if (packet->machine == 0)
			read_packages(p, payload);
		return 0;
	case PACKET_COMPRESSED:
	case PACKET_ZSTD_COMPRESSED:
		return nested_packets(p, depth, payload);
	}
	return 0;
}

static int read_packet(struct perfetto *p, unsigned depth, const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct packet packet = {.timestamp = 0};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type == WIRE_BYTES) {
			switch (field.number) {
			case PACKET_TIMELINE:
				packet.timeline = field;
				packet.has_timeline = true;
				break;
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
			continue;
		}
		switch (field.number) {
		case PACKET_TIMESTAMP:
			packet.timestamp = field.value;
			break;
		case PACKET_SEQUENCE_ID:
			packet.sequence_id = field.value;
			break;
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
			packet.clock_id = field.value;
			packet.has_clock = true;
			break;
		case PACKET_FIRST_ON_SEQUENCE:
			packet.first = field.value != 0;
			break;
		case PACKET_MACHINE:
			packet.machine = (uint32_t)field.value;
			break;
		}
	}
	if (rc < 0) {
		loss(p, "malformed_packets", 1);
		return 0;
	}
	p->packet_count++;
	return dispatch(p, depth, &packet);
}

/* The head of a top-level field: 1, 0 when more bytes are needed, -EBADMSG. */
static int read_head(const uint8_t *data, size_t size, struct wire_field *field, size_t *used)
{
	struct wire wire = wire_of(data, size);
	uint64_t key, length;

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

/* Note where a stretch of the file begins, once every BLOCK_BYTES. */
static int mark_block(struct perfetto *p, uint64_t offset)
{
	struct perfetto_block *block = p->block_count ? &p->blocks[p->block_count - 1] : NULL;

	if (block) {
		block->size = offset - block->offset;
		block->first_ns = p->ftrace.first_ns;
		block->last_ns = p->ftrace.last_ns;
		if (block->size < BLOCK_BYTES)
			return 0;
	}
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
	return 0;
}

/* Take one field that is whole. */
static int take(struct perfetto *p, unsigned depth, const struct wire_field *field,
		const uint8_t *data)
{
	if (field->number != 1 || field->type != WIRE_BYTES)
		return 0;
	return read_packet(p, depth, data, field->size);
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

		loss(p, "oversized_packets", 1);
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

static int packets(struct perfetto *p, struct framing *framing, unsigned depth, const uint8_t *data,
		   size_t size)
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
			rc = mark_block(p, p->packet_offset);
			if (rc)
				return rc;
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
			rc = packets(p, &p->framing, 0, data, size);
			if (rc != -EBADMSG) {
				p->offset += size;
				return p->error[0] && !rc ? -EBADMSG : rc;
			}
			if (!p->error[0])
				snprintf(p->error, sizeof(p->error),
					 "damaged at byte %llu: no packet starts there",
					 (unsigned long long)p->packet_offset);
			loss(p, "damaged_stretches", 1);
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
	uint64_t overwritten = 0, discarded = 0, writer_loss = 0;
	bool cut = p->framing.carry_size || p->framing.skip;

	mark_block(p, p->offset);
	drain_waiting(p);
	for (unsigned i = 0; i < MAX_BUFFERS; i++) {
		overwritten += p->buffers[i].overwritten;
		discarded += p->buffers[i].discarded;
		writer_loss += p->buffers[i].writer_loss;
	}
	loss(p, "chunks_overwritten", overwritten);
	loss(p, "chunks_discarded", discarded);
	loss(p, "writer_packet_loss", writer_loss);
	loss(p, "ftrace_overrun", p->ftrace_overrun);
	if (cut)
		loss(p, "truncated_packets", 1);
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

uint64_t perfetto_packets(const struct perfetto *p)
{
	return p->packet_count;
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
}
