/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tracing service and the kernel say that they lost. */
#include "trace/perfetto_private.h"

static void tell_growth(struct perfetto *p, const char *reason, uint64_t now, uint64_t *told)
{
	if (now <= *told)
		return;
	perfetto_loss(p, reason, now - *told);
	*told = now;
}

/* The counters of TraceStats.buffer_stats only grow: what is new is told at once. */
void perfetto_trace_stats(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size), inner;
	struct wire_field field, part;
	struct buffer_loss sum = {0};
	unsigned n = 0;

	while (wire_next(&wire, &field) > 0) {
		struct buffer_loss *buffer;

		if (field.number != 1 || field.type != WIRE_BYTES || n == PERFETTO_MAX_BUFFERS)
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
	for (unsigned i = 0; i < PERFETTO_MAX_BUFFERS; i++) {
		sum.overwritten += p->buffers[i].overwritten;
		sum.discarded += p->buffers[i].discarded;
		sum.writer_loss += p->buffers[i].writer_loss;
	}
	tell_growth(p, "chunks_overwritten", sum.overwritten, &p->told.overwritten);
	tell_growth(p, "chunks_discarded", sum.discarded, &p->told.discarded);
	tell_growth(p, "writer_packet_loss", sum.writer_loss, &p->told.writer_loss);
}

/* FtraceStats: phase 1 (1 start, 2 end), cpu_stats 2 {overrun 3}. */
void perfetto_ftrace_stats(struct perfetto *p, const struct wire_field *message)
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
