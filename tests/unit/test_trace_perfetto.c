/* SPDX-License-Identifier: BSD-2-Clause */
/* The Perfetto decoder where the real traces do not reach. */
#include "trace/perfetto.h"
#include <criterion/criterion.h>
#include <string.h>

struct times {
	int64_t ts[16];
	size_t count;
	uint64_t lost;
};

static bool on_timeline(void *ctx, const struct timeline_event *timeline)
{
	struct times *times = ctx;

	cr_assert_lt(times->count, 16);
	times->ts[times->count++] = timeline->ts_ns;
	return true;
}

static void on_lost(void *ctx, const char *reason, uint64_t count)
{
	((struct times *)ctx)->lost += count;
}

static const struct trace_events events = {.timeline = on_timeline, .loss = on_lost};

/* A second pass must find stretches that hold nothing but what the first one did not want. */
Test(perfetto, a_stretch_knows_where_its_scheduler_events_are)
{
	/* packet { ftrace_events { cpu: 0 compact_sched { switch_timestamp: [1000, +5, +7]
	 * waking_timestamp: [900, +1] } } } */
	static const uint8_t trace[] = {0x0a, 0x11, 0x0a, 0x0f, 0x08, 0x00, 0x22, 0x0b, 0x0a, 0x04,
					0xe8, 0x07, 5,    7,    0x3a, 0x03, 0x84, 0x07, 1};
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);
	const struct perfetto_block *blocks;
	size_t count;

	cr_assert_eq(perfetto_feed(perfetto, trace, sizeof(trace)), 0);
	cr_assert_not(perfetto_finish(perfetto));
	blocks = perfetto_blocks(perfetto, &count);
	cr_assert_eq(count, 1);
	cr_assert_eq(blocks[0].size, sizeof(trace));
	cr_assert_eq(blocks[0].first_ns, 900);
	cr_assert_eq(blocks[0].last_ns, 1012);
	cr_assert_eq(times.lost, 0);
	perfetto_free(perfetto);
}

/* Whose packet it is stands behind its event, often the same as in the packet before. */
Test(perfetto, packets_of_two_writers)
{
	/* sequence 2 counts by MONOTONIC, which was 100 when BOOTTIME was 120 */
	static const uint8_t head[] = {0x0a, 14,   0x32, 12,   0x0a, 4,    8,    3,    0x10,
				       100,  0x0a, 4,    8,    6,    0x10, 120,  0x0a, 8,
				       0xda, 3,    3,    0xd0, 3,    3,    0x50, 2};
	/* { timestamp 7 frame_timeline_event { frame_end { cookie 1 } } } and an end of each kind
	 */
	static const uint8_t event[] = {0x40, 7, 0xe2, 4, 4, 0x2a, 2, 8, 1};
	static const struct {
		uint8_t bytes[8], size;
		int64_t ts_ns;
	} ends[] = {
		{{0x18, 9, 0x50, 1}, 4, 7},  /* uid, sequence 1 */
		{{0x18, 9, 0x50, 1}, 4, 7},  /* the same again */
		{{0x18, 9, 0x50, 2}, 4, 27}, /* another sequence */
		{{0x18, 9, 0x50, 2}, 4, 27},
		{{0x18, 9}, 2, 7}, /* none */
		{{0x18, 9}, 2, 7},
		{{0x50, 2, 0xd0, 2, 1}, 5, 27},          /* packets before it were dropped */
		{{0x50, 2, 0xd0, 2, 1}, 5, 27},          /* and once more */
		{{0x50, 2, 0xd0, 3, 6}, 5, 7},           /* sequence 2, but its own clock */
		{{0x18, 9, 0x50, 2, 0xf8, 4, 5}, 7, 27}, /* uid, sequence, pid */
		{{0x18, 9, 0x50, 1, 0xf8, 4, 5}, 7, 7},
	};
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);

	cr_assert_eq(perfetto_feed(perfetto, head, sizeof(head)), 0);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		uint8_t packet[32] = {0x0a, (uint8_t)(sizeof(event) + ends[i].size)};

		memcpy(packet + 2, event, sizeof(event));
		memcpy(packet + 2 + sizeof(event), ends[i].bytes, ends[i].size);
		cr_assert_eq(perfetto_feed(perfetto, packet, 2 + sizeof(event) + ends[i].size), 0);
		cr_assert_eq(times.count, i + 1);
		cr_assert_eq(times.ts[i], ends[i].ts_ns, "packet %zu at %lld", i,
			     (long long)times.ts[i]);
	}
	cr_assert_eq(times.lost, 2);
	cr_assert_not(perfetto_finish(perfetto));
	perfetto_free(perfetto);
}

