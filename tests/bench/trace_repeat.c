/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a Perfetto trace as large as wanted by repeating it with shifted clocks, cookies and vsync
 * ids, so that it stays one long trace.
 * usage: trace_repeat IN OUT BYTES all|timeline|ftrace
 *   timeline: only what FrameTimeline needs    ftrace: everything but FrameTimeline, too */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/wire.h"

#define ID_STEP (1LL << 20) /* of cookies and tokens from one repetition to the next */

struct buffer {
	uint8_t *data;
	size_t size, capacity;
};

struct shift {
	int64_t ns, ids;
};

static void need(struct buffer *b, size_t more)
{
	while (b->size + more > b->capacity) {
		b->capacity = b->capacity ? b->capacity * 2 : 4096;
		b->data = realloc(b->data, b->capacity);
		if (!b->data)
			abort();
	}
}

static void put_bytes(struct buffer *b, const void *data, size_t size)
{
	need(b, size);
	memcpy(b->data + b->size, data, size);
	b->size += size;
}

static void put_varint(struct buffer *b, uint64_t value)
{
	need(b, 10);
	for (; value >= 0x80; value >>= 7)
		b->data[b->size++] = (uint8_t)(value | 0x80);
	b->data[b->size++] = (uint8_t)value;
}

static void put_field(struct buffer *b, const struct wire_field *field)
{
	put_varint(b, (uint64_t)field->number << 3 | field->type);
	switch (field->type) {
	case WIRE_VARINT:
		put_varint(b, field->value);
		break;
	case WIRE_FIXED64:
		put_bytes(b, &field->value, 8);
		break;
	case WIRE_FIXED32:
		put_bytes(b, &field->value, 4);
		break;
	case WIRE_BYTES:
		put_varint(b, field->size);
		put_bytes(b, field->data, field->size);
		break;
	}
}

typedef void (*rewrite_fn)(struct buffer *out, const struct wire_field *field, struct shift shift);

/* Rewrite a message field by field and put it as a field of that number. */
static void put_message(struct buffer *out, const struct wire_field *message, rewrite_fn rewrite,
			struct shift shift)
{
	struct wire wire = wire_of(message->data, message->size);
	struct buffer inner = {NULL, 0, 0};
	struct wire_field field;

	while (wire_next(&wire, &field) > 0)
		rewrite(&inner, &field, shift);
	put_varint(out, (uint64_t)message->number << 3 | WIRE_BYTES);
	put_varint(out, inner.size);
	put_bytes(out, inner.data, inner.size);
	free(inner.data);
}

static void shift_event(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire_field copy = *field;

	if (field->number == 1 && field->type == WIRE_VARINT)
		copy.value += (uint64_t)shift.ns;
	put_field(out, &copy);
}

/* The first delta of each array of times is absolute. */
static void shift_compact(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire wire;
	struct buffer inner = {NULL, 0, 0};
	uint64_t first;

	if ((field->number != 1 && field->number != 7) || field->type != WIRE_BYTES) {
		put_field(out, field);
		return;
	}
	wire = wire_of(field->data, field->size);
	if (wire_varint(&wire, &first)) {
		put_varint(&inner, first + (uint64_t)shift.ns);
		put_bytes(&inner, wire.pos, (size_t)(wire.end - wire.pos));
	}
	put_varint(out, (uint64_t)field->number << 3 | WIRE_BYTES);
	put_varint(out, inner.size);
	put_bytes(out, inner.data, inner.size);
	free(inner.data);
}

static void shift_bundle(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	if (field->number == 2 && field->type == WIRE_BYTES)
		put_message(out, field, shift_event, shift);
	else if (field->number == 4 && field->type == WIRE_BYTES)
		put_message(out, field, shift_compact, shift);
	else
		put_field(out, field);
}

static void shift_clock(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire_field copy = *field;

	if (field->number == 2 && field->type == WIRE_VARINT)
		copy.value += (uint64_t)shift.ns;
	put_field(out, &copy);
}

static void shift_snapshot(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	if (field->number == 1 && field->type == WIRE_BYTES)
		put_message(out, field, shift_clock, shift);
	else
		put_field(out, field);
}

