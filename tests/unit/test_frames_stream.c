/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames of a stream that has markers and no rows of FrameTimeline. */
#include "frames/stream.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MAIN   10
#define RENDER 11
#define V      16666667LL
#define START  1000000000LL

struct told {
	struct timeline_late late[8];
	char layer[8][64];
	size_t count;
};

static void on_late(void *ctx, const struct layer *layer, const struct timeline_late *late)
{
	struct told *told = ctx;

	cr_assert_lt(told->count, 8);
	snprintf(told->layer[told->count], 64, "%s", layer->name);
	told->late[told->count++] = *late;
}

static void mark(struct frame_stream *stream, enum mark_kind kind, int32_t tid, int64_t ts_ns,
		 const char *name, int64_t value)
{
	struct trace_mark mark = {.kind = kind,
				  .has_pid = true,
				  .tid = tid,
				  .pid = MAIN,
				  .ts_ns = ts_ns,
				  .value = value,
				  .name = name,
				  .name_size = strlen(name)};

	frame_stream_events()->mark(stream, &mark);
}

/* A doFrame at t, whose buffer is queued after work_ns. */
static void draw(struct frame_stream *stream, int64_t t, int id, int64_t work_ns)
{
	char name[64];

	snprintf(name, sizeof(name), "Choreographer#doFrame %d", id);
	mark(stream, MARK_BEGIN, MAIN, t, name, 0);
	snprintf(name, sizeof(name), "DrawFrames %d", id);
	mark(stream, MARK_BEGIN, RENDER, t + work_ns / 2, name, 0);
	mark(stream, MARK_END, MAIN, t + work_ns / 2 + 1000, "", 0);
	mark(stream, MARK_BEGIN, RENDER, t + work_ns - 1000, "queueBuffer", 0);
	mark(stream, MARK_END, RENDER, t + work_ns, "", 0);
	mark(stream, MARK_END, RENDER, t + work_ns + 500000, "", 0);
}

static struct frame_stream *play(struct told *told)
{
	struct frame_stream *stream = frame_stream_new();

	memset(told, 0, sizeof(*told));
	frame_stream_watch_late(stream, on_late, NULL, told);
	for (int i = 0; i < 40; i++)
		mark(stream, MARK_COUNTER, 1, START + i * V, "VSYNC-app", i % 2);
	return stream;
}

Test(frame_stream, a_doframe_beyond_its_period_is_late)
{
	struct told told;
	struct frame_stream *stream = play(&told);

	draw(stream, START + 20 * V, 1, V - 1);
	draw(stream, START + 22 * V, 2, V + 3000000);
	draw(stream, START + 25 * V, 3, 5000000);
	cr_assert_eq(frame_stream_settle(stream, 1, 0, true), 0);
	cr_assert_eq(told.count, 1);
	cr_expect_str_eq(told.layer[0], "Choreographer#doFrame");
	cr_expect_eq(told.late[0].pid, MAIN);
	cr_expect_eq(told.late[0].token, -1);
	cr_expect_eq(told.late[0].start_ns, START + 22 * V);
	cr_expect_eq(told.late[0].end_ns, START + 23 * V + 3000000);
	cr_expect_eq(told.late[0].expected_start_ns, START + 22 * V);
	cr_expect_eq(told.late[0].expected_end_ns, START + 23 * V);
	cr_expect_eq(told.late[0].present_ns, TIMELINE_NONE);
	cr_expect_eq(told.late[0].compose_due_ns, TIMELINE_NONE);
	cr_expect_eq(told.late[0].jank, 0);
	cr_expect(!told.late[0].dropped);
	frame_stream_free(stream);
}

/* One row, of whichever app: FrameTimeline is there, and knows better. */
Test(frame_stream, where_there_are_rows_they_tell)
{
	struct told told;
	struct frame_stream *stream = play(&told);
	struct timeline_event row = {
		.kind = TIMELINE_ACTUAL_SURFACE,
		.has_cookie = true,
		.has_token = true,
		.has_display_token = true,
		.has_pid = true,
		.is_buffer = 1,
		.pid = MAIN,
		.ts_ns = START,
		.cookie = 1,
		.token = 7,
		.display_token = 8,
		.present_type = PRESENT_ON_TIME,
		.prediction_type = PREDICTION_VALID,
		.jank = JANK_NONE,
		.layer = "TX - a/b#1",
		.layer_size = 10,
	};

	cr_assert(frame_stream_events()->timeline(stream, &row));
	row = (struct timeline_event){
		.kind = TIMELINE_END, .has_cookie = true, .cookie = 1, .ts_ns = START + V};
	cr_assert(frame_stream_events()->timeline(stream, &row));
	draw(stream, START + 22 * V, 2, V + 3000000);
	cr_assert_eq(frame_stream_settle(stream, 1, 0, true), 0);
	cr_expect_eq(told.count, 0);
	frame_stream_free(stream);
}
