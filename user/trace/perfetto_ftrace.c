/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto_ftrace.h"
#include "trace/atrace.h"
#include "trace/ftrace_clock.h"
#include <limits.h>

/* FtraceEventBundle, FtraceEvent and CompactSched of perfetto's protos/perfetto/trace/ftrace. */
enum {
	BUNDLE_CPU = 1,
	BUNDLE_EVENT = 2,
	BUNDLE_LOST = 3,
	BUNDLE_COMPACT_SCHED = 4,
	EVENT_TIMESTAMP = 1,
	EVENT_TID = 2,
	EVENT_PRINT = 3,
	EVENT_SCHED_SWITCH = 4,
	EVENT_COMMON_FLAGS = 5,
	EVENT_SCHED_WAKEUP = 17,
	EVENT_SCHED_BLOCKED = 18,
	EVENT_SCHED_WAKING = 20,
	EVENT_BINDER = 50,
	EVENT_BINDER_RECEIVED = 51,
	EVENT_MDSS_MARK = 80,
	EVENT_SCHED_WAKEUP_NEW = 114,
	EVENT_NEW_TASK = 235,
	EVENT_SDE_MARK = 333,
	EVENT_DPU_MARK = 348,
	COMPACT_SWITCH_NS = 1,
	COMPACT_PREV_STATE = 2,
	COMPACT_NEXT_TID = 3,
	COMPACT_INTERN = 5,
	COMPACT_NEXT_COMM = 6,
	COMPACT_WAKING_NS = 7,
	COMPACT_WAKING_TID = 8,
	COMPACT_WAKING_FLAGS = 12,
};

#define MAX_INTERNED 256
/* TRACE_FLAG_HARDIRQ and TRACE_FLAG_SOFTIRQ of the kernel's trace_events.h */
#define FLAGS_IN_INTERRUPT 0x18

static void seen(struct ftrace_decoder *d, int64_t ts_ns)
{
	if (ts_ns < d->first_ns)
		d->first_ns = ts_ns;
	if (ts_ns > d->last_ns)
		d->last_ns = ts_ns;
}

static int decode_print(struct ftrace_decoder *d, int64_t ts_ns, int32_t tid, const uint8_t *data,
			size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_mark mark;
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.number != 2 || field.type != WIRE_BYTES)
			continue;
		if (atrace_parse((const char *)field.data, field.size, &mark)) {
			mark.ts_ns = ts_ns;
			mark.tid = tid;
			d->events->mark(d->ctx, &mark);
		} else if (field.size > 2 && field.data[1] == '|' && d->events->loss) {
			d->events->loss(d->ctx, "malformed_markers", 1);
		}
	}
	return rc;
}

/* What stands around an event. */
struct around {
	int64_t ts_ns;
	int32_t cpu, tid;
	uint32_t flags;
};

static int decode_switch(struct ftrace_decoder *d, const struct around *around, const uint8_t *data,
			 size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_switch event = {.ts_ns = around->ts_ns,
				     .cpu = around->cpu,
				     .prev_tid = -1,
				     .lost = d->lost[around->cpu]};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		switch (field.number) {
		case 1:
			if (field.type == WIRE_BYTES) {
				event.prev_comm = (const char *)field.data;
				event.prev_comm_size = field.size;
			}
			break;
		case 2:
			event.prev_tid = (int32_t)field.value;
			break;
		case 4:
			event.prev_state = (int64_t)field.value;
			break;
		case 5:
			if (field.type == WIRE_BYTES) {
				event.next_comm = (const char *)field.data;
				event.next_comm_size = field.size;
			}
			break;
		case 6:
			event.next_tid = (int32_t)field.value;
			break;
		}
	}
	d->lost[around->cpu] = false;
	d->events->sched_switch(d->ctx, &event);
	return rc;
}

/* placed: sched_waking comes before the run queue is chosen. */
static int decode_wakeup(struct ftrace_decoder *d, const struct around *around, bool placed,
			 const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_wakeup event = {.ts_ns = around->ts_ns,
				     .cpu = around->cpu,
				     .waker_tid = around->tid,
				     .target_cpu = -1,
				     .interrupt = around->flags & FLAGS_IN_INTERRUPT};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type != WIRE_VARINT)
			continue;
		if (field.number == 2)
			event.tid = (int32_t)field.value;
		else if (field.number == 5 && placed)
			event.target_cpu = (int32_t)field.value;
	}
	d->events->wakeup(d->ctx, &event);
	return rc;
}

/* A thread that was just made is ready to run. */
static int decode_new_task(struct ftrace_decoder *d, const struct around *around,
			   const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_wakeup event = {.ts_ns = around->ts_ns,
				     .cpu = around->cpu,
				     .waker_tid = around->tid,
				     .target_cpu = -1};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0)
		if (field.number == 1 && field.type == WIRE_VARINT)
			event.tid = (int32_t)field.value;
	d->events->wakeup(d->ctx, &event);
	return rc;
}