static void shift_display(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire_field copy = *field;

	if (field->number <= 2 && field->type == WIRE_VARINT)
		copy.value += (uint64_t)shift.ids;
	put_field(out, &copy);
}

static void shift_surface(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire_field copy = *field;

	if (field->number <= 3 && field->type == WIRE_VARINT)
		copy.value += (uint64_t)shift.ids;
	put_field(out, &copy);
}

static void shift_timeline(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	put_message(out, field,
		    field->number == 3 || field->number == 4 ? shift_surface : shift_display,
		    shift);
}

static void shift_packet(struct buffer *out, const struct wire_field *field, struct shift shift)
{
	struct wire_field copy = *field;

	if (field->number == 8 && field->type == WIRE_VARINT) {
		copy.value += (uint64_t)shift.ns;
		put_field(out, &copy);
	} else if (field->number == 76 && field->type == WIRE_BYTES) {
		put_message(out, field, shift_timeline, shift);
	} else if (field->number == 1 && field->type == WIRE_BYTES) {
		put_message(out, field, shift_bundle, shift);
	} else if (field->number == 6 && field->type == WIRE_BYTES) {
		put_message(out, field, shift_snapshot, shift);
	} else {
		put_field(out, field);
	}
}

/* Whether a packet belongs into the kind of trace that is made. */
static int wanted(const struct wire_field *packet, const char *kind)
{
	struct wire wire = wire_of(packet->data, packet->size);
	struct wire_field field;
	int timeline = 0, ftrace = 0, names = 0;

	while (wire_next(&wire, &field) > 0) {
		timeline |= field.number == 76;
		ftrace |= field.number == 1 && field.type == WIRE_BYTES;
		names |= field.number == 2 || field.number == 6 || field.number == 47;
	}
	if (!strcmp(kind, "timeline"))
		return timeline || names;
	return !strcmp(kind, "all") || ftrace || timeline || names;
}

static void span_of(const uint8_t *data, size_t size, int64_t *first, int64_t *last)
{
	struct wire wire = wire_of(data, size);
	struct wire_field packet, field;

	while (wire_next(&wire, &packet) > 0) {
		struct wire inner = wire_of(packet.data, packet.size);
		int timeline = 0;
		int64_t ts = 0;

		while (wire_next(&inner, &field) > 0) {
			ts = field.number == 8 ? (int64_t)field.value : ts;
			timeline |= field.number == 76;
		}
		if (timeline && ts > 0 && ts < *first)
			*first = ts;
		if (timeline && ts > *last)
			*last = ts;
	}
}

int main(int argc, char **argv)
{
	struct buffer in = {NULL, 0, 0}, out = {NULL, 0, 0};
	int64_t first = INT64_MAX, last = 0, span;
	uint64_t written = 0, wanted_bytes, repetitions = 0;
	FILE *file;
	size_t n;

	if (argc != 5) {
		fprintf(stderr, "usage: trace_repeat IN OUT BYTES all|timeline|ftrace\n");
		return 2;
	}
	file = fopen(argv[1], "rb");
	if (!file) {
		perror(argv[1]);
		return 1;
	}
	do {
		need(&in, 1 << 20);
		n = fread(in.data + in.size, 1, 1 << 20, file);
		in.size += n;
	} while (n);
	fclose(file);
	span_of(in.data, in.size, &first, &last);
	span = last - first + 16666667;
	wanted_bytes = strtoull(argv[3], NULL, 10);
	file = fopen(argv[2], "wb");
	if (!file) {
		perror(argv[2]);
		return 1;
	}
	while (written < wanted_bytes) {
		struct wire wire = wire_of(in.data, in.size);
		struct shift shift = {span * (int64_t)repetitions, ID_STEP * (int64_t)repetitions};
		struct wire_field packet;

		out.size = 0;
		while (wire_next(&wire, &packet) > 0) {
			if (packet.number == 1 && packet.type == WIRE_BYTES &&
			    wanted(&packet, argv[4]))
				put_message(&out, &packet, shift_packet, shift);
		}
		if (!out.size || fwrite(out.data, 1, out.size, file) != out.size)
			break;
		written += out.size;
		repetitions++;
	}
	if (fclose(file) || written < wanted_bytes) {
		perror(argv[2]);
		return 1;
	}
	printf("%llu\n", (unsigned long long)repetitions);
	return 0;
}
