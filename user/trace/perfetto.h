/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes a Perfetto trace that is pushed in piece by piece and hands out events. It keeps one
 * packet at most (the one cut by the end of a piece), clock snapshots and the defaults of each
 * packet sequence. Field numbers: perfetto's protos/perfetto/trace. */
#pragma once
#include "jankscope/timeline.h"

struct perfetto;

/* NULL with errno on failure. The events must outlive the decoder. */
struct perfetto *perfetto_new(const struct trace_events *events, void *ctx);
void perfetto_free(struct perfetto *perfetto);

/* Decode the packets that are complete by now. 0; -EBADMSG: the framing is broken (the offset is
 * in perfetto_error; decoding goes on at the next synchronisation marker); -ENOMEM. */
int perfetto_feed(struct perfetto *perfetto, const uint8_t *data, size_t size);

/* The trace ends here. True: it ends inside a packet, at perfetto_packet_offset. */
bool perfetto_finish(struct perfetto *perfetto);

/* Offset of the packet that is being collected, or where the framing broke. */
uint64_t perfetto_packet_offset(const struct perfetto *perfetto);
/* One line about broken framing, "" when there was none. */
const char *perfetto_error(const struct perfetto *perfetto);
/* One line about the first thing that was framed well but could not be used, "" for none. */
const char *perfetto_unusable_line(const struct perfetto *perfetto);

/* Packets that were whole. */
uint64_t perfetto_packets(const struct perfetto *perfetto);
/* trace_clocks_error() of its clocks. */
int64_t perfetto_clock_error(const struct perfetto *perfetto, int64_t from_ns, int64_t to_ns);
/* Bundles of ftrace events that were seen. */
uint64_t perfetto_ftrace_bundles(const struct perfetto *perfetto);
/* Whether the trace had track events (atrace through the SDK goes there). */
uint64_t perfetto_track_events(const struct perfetto *perfetto);

/* A stretch of the trace and the span of the scheduler and marker events in it. */
struct perfetto_block {
	uint64_t offset, size;
	int64_t first_ns, last_ns;
	bool clocks; /* it has snapshots of clocks */
};

/* Stretches of about 4 MiB in file order, so that a second pass can leave most of them out. A
 * stretch starts at a packet. Valid until the next feed. */
const struct perfetto_block *perfetto_blocks(const struct perfetto *perfetto, size_t *count);
/* The next byte fed is the start of a packet at this offset: forget a cut packet. */
void perfetto_seek(struct perfetto *perfetto, uint64_t offset);
