/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairing of FrameTimeline events. */
#include "frames/timeline.h"
#include <criterion/criterion.h>
#include <string.h>

struct rows {
	struct timeline_row items[64];
	size_t count;
};

static void keep(void *ctx, const struct timeline_row *row)
{
	struct rows *rows = ctx;

	rows->items[rows->count++] = *row;
}

static struct timeline *start(struct rows *rows)
{
	struct timeline_options options = {.max_layers = 4, .row = keep, .row_ctx = rows};
	struct timeline *t = timeline_new(&options);

	cr_assert_not_null(t);
	return t;
}

static void begin(struct timeline *t, enum timeline_kind kind, int64_t ts, int64_t cookie,
		  int64_t token, int64_t display_token)
{
	struct timeline_event event = {
		.kind = kind,
		.has_cookie = true,
		.has_token = true,
		.has_display_token = true,
		.has_pid = true,
		.is_buffer = -1,
		.pid = kind == TIMELINE_ACTUAL_SURFACE || kind == TIMELINE_EXPECTED_SURFACE ? 10
											    : 1,
		.ts_ns = ts,
		.cookie = cookie,
		.token = token,
		.display_token = display_token,
		.present_type = PRESENT_ON_TIME,
		.jank = JANK_NONE,
		.layer = "L",
		.layer_size = 1,
	};

	cr_assert_eq(timeline_add(t, &event), 0);
}

static void end(struct timeline *t, int64_t ts, int64_t cookie)
{
	struct timeline_event event = {
		.kind = TIMELINE_END, .has_cookie = true, .ts_ns = ts, .cookie = cookie};

	cr_assert_eq(timeline_add(t, &event), 0);
}

Test(timeline, in_order_and_out_of_order)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);

	begin(t, TIMELINE_ACTUAL_DISPLAY, 100, 1, 1, 0);
	end(t, 150, 1);
	/* the end stands first in the file but is later in time */
	end(t, 250, 2);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 200, 2, 2, 0);
	/* the end is earlier in time: it closes nothing */
	begin(t, TIMELINE_ACTUAL_DISPLAY, 300, 3, 3, 0);
	end(t, 290, 3);
	/* no time at all */
	begin(t, TIMELINE_ACTUAL_DISPLAY, 400, 4, 4, 0);
	end(t, 400, 4);
	/* an equal time, but the end stands first */
	end(t, 500, 5);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 500, 5, 5, 0);
	timeline_finish(t);
	cr_assert_eq(rows.count, 5);
	cr_assert_eq(rows.items[0].dur_ns, 50);
	cr_assert_eq(rows.items[1].dur_ns, 50);
	cr_assert_eq(rows.items[2].dur_ns, -1);
	cr_assert_eq(rows.items[3].dur_ns, 0);
	cr_assert_eq(rows.items[4].dur_ns, -1);
	cr_assert_eq(timeline_counts(t)->unpaired_ends, 2);
	cr_assert_eq(timeline_counts(t)->unpaired, 2);
	timeline_free(t);
}

Test(timeline, a_cookie_comes_again)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);

	begin(t, TIMELINE_ACTUAL_DISPLAY, 100, 1, 1, 0);
	end(t, 150, 1);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 200, 1, 2, 0);
	end(t, 260, 1);
	/* two starts: the end closes the later one */
	begin(t, TIMELINE_ACTUAL_DISPLAY, 300, 2, 3, 0);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 300, 2, 4, 0);
	end(t, 315, 2);
	/* starts in the wrong order of the file */
	begin(t, TIMELINE_ACTUAL_DISPLAY, 500, 3, 5, 0);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 400, 3, 6, 0);
	end(t, 520, 3);
	end(t, 420, 3);
	timeline_finish(t);
	cr_assert_eq(rows.count, 6);
	cr_assert_eq(rows.items[0].dur_ns, 50);
	cr_assert_eq(rows.items[1].dur_ns, 60);
	cr_assert_eq(rows.items[2].dur_ns, -1);
	cr_assert_eq(rows.items[3].dur_ns, 15);
	cr_assert_eq(rows.items[4].dur_ns, 20);
	cr_assert_eq(rows.items[5].dur_ns, 20);
	cr_assert_eq(timeline_counts(t)->unpaired_ends, 0);
	timeline_free(t);
}

Test(timeline, present_comes_from_the_display_frame)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);
	const struct frame *frames;
	size_t count;

	begin(t, TIMELINE_EXPECTED_DISPLAY, 1000, 1, 7, 0);
	end(t, 1600, 1);
	begin(t, TIMELINE_ACTUAL_DISPLAY, 1010, 2, 7, 0);
	end(t, 1650, 2);
	begin(t, TIMELINE_EXPECTED_SURFACE, 500, 3, 6, 7);
	end(t, 1100, 3);
	begin(t, TIMELINE_ACTUAL_SURFACE, 520, 4, 6, 7);
	end(t, 1120, 4);
	/* shown in a display frame that the trace does not have */
	begin(t, TIMELINE_ACTUAL_SURFACE, 530, 5, 8, 9);
	end(t, 1130, 5);
	timeline_finish(t);
	frames = timeline_frames(t, &count);
	cr_assert_eq(count, 1);
	cr_assert_eq(frames[0].present_ns, 1650);
	cr_assert_eq(frames[0].predicted_ns, 1100 + 600);
	cr_assert_eq(frames[0].work_ns, 1120 - 500);
	cr_assert_eq(timeline_layers(t, &count)[0].no_display, 1);
	cr_assert_eq(timeline_counts(t)->expected, 2);
	cr_assert_eq(timeline_counts(t)->actual, 3);
	timeline_free(t);
}