/* What waits for a clock that is never compared is counted, once. */
Test(perfetto, a_clock_that_nobody_knows)
{
	static const uint8_t trace[] = {0x0a, 12, 0xd0, 3, 77, 0x40, 7, 0xe2, 4, 4, 0x2a, 2, 8, 1};
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);

	cr_assert_eq(perfetto_feed(perfetto, trace, sizeof(trace)), 0);
	cr_assert_eq(times.lost, 0);
	cr_assert_not(perfetto_finish(perfetto));
	cr_assert_eq(times.count, 0);
	cr_assert_eq(times.lost, 1);
	perfetto_free(perfetto);
}

/* { timestamp: 7 frame_timeline_event { actual_surface { cookie, layer of this size } } sequence 1
 * }. Returns its size. */
static size_t long_packet(uint8_t *packet, size_t layer)
{
	size_t event = 2 + 3 + layer, timeline = 3 + event, whole = 2 + 4 + timeline + 2, at = 0;

	cr_assert(layer >= 128 && whole < 1000);
	packet[at++] = 0x0a;
	packet[at++] = (uint8_t)(whole | 0x80);
	packet[at++] = (uint8_t)(whole >> 7);
	packet[at++] = 0x40;
	packet[at++] = 7;
	packet[at++] = 0xe2;
	packet[at++] = 4;
	packet[at++] = (uint8_t)(timeline | 0x80);
	packet[at++] = (uint8_t)(timeline >> 7);
	packet[at++] = 0x22;
	packet[at++] = (uint8_t)(event | 0x80);
	packet[at++] = (uint8_t)(event >> 7);
	packet[at++] = 8;
	packet[at++] = 1;
	packet[at++] = 0x2a;
	packet[at++] = (uint8_t)(layer | 0x80);
	packet[at++] = (uint8_t)(layer >> 7);
	memset(packet + at, 'n', layer);
	at += layer;
	packet[at++] = 0x50;
	packet[at++] = 1;
	cr_assert_eq(at, whole + 3);
	return at;
}

/* Lengths of two bytes, by the short way of equal packets too: 128 is the first of them. */
Test(perfetto, events_that_are_longer_than_a_byte_says)
{
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);
	uint8_t packet[1100];
	size_t size;

	for (size_t i = 0; i < 8; i++) {
		size = long_packet(packet, 128 + i * 60);
		cr_assert_eq(perfetto_feed(perfetto, packet, size), 0);
		cr_assert_eq(times.count, i + 1);
		cr_assert_eq(times.ts[i], 7);
	}
	cr_assert_not(perfetto_finish(perfetto));
	cr_assert_eq(times.lost, 0);
	perfetto_free(perfetto);
}

/* A packet like an event's, whose one field has another number, is no event: neither in full nor by
 * the short way of equal packets. */
Test(perfetto, a_field_beside_the_events_is_none)
{
	static const struct {
		uint8_t tag[2];
		bool is_event;
	} fields[] = {
		{{0xe2, 4}, true},  {{0xe2, 4}, true}, {{0xe2, 12}, false}, /* 204 */
		{{0xea, 4}, false},                                         /* 77 */
		{{0xe2, 4}, true},
	};
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);
	size_t wanted = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		/* timestamp 7, the field with { frame_end { cookie 1 } }, uid 9, sequence 1, pid 5
		 */
		const uint8_t packet[] = {0x0a,
					  16,
					  0x40,
					  7,
					  fields[i].tag[0],
					  fields[i].tag[1],
					  4,
					  0x2a,
					  2,
					  8,
					  1,
					  0x18,
					  9,
					  0x50,
					  1,
					  0xf8,
					  4,
					  5};

		cr_assert_eq(perfetto_feed(perfetto, packet, sizeof(packet)), 0);
		wanted += fields[i].is_event;
		cr_expect_eq(times.count, wanted, "field %zu", i);
	}
	cr_assert_not(perfetto_finish(perfetto));
	perfetto_free(perfetto);
}

