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