Test(timeline, a_token_comes_again_after_a_restart)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);
	const struct frame *frames;
	int64_t later = 60000000000;
	size_t count;

	begin(t, TIMELINE_ACTUAL_DISPLAY, 1000, 1, 7, 0);
	end(t, 2000, 1);
	begin(t, TIMELINE_ACTUAL_SURFACE, 900, 2, 6, 7);
	end(t, 1100, 2);
	begin(t, TIMELINE_ACTUAL_DISPLAY, later, 1, 7, 0);
	end(t, later + 500, 1);
	begin(t, TIMELINE_ACTUAL_SURFACE, later - 100, 2, 6, 7);
	end(t, later, 2);
	timeline_finish(t);
	frames = timeline_frames(t, &count);
	cr_assert_eq(count, 2);
	cr_assert_eq(frames[0].present_ns, 2000);
	cr_assert_eq(frames[1].present_ns, later + 500);
	timeline_free(t);
}

Test(timeline, what_is_impossible_is_rejected)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);
	struct timeline_event event = {.kind = TIMELINE_END, .ts_ns = 5};

	cr_assert_eq(timeline_add(t, &event), TIMELINE_REJECTED, "no cookie");
	event.has_cookie = true;
	event.ts_ns = -1;
	cr_assert_eq(timeline_add(t, &event), TIMELINE_REJECTED);
	event.ts_ns = INT64_MAX - 5;
	cr_assert_eq(timeline_add(t, &event), TIMELINE_REJECTED);
	event = (struct timeline_event){.kind = TIMELINE_ACTUAL_SURFACE,
					.has_cookie = true,
					.has_token = true,
					.has_pid = true};
	cr_assert_eq(timeline_add(t, &event), TIMELINE_REJECTED, "no display token");
	cr_assert_eq(timeline_counts(t)->rejected, 4);
	timeline_free(t);
}

Test(timeline, layers_have_a_limit)
{
	struct rows rows = {.count = 0};
	struct timeline *t = start(&rows);
	char name[2] = "a";

	for (char c = 'a'; c < 'a' + 6; c++) {
		name[0] = c;
		cr_assert_eq(timeline_layer(t, 0, 1, name, 1),
			     c < 'e' ? (uint32_t)(c - 'a') : UINT32_MAX);
	}
	name[0] = 'b';
	cr_assert_eq(timeline_layer(t, 0, 1, name, 1), 1);
	cr_assert_eq(timeline_counts(t)->layers_lost, 2);
	timeline_free(t);
}

Test(timeline, a_long_trace_passes_through_a_window)
{
	struct timeline_options options = {.max_layers = 4};
	struct timeline *t = timeline_new(&options);
	size_t count;

	for (int64_t i = 0; i < 200000; i++) {
		begin(t, TIMELINE_ACTUAL_DISPLAY, i * 1000, 2 * i, i, 0);
		end(t, i * 1000 + 900, 2 * i);
		begin(t, TIMELINE_ACTUAL_SURFACE, i * 1000, 2 * i + 1, i, i);
		end(t, i * 1000 + 500, 2 * i + 1);
	}
	timeline_finish(t);
	timeline_frames(t, &count);
	cr_assert_eq(count, 200000);
	cr_assert_eq(timeline_counts(t)->unpaired, 0);
	timeline_free(t);
}

Test(timeline, words_of_trace_processor)
{
	char buffer[512];

	cr_assert_str_eq(timeline_jank_text(JANK_PREDICTION_ERROR | JANK_APP_DEADLINE, buffer, 512),
			 "Prediction Error, App Deadline Missed");
	cr_assert_str_eq(timeline_jank_text(JANK_BUFFER_STUFFING | JANK_APP_RESYNC, buffer, 512),
			 "App Resynced Jitter, Buffer Stuffing");
	cr_assert_str_eq(timeline_jank_text(65536 | JANK_APP_DEADLINE, buffer, 512),
			 "App Deadline Missed");
	cr_assert_str_eq(timeline_jank_text(0, buffer, 512), "Unspecified");
	/* "none" beside another is not none */
	cr_assert_str_eq(timeline_jank_text(JANK_NONE | JANK_APP_DEADLINE, buffer, 512),
			 "App Deadline Missed");
	cr_assert_str_eq(timeline_tag_text(0, 1, true), "Unspecified");
	cr_assert_str_eq(timeline_tag_text(JANK_UNKNOWN, 1, true), "Self Jank");
	cr_assert_str_eq(timeline_tag_text(JANK_UNKNOWN, 1, false), "No Jank");
	cr_assert_str_eq(timeline_tag_text(JANK_SF_CPU, 1, false), "Self Jank");
	cr_assert_str_eq(timeline_tag_text(JANK_SF_CPU, 1, true), "Other Jank");
	cr_assert_str_eq(timeline_tag_text(JANK_DROPPED, PRESENT_DROPPED, true), "Dropped Frame");
	cr_assert_str_eq(timeline_tag_text(JANK_DISPLAY_OFF, 1, true), "Non-perceivable Jank");
	cr_assert_str_eq(timeline_severity_text(false, 0, JANK_NONE), "None");
	cr_assert_str_eq(timeline_severity_text(false, 0, JANK_UNKNOWN), "Unknown");
	cr_assert_str_eq(timeline_present_text(9), "Unspecified Present");
}
