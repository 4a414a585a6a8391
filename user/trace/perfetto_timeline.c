/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto_timeline.h"
#include "trace/wire.h"

enum meaning {
	IGNORED,
	COOKIE,
	TOKEN,
	DISPLAY_TOKEN,
	PID,
	LAYER,
	PRESENT,
	ON_TIME,
	GPU,
	JANK,
	PREDICTION,
	IS_BUFFER,
	SEVERITY,
	MEANINGS
};

/* What each field of the five messages means, by its number. */
static const uint8_t meanings[TIMELINE_END + 1][MEANINGS] = {
	[TIMELINE_EXPECTED_DISPLAY] = {IGNORED, COOKIE, TOKEN, PID},
	[TIMELINE_ACTUAL_DISPLAY] = {IGNORED, COOKIE, TOKEN, PID, PRESENT, ON_TIME, GPU, JANK,
				     PREDICTION, SEVERITY},
	[TIMELINE_EXPECTED_SURFACE] = {IGNORED, COOKIE, TOKEN, DISPLAY_TOKEN, PID, LAYER},
	[TIMELINE_ACTUAL_SURFACE] = {IGNORED, COOKIE, TOKEN, DISPLAY_TOKEN, PID, LAYER, PRESENT,
				     ON_TIME, GPU, JANK, PREDICTION, IS_BUFFER, SEVERITY},
	[TIMELINE_END] = {IGNORED, COOKIE},
};

/* Member by member: what the compiler makes of "= {0}" costs more than the rest of the decoding. */
static inline void clear(struct timeline_event *event)
{
	event->has_cookie = false;
	event->has_token = false;
	event->has_display_token = false;
	event->has_pid = false;
	event->has_severity = false;
	event->on_time = false;
	event->gpu = false;
	event->is_buffer = -1;
	event->pid = 0;
	event->cookie = 0;
	event->token = 0;
	event->display_token = 0;
	event->present_type = 0;
	event->prediction_type = 0;
	event->severity = 0;
	event->jank = 0;
	event->layer = NULL;
	event->layer_size = 0;
}

static inline void set(struct timeline_event *event, enum meaning meaning, uint64_t value)
{
	switch (meaning) {
	case COOKIE:
		event->has_cookie = true;
		event->cookie = (int64_t)value;
		break;
	case TOKEN:
		event->has_token = true;
		event->token = (int64_t)value;
		break;
	case DISPLAY_TOKEN:
		event->has_display_token = true;
		event->display_token = (int64_t)value;
		break;
	case PID:
		event->has_pid = true;
		event->pid = (int32_t)value;
		break;
	case PRESENT:
		event->present_type = (uint32_t)value;
		break;
	case ON_TIME:
		event->on_time = value != 0;
		break;
	case GPU:
		event->gpu = value != 0;
		break;
	case JANK:
		event->jank = (uint32_t)value;
		break;
	case PREDICTION:
		event->prediction_type = (uint32_t)value;
		break;
	case IS_BUFFER:
		event->is_buffer = value != 0;
		break;
	case SEVERITY:
		event->has_severity = true;
		event->severity = (uint32_t)value;
		break;
	case LAYER:
	case IGNORED:
	case MEANINGS:
		break;
	}
}

bool frame_timeline_decode(const uint8_t *data, size_t size, struct timeline_event *event)
{
	struct wire wire = wire_of(data, size);
	struct wire_field field;
	const uint8_t *known;

	if (wire_next(&wire, &field) <= 0 || field.type != WIRE_BYTES ||
	    field.number < TIMELINE_EXPECTED_DISPLAY || field.number > TIMELINE_END)
		return false;
	clear(event);
	event->kind = (enum timeline_kind)field.number;
	known = meanings[field.number];
	wire = wire_of(field.data, field.size);
	while (wire_next(&wire, &field) > 0) {
		enum meaning meaning = field.number < MEANINGS ? known[field.number] : IGNORED;

		if (field.type == WIRE_VARINT) {
			set(event, meaning, field.value);
		} else if (field.type == WIRE_BYTES && meaning == LAYER) {
			event->layer = (const char *)field.data;
			event->layer_size = field.size;
		}
	}
	return true;
}
