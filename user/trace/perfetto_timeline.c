/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto_timeline.h"
#include "trace/wire.h"

/* The highest field number that is read of any of the five messages. */
#define MAX_FIELD 12

/* The field that holds the layer's name, 0: none. */
static const uint8_t layer_fields[TIMELINE_END + 1] = {
	[TIMELINE_EXPECTED_SURFACE] = 5,
	[TIMELINE_ACTUAL_SURFACE] = 5,
};

/* The numeric fields of a message, 0 where it has none of that number; the last one counts. */
struct values {
	uint64_t of[MAX_FIELD + 1];
	uint32_t seen; /* a bit for each number */
};

static void set_outcome(struct timeline_event *event, const struct values *v, unsigned first)
{
	event->present_type = (uint32_t)v->of[first];
	event->on_time = v->of[first + 1] != 0;
	event->gpu = v->of[first + 2] != 0;
	event->jank = (uint32_t)v->of[first + 3];
	event->prediction_type = (uint32_t)v->of[first + 4];
}

static void set_severity(struct timeline_event *event, const struct values *v, unsigned number)
{
	event->has_severity = v->seen >> number & 1;
	event->severity = (uint32_t)v->of[number];
}

static void set_pid(struct timeline_event *event, const struct values *v, unsigned number)
{
	event->has_pid = v->seen >> number & 1;
	event->pid = (int32_t)v->of[number];
}

static void set_event(struct timeline_event *event, const struct values *v)
{
	bool surface;

	event->has_cookie = v->seen >> 1 & 1;
	event->cookie = (int64_t)v->of[1];
	if (event->kind == TIMELINE_END)
		return;
	surface = event->kind >= TIMELINE_EXPECTED_SURFACE;
	event->has_token = v->seen >> 2 & 1;
	event->token = (int64_t)v->of[2];
	event->has_display_token = surface && v->seen >> 3 & 1;
	event->display_token = surface ? (int64_t)v->of[3] : 0;
	set_pid(event, v, surface ? 4 : 3);
	event->has_severity = false;
	event->severity = 0;
	event->is_buffer = -1;
	if (event->kind == TIMELINE_ACTUAL_DISPLAY) {
		set_outcome(event, v, 4);
		set_severity(event, v, 9);
	} else if (event->kind == TIMELINE_ACTUAL_SURFACE) {
		set_outcome(event, v, 6);
		set_severity(event, v, 12);
		if (v->seen >> 11 & 1)
			event->is_buffer = v->of[11] != 0;
	} else {
		event->present_type = 0;
		event->on_time = false;
		event->gpu = false;
		event->jank = 0;
		event->prediction_type = 0;
	}
}

/* Take small fields of one-byte keys, as all of them are, as long as they come: wire_next without
 * what other kinds of fields need. */
static void read_values(struct wire *wire, struct values *values)
{
	uint64_t value;

	while (wire->pos < wire->end) {
		struct wire next = {wire->pos + 1, wire->end};
		unsigned key = *wire->pos, number = key >> 3;

		if (key & 7 || !number || number > MAX_FIELD || !wire_varint(&next, &value))
			return;
		values->of[number] = value;
		values->seen |= 1U << number;
		wire->pos = next.pos;
	}
}

/* An end of nothing but a cookie, as every second event is. */
static bool read_end(struct wire wire, struct timeline_event *event)
{
	uint64_t cookie;

	if (wire.pos == wire.end || *wire.pos++ != (1 << 3 | WIRE_VARINT) ||
	    !wire_varint(&wire, &cookie) || wire.pos != wire.end)
		return false;
	event->has_cookie = true;
	event->cookie = (int64_t)cookie;
	return true;
}

bool frame_timeline_decode(const uint8_t *data, size_t size, struct timeline_event *event)
{
	struct wire wire = wire_of(data, size);
	struct wire_field field;
	struct values values;
	unsigned layer;

	if (wire_next(&wire, &field) <= 0 || field.type != WIRE_BYTES ||
	    field.number < TIMELINE_EXPECTED_DISPLAY || field.number > TIMELINE_END)
		return false;
	event->kind = (enum timeline_kind)field.number;
	event->layer = NULL;
	event->layer_size = 0;
	layer = layer_fields[field.number];
	wire = wire_of(field.data, field.size);
	if (field.number == TIMELINE_END && read_end(wire, event))
		return true;
	memset(&values, 0, sizeof(values));
	for (;;) {
		read_values(&wire, &values);
		if (wire_next(&wire, &field) <= 0)
			break;
		if (field.type == WIRE_VARINT && field.number <= MAX_FIELD) {
			values.of[field.number] = field.value;
			values.seen |= 1U << field.number;
		} else if (field.type == WIRE_BYTES && field.number == layer) {
			event->layer = (const char *)field.data;
			event->layer_size = field.size;
		}
	}
	set_event(event, &values);
	return true;
}