/* Reading goes on behind the next marker, after each damage anew, however the file is cut. */
Test(perfetto, damage_twice)
{
	static const uint8_t good[] = {0x0a, 9, 0x40, 7, 0xe2, 4, 4, 0x2a, 2, 8, 1};
	static const uint8_t marker[] = {0x0a, 19,   0xa2, 0x02, 16,   0x82, 0x47,
					 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81,
					 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};
	uint8_t trace[256];
	size_t size = 0;

	for (unsigned i = 0; i < 3; i++) {
		memcpy(trace + size, good, sizeof(good));
		size += sizeof(good);
		if (i == 2)
			break;
		memset(trace + size, 0x07, 20);
		/* the beginning of a marker is none */
		memcpy(trace + size + 20, marker + 5, 15);
		size += 35;
		memcpy(trace + size, marker, sizeof(marker));
		size += sizeof(marker);
	}
	for (size_t piece = 1; piece <= size; piece++) {
		struct times times = {.count = 0};
		struct perfetto *perfetto = perfetto_new(&events, &times);

		for (size_t at = 0; at < size; at += piece)
			perfetto_feed(perfetto, trace + at, size - at < piece ? size - at : piece);
		cr_assert_not(perfetto_finish(perfetto));
		cr_assert_eq(times.count, 3, "pieces of %zu: %zu", piece, times.count);
		cr_assert_eq(times.lost, 2, "pieces of %zu: %lu", piece, times.lost);
		perfetto_free(perfetto);
	}
}

/* What the kernel lost before the trace began is not the trace's. */
Test(perfetto, overruns_of_the_trace_alone)
{
	/* ftrace_stats { phase cpu_stats { overrun } } at the start and at the end */
	static const uint8_t trace[] = {0x0a, 9, 0x92, 2, 6, 8, 1, 0x12, 2, 0x18, 10,
					0x0a, 9, 0x92, 2, 6, 8, 2, 0x12, 2, 0x18, 25};
	struct times times = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&events, &times);

	cr_assert_eq(perfetto_feed(perfetto, trace, sizeof(trace)), 0);
	cr_assert_not(perfetto_finish(perfetto));
	cr_assert_eq(times.lost, 15);
	perfetto_free(perfetto);
}

struct switches {
	int32_t prev[8];
	size_t count;
};

static void on_switch(void *ctx, const struct trace_switch *event)
{
	struct switches *switches = ctx;

	switches->prev[switches->count++] = event->prev_tid;
}

/* Who ran before a gap in the buffer is not who ran after it. */
Test(perfetto, a_gap_forgets_who_ran)
{
	static const struct trace_events switch_events = {.sched_switch = on_switch};
	/* cpu 0: { compact_sched { switch_timestamp prev_state next_pid } }, the third one with
	 * lost_events */
	static const uint8_t trace[] = {
		0x0a, 15, 0x0a, 13,   8,   0,    0x22, 9,  0x0a, 1,    100, 0x12, 1,    0,
		0x1a, 1,  5,    0x0a, 15,  0x0a, 13,   8,  0,    0x22, 9,   0x0a, 1,    101,
		0x12, 1,  0,    0x1a, 1,   6,    0x0a, 17, 0x0a, 15,   8,   0,    0x18, 1,
		0x22, 9,  0x0a, 1,    102, 0x12, 1,    0,  0x1a, 1,    7};
	struct switches switches = {.count = 0};
	struct perfetto *perfetto = perfetto_new(&switch_events, &switches);

	cr_assert_eq(perfetto_feed(perfetto, trace, sizeof(trace)), 0);
	cr_assert_not(perfetto_finish(perfetto));
	cr_assert_eq(switches.count, 3);
	cr_assert_eq(switches.prev[1], 5);
	cr_assert_eq(switches.prev[2], switches.prev[0], "%d, %d", switches.prev[2],
		     switches.prev[0]);
	perfetto_free(perfetto);
}