static int decode_blocked(struct ftrace_decoder *d, const struct around *around,
			  const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_blocked event = {.ts_ns = around->ts_ns};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.number == 1 && field.type == WIRE_VARINT)
			event.tid = (int32_t)field.value;
		else if (field.number == 3 && field.type == WIRE_VARINT)
			event.io_wait = field.value != 0;
	}
	d->events->blocked(d->ctx, &event);
	return rc;
}

static int decode_binder(struct ftrace_decoder *d, const struct around *around, bool received,
			 const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct trace_binder event = {
		.ts_ns = around->ts_ns, .tid = around->tid, .received = received};
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type != WIRE_VARINT)
			continue;
		switch (field.number) {
		case 1:
			event.id = (int64_t)field.value;
			break;
		case 3:
			event.to_pid = (int32_t)field.value;
			break;
		case 4:
			event.to_tid = (int32_t)field.value;
			break;
		case 5:
			event.reply = field.value != 0;
			break;
		case 7:
			event.one_way = field.value & 1; /* TF_ONE_WAY */
			break;
		}
	}
	d->events->binder(d->ctx, &event);
	return rc;
}

/* One event. Most are of kinds that nobody wants: those cost a timestamp and a field number. */
static int decode_event(struct ftrace_decoder *d, int32_t cpu, int64_t offset_ns,
			const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct around around = {.cpu = cpu};
	const struct trace_events *events = d->events;
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type == WIRE_VARINT) {
			if (field.number == EVENT_TIMESTAMP) {
				around.ts_ns = (int64_t)field.value + offset_ns;
				seen(d, around.ts_ns);
			} else if (field.number == EVENT_TID) {
				around.tid = (int32_t)field.value;
			} else if (field.number == EVENT_COMMON_FLAGS) {
				around.flags = (uint32_t)field.value;
			}
			continue;
		}
		if (field.type != WIRE_BYTES)
			continue;
		switch (field.number) {
		case EVENT_PRINT:
			if (events->mark)
				rc = decode_print(d, around.ts_ns, around.tid, field.data,
						  field.size);
			break;
		case EVENT_SCHED_SWITCH:
			if (events->sched_switch)
				rc = decode_switch(d, &around, field.data, field.size);
			break;
		case EVENT_SCHED_WAKEUP:
		case EVENT_SCHED_WAKING:
		case EVENT_SCHED_WAKEUP_NEW:
			if (events->wakeup)
				rc = decode_wakeup(d, &around, field.number != EVENT_SCHED_WAKING,
						   field.data, field.size);
			break;
		case EVENT_NEW_TASK:
			if (events->wakeup)
				rc = decode_new_task(d, &around, field.data, field.size);
			break;
		case EVENT_SCHED_BLOCKED:
			if (events->blocked)
				rc = decode_blocked(d, &around, field.data, field.size);
			break;
		case EVENT_BINDER:
		case EVENT_BINDER_RECEIVED:
			if (events->binder)
				rc = decode_binder(d, &around,
						   field.number == EVENT_BINDER_RECEIVED,
						   field.data, field.size);
			break;
		}
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* The arrays of a CompactSched message, each a run of varints. */
struct compact {
	struct wire switch_ns, state, next_tid, next_comm, waking_ns, waking_tid, waking_flags;
	const uint8_t *interned[MAX_INTERNED];
	size_t interned_size[MAX_INTERNED];
	size_t interned_count;
};

static int read_compact(struct compact *c, const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size);
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		if (field.type != WIRE_BYTES)
			continue;
		switch (field.number) {
		case COMPACT_SWITCH_NS:
			c->switch_ns = wire_of(field.data, field.size);
			break;
		case COMPACT_PREV_STATE:
			c->state = wire_of(field.data, field.size);
			break;
		case COMPACT_NEXT_TID:
			c->next_tid = wire_of(field.data, field.size);
			break;
		case COMPACT_NEXT_COMM:
			c->next_comm = wire_of(field.data, field.size);
			break;
		case COMPACT_WAKING_NS:
			c->waking_ns = wire_of(field.data, field.size);
			break;
		case COMPACT_WAKING_TID:
			c->waking_tid = wire_of(field.data, field.size);
			break;
		case COMPACT_WAKING_FLAGS:
			c->waking_flags = wire_of(field.data, field.size);
			break;
		case COMPACT_INTERN:
			if (c->interned_count < MAX_INTERNED) {
				c->interned[c->interned_count] = field.data;
				c->interned_size[c->interned_count++] = field.size;
			}
			break;
		}
	}
	return rc;
}

