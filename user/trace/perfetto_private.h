/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the Perfetto decoder share: the framing (perfetto.c), what a packet says
 * (perfetto_packet.c) and what some kinds of packets hold. */
#pragma once
#include "trace/perfetto.h"
#include "trace/perfetto_clock.h"
#include "trace/perfetto_ftrace.h"
#include "trace/wire.h"
#include <uthash.h>

#define PERFETTO_MAX_BUFFERS 64

struct sequence {
	uint64_t key; /* machine in the upper half */
	uint32_t default_clock;
	bool whole; /* its incremental state was cleared once and nothing was lost since */
	UT_hash_handle hh;
};

/* How the packet before ended, behind its FrameTimeline event: who wrote it. A writer ends all its
 * packets alike, and comparing is cheaper than decoding. */
struct packet_tail {
	uint8_t bytes[16];
	size_t size; /* 0: none is remembered */
	uint64_t sequence_id;
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
	struct packet_tail tail;
	uint64_t packages_hash; /* of the last packages list */
	uint64_t track_events, packet_count, ftrace_bundles;
	struct buffer_loss buffers[PERFETTO_MAX_BUFFERS], told;
	uint64_t ftrace_overrun_start, ftrace_overrun;
	uint8_t *waiting; /* FrameTimeline packets whose clock is not known yet, each with its size
			   */
	size_t waiting_size;
	struct perfetto_block *blocks;
	size_t block_count, block_capacity;
	uint64_t next_block; /* offset where the stretch is long enough for another one to begin */
	char error[160], unusable[160];
};

/* Count a loss, if anyone listens. */
void perfetto_loss(struct perfetto *perfetto, const char *reason, uint64_t count);
/* Count something that is in the trace but cannot be used; the first of them is told in a line,
 * with the offset of its packet. Reason NULL: it is counted already. */
void perfetto_unusable(struct perfetto *perfetto, const char *reason, const char *what,
		       uint64_t offset);

/* Decode one packet that is whole; depth counts the packets around it. 0, -ENOMEM. */
int perfetto_read_packet(struct perfetto *perfetto, unsigned depth, const uint8_t *data,
			 size_t size);
/* Decode the packets that are complete in a stream of them. 0, -EBADMSG, -ENOMEM. */
int perfetto_read_stream(struct perfetto *perfetto, struct framing *framing, unsigned depth,
			 const uint8_t *data, size_t size);
/* Decode what waits for a clock snapshot, as far as its clock is known. 0, -ENOMEM. */
int perfetto_drain_waiting(struct perfetto *perfetto);

/* ProcessTree and PackagesList, as events. */
void perfetto_process_tree(struct perfetto *perfetto, const struct wire_field *message);
void perfetto_packages(struct perfetto *perfetto, const struct wire_field *message);
/* TraceStats and FtraceStats: kept until the end, for the last ones stand for the whole trace. */
void perfetto_trace_stats(struct perfetto *perfetto, const struct wire_field *message);
void perfetto_ftrace_stats(struct perfetto *perfetto, const struct wire_field *message);
/* The packets inside a packet of depth; they count at its place in the file. 0, -ENOMEM. */
int perfetto_nested(struct perfetto *perfetto, unsigned depth, const struct wire_field *field,
		    bool zstd);
