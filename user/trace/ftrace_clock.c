/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/ftrace_clock.h"

#include "trace/wire.h"

/* FtraceEventBundle, FtraceEvent, CompactSched and FtraceClock of perfetto's
 * protos/perfetto/trace/ftrace. */
enum {
	BUNDLE_EVENT = 2,
	BUNDLE_COMPACT_SCHED = 4,
	BUNDLE_CLOCK = 5,
	BUNDLE_FTRACE_NS = 6,
	BUNDLE_BOOT_NS = 7,
	EVENT_TIMESTAMP = 1,
	COMPACT_SWITCH_NS = 1,
	COMPACT_WAKING_NS = 7,
	FTRACE_CLOCK_BOOT = 0,
	FTRACE_CLOCK_GLOBAL = 2,
	FTRACE_CLOCK_LOCAL = 3,
	FTRACE_CLOCK_MONO_RAW = 4,
};

/* The time of the first event, by which all of the bundle are moved: 0: it has none. */
static uint64_t first_time(const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size), inner;
	struct wire_field field, part;

	while (wire_next(&wire, &field) > 0) {
		bool compact = field.number == BUNDLE_COMPACT_SCHED;

		if (field.type != WIRE_BYTES || (field.number != BUNDLE_EVENT && !compact))
			continue;
		inner = wire_of(field.data, field.size);
		while (wire_next(&inner, &part) > 0) {
			uint64_t ns;
			struct wire deltas;

			if (!compact && part.number == EVENT_TIMESTAMP && part.type == WIRE_VARINT)
				return part.value;
			if (!compact || part.type != WIRE_BYTES ||
			    (part.number != COMPACT_SWITCH_NS && part.number != COMPACT_WAKING_NS))
				continue;
			deltas = wire_of(part.data, part.size);
			if (wire_varint(&deltas, &ns))
				return ns;
		}
	}
	return 0;
}

bool ftrace_offset(struct trace_clocks *clocks, const uint8_t *data, size_t size,
		   int64_t *offset_ns)
{
	struct wire wire = wire_of(data, size);
	uint64_t clock = FTRACE_CLOCK_BOOT, ftrace_ns = 0, boot_ns = 0;
	struct wire_field field;
	int64_t first_ns, there_ns;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == BUNDLE_CLOCK)
			clock = field.value;
		else if (field.number == BUNDLE_FTRACE_NS)
			ftrace_ns = field.value;
		else if (field.number == BUNDLE_BOOT_NS)
			boot_ns = field.value;
	}
	*offset_ns = 0;
	if (clock == FTRACE_CLOCK_BOOT)
		return true;
	if (clock == FTRACE_CLOCK_MONO_RAW) {
		first_ns = (int64_t)first_time(data, size);
		if (!trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC_RAW, first_ns,
					  &there_ns))
			return !first_ns;
		return !__builtin_sub_overflow(there_ns, first_ns, offset_ns);
	}
	*offset_ns = (int64_t)(boot_ns - ftrace_ns);
	return (clock == FTRACE_CLOCK_GLOBAL || clock == FTRACE_CLOCK_LOCAL) && ftrace_ns &&
	       boot_ns;
}