static int decode_compact(struct ftrace_decoder *d, int32_t cpu, int64_t offset_ns,
			  const uint8_t *data, size_t size)
{
	struct compact c = {.interned_count = 0};
	uint64_t delta, state, next, comm;
	int64_t ts_ns = offset_ns;
	int32_t *last = &d->last_next_tid[cpu];
	int rc = read_compact(&c, data, size);

	if (rc < 0)
		return rc;
	while (d->events->sched_switch && wire_varint(&c.switch_ns, &delta) &&
	       wire_varint(&c.state, &state) && wire_varint(&c.next_tid, &next)) {
		struct trace_switch event = {
			.cpu = cpu,
			.prev_tid = *last ? *last - 1 : -1,
			.next_tid = (int32_t)next,
			.prev_state = (int64_t)state,
			.lost = d->lost[cpu],
		};

		ts_ns = (int64_t)((uint64_t)ts_ns + delta);
		seen(d, ts_ns);
		event.ts_ns = ts_ns;
		if (wire_varint(&c.next_comm, &comm) && comm < c.interned_count) {
			event.next_comm = (const char *)c.interned[comm];
			event.next_comm_size = c.interned_size[comm];
		}
		/* stored off by one so that 0 can mean unknown: tid 0 is the idle task */
		*last = next < INT32_MAX ? (int32_t)next + 1 : 0;
		d->lost[cpu] = false;
		d->events->sched_switch(d->ctx, &event);
	}
	ts_ns = offset_ns;
	while (d->events->wakeup && wire_varint(&c.waking_ns, &delta) &&
	       wire_varint(&c.waking_tid, &next)) {
		struct trace_wakeup event = {
			.tid = (int32_t)next, .cpu = cpu, .waker_tid = -1, .target_cpu = -1};

		if (wire_varint(&c.waking_flags, &comm))
			event.interrupt = comm & FLAGS_IN_INTERRUPT;
		ts_ns = (int64_t)((uint64_t)ts_ns + delta);
		seen(d, ts_ns);
		event.ts_ns = ts_ns;
		d->events->wakeup(d->ctx, &event);
	}
	return 0;
}

/* Nobody wants these events now, but a second pass must know where they are. */
static int span_of_compact(struct ftrace_decoder *d, int64_t offset_ns, const uint8_t *data,
			   size_t size)
{
	struct wire wire = wire_of(data, size);
	struct wire_field field;
	int rc;

	while ((rc = wire_next(&wire, &field)) > 0) {
		uint64_t ts_ns = (uint64_t)offset_ns, delta;
		struct wire deltas;

		if (field.type != WIRE_BYTES ||
		    (field.number != COMPACT_SWITCH_NS && field.number != COMPACT_WAKING_NS))
			continue;
		deltas = wire_of(field.data, field.size);
		if (!wire_varint(&deltas, &delta))
			continue;
		ts_ns += delta;
		seen(d, (int64_t)ts_ns);
		while (wire_varint(&deltas, &delta))
			ts_ns += delta;
		seen(d, (int64_t)ts_ns);
	}
	return rc;
}

void ftrace_lost(struct ftrace_decoder *d)
{
	memset(d->last_next_tid, 0, sizeof(d->last_next_tid));
	memset(d->lost, true, sizeof(d->lost));
}

int ftrace_bundle(struct ftrace_decoder *d, const uint8_t *data, size_t size)
{
	struct wire wire = wire_of(data, size), again = wire;
	struct wire_field field;
	uint64_t cpu = 0, lost = 0;
	int64_t offset_ns = 0;
	int rc;

	/* What stands behind the events counts for them, too. */
	while ((rc = wire_next(&wire, &field)) > 0) {
		switch (field.number) {
		case BUNDLE_CPU:
			cpu = field.value;
			break;
		case BUNDLE_LOST:
			lost = field.value;
			break;
		}
	}
	if (cpu >= FTRACE_MAX_CPU)
		return -EBADMSG;
	if (lost) {
		d->last_next_tid[cpu] = 0;
		d->lost[cpu] = true;
		if (d->events->loss)
			d->events->loss(d->ctx, "ftrace_bundles_with_loss", 1);
	}
	if (!ftrace_offset(d->clocks, data, size, &offset_ns)) {
		if (d->events->loss)
			d->events->loss(d->ctx, "ftrace_bundles_without_clock", 1);
		return 0;
	}
	while ((rc = wire_next(&again, &field)) > 0) {
		if (field.type != WIRE_BYTES)
			continue;
		if (field.number == BUNDLE_EVENT)
			rc = decode_event(d, (int32_t)cpu, offset_ns, field.data, field.size);
		else if (field.number == BUNDLE_COMPACT_SCHED)
			rc = d->events->sched_switch || d->events->wakeup
				     ? decode_compact(d, (int32_t)cpu, offset_ns, field.data,
						      field.size)
				     : span_of_compact(d, offset_ns, field.data, field.size);
		if (rc < 0)
			return rc;
	}
	return rc;
}
