/* SPDX-License-Identifier: BSD-2-Clause */
/* Slices of apps and SurfaceFlinger's counters become frames. */
#include "frames/slices.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct latches {
	int64_t present[16];
	bool due[16];
	size_t count, frames;
	int64_t work_ns;
};

static void on_latch(void *ctx, int32_t pid, const char *layer, int64_t present_ns, bool due)
{
	struct latches *l = ctx;

	l->present[l->count] = present_ns;
	l->due[l->count++] = due;
}

static void on_app_frame(void *ctx, int32_t pid, int64_t start_ns, int64_t end_ns)
{
	struct latches *l = ctx;

	l->frames++;
	l->work_ns = end_ns - start_ns;
}

static void play(struct slices *slices, enum mark_kind kind, int32_t tid, int64_t ts_ns,
		 const char *name, int64_t value)
{
	struct trace_mark mark = {.kind = kind,
				  .has_pid = true,
				  .tid = tid,
				  .pid = 10,
				  .ts_ns = ts_ns,
				  .value = value,
				  .name = name,
				  .name_size = strlen(name)};

	cr_assert_eq(slices_add(slices, &mark), 0);
}

Test(slices, latches_lie_on_the_vsync_grid)
{
	static const struct slices_ops slices_ops = {.latch = on_latch};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);
	const int64_t v = 16666667;

	/* out of order in the file, as CPUs are read one after the other */
	for (int i = 20; i-- > 0;)
		play(slices, MARK_COUNTER, 1, 1000000000 + i * v, "VSYNC-sf", i % 2);
	for (int i = 0; i < 10; i++) {
		int64_t t = 1000000000 + (9 + i) * v;

		play(slices, MARK_COUNTER, 1, t + 1000, "a/b#1", 1);
		play(slices, MARK_COUNTER, 1, t + 3000000 + i * 100000, "a/b#1", 0);
	}
	slices_finish(slices);
	cr_assert_eq(l.count, 10);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(l.present[i], 1000000000 + (10 + i) * v, "latch %d", i);
	cr_assert_eq(slices_period(slices), v);
	slices_free(slices);
}

Test(slices, a_frame_is_its_doframe_and_its_drawframe)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	play(slices, MARK_BEGIN, 10, 1000, "Choreographer#onVsync 5", 0);
	play(slices, MARK_BEGIN, 10, 1100, "Choreographer#doFrame 5", 0);
	play(slices, MARK_BEGIN, 10, 1150, "Choreographer#doFrame - resynced to 6 in 1ms", 0);
	play(slices, MARK_END, 10, 1160, "", 0);
	play(slices, MARK_END, 10, 1500, "", 0);
	play(slices, MARK_END, 10, 1600, "", 0);
	play(slices, MARK_BEGIN, 11, 1400, "DrawFrames 5", 0);
	play(slices, MARK_BEGIN, 11, 1700, "queueBuffer", 0);
	play(slices, MARK_END, 11, 1800, "", 0);
	play(slices, MARK_END, 11, 1900, "", 0);
	play(slices, MARK_END, 11, 2000, "", 0); /* of a slice that began before the trace */
	slices_finish(slices);
	cr_assert_eq(l.frames, 1);
	cr_assert_eq(l.work_ns, 700);
	cr_assert_eq(slices_counts(slices)->do_frames, 1);
	cr_assert_eq(slices_counts(slices)->ends_without_begin, 1);
	slices_free(slices);
}

static bool only_ours(void *ctx, int32_t pid, const char *layer)
{
	(void)ctx;
	(void)layer;
	return pid == 10;
}

/* One frame: doFrame, DrawFrame with its queueBuffer, and the buffer that comes and goes. */
static void play_frame(struct slices *slices, int64_t t, int64_t work_ns)
{
	play(slices, MARK_BEGIN, 10, t, "Choreographer#doFrame", 0);
	play(slices, MARK_BEGIN, 11, t + work_ns - 3000000, "DrawFrame", 0);
	play(slices, MARK_END, 10, t + work_ns - 2000000, "", 0);
	play(slices, MARK_BEGIN, 11, t + work_ns - 1000000, "queueBuffer", 0);
	play(slices, MARK_END, 11, t + work_ns, "", 0);
	play(slices, MARK_COUNTER, 1, t + work_ns, "BufferTX - a.b/a.b.C#1", 1);
	play(slices, MARK_COUNTER, 1, t + work_ns + 500000, "BufferTX - a.b/a.b.C#1", 0);
	play(slices, MARK_END, 11, t + work_ns + 900000, "", 0);
}

Test(slices, a_gap_is_due_if_the_frame_behind_it_began_before_it)
{
	static const struct slices_ops slices_ops = {.latch = on_latch, .may_draw = only_ours};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);
	struct trace_mark other = {.kind = MARK_BEGIN,
				   .has_pid = true,
				   .tid = 20,
				   .pid = 20,
				   .ts_ns = 1030000000,
				   .name = "Choreographer#doFrame",
				   .name_size = 21};

	play_frame(slices, 1000000000, 8000000);
	play_frame(slices, 1016666667, 400000000); /* took so long */
	/* nothing to draw, another app draws, nothing for two seconds */
	play(slices, MARK_BEGIN, 10, 1430000000, "Choreographer#doFrame", 0);
	play(slices, MARK_END, 10, 1431000000, "", 0);
	cr_assert_eq(slices_add(slices, &other), 0);
	play_frame(slices, 3500000000, 8000000);
	slices_finish(slices);
	cr_assert_eq(l.count, 3);
	cr_assert_not(l.due[0]);
	cr_assert(l.due[1]);
	cr_assert_not(l.due[2]);
	slices_free(slices);
}

/* An app counts its own things under names like those of layers. */
Test(slices, only_surfaceflinger_counts_buffers)
{
	static const struct slices_ops slices_ops = {.latch = on_latch};
	static const char pending[] = "aq:pending:a.b/a.b.C#1";
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);
	struct trace_mark display = {.kind = MARK_COUNTER,
				     .has_pid = true,
				     .tid = 500,
				     .pid = 500,
				     .name = "VSYNC-app",
				     .name_size = 9};

	for (int i = 0; i < 20; i++) {
		display.ts_ns = 1000000000 + i * 16666667;
		cr_assert_eq(slices_add(slices, &display), 0);
		play(slices, MARK_COUNTER, 10, display.ts_ns + 1, pending, 1);
		play(slices, MARK_COUNTER, 10, display.ts_ns + 2, pending, 0);
		play(slices, MARK_COUNTER, 10, display.ts_ns + 3, "a.b/a.b.C#1", 1);
		play(slices, MARK_COUNTER, 10, display.ts_ns + 4, "a.b/a.b.C#1", 0);
		if (i < 5)
			continue;
		display.name = "a.b/a.b.C#1";
		display.name_size = 11;
		for (display.value = 1; display.value >= 0; display.value--)
			cr_assert_eq(slices_add(slices, &display), 0);
		display.name = "VSYNC-app";
		display.name_size = 9;
	}
	slices_finish(slices);
	cr_assert_eq(l.count, 15);
	slices_free(slices);
}

/* An app that draws by itself has no DrawFrame: each doFrame is a frame, the last ones too. */
Test(slices, doframes_without_drawframe)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	for (int64_t i = 0; i < 109; i++) {
		play(slices, MARK_BEGIN, 10, 1000000000 + i * 16666667, "Choreographer#doFrame", 0);
		play(slices, MARK_END, 10, 1004000000 + i * 16666667, "", 0);
	}
	/* a second later nobody can draw them any more */
	cr_assert_eq(slices_settle(slices, 1000000000 + 109 * 16666667LL + 1100000000), 0);
	cr_assert_eq(l.frames, 109);
	slices_finish(slices);
	cr_assert_eq(l.frames, 109);
	slices_free(slices);
}

/* Android 9 to 11 write no ids: one that had nothing to draw must not shift the ones behind it. */
Test(slices, a_doframe_that_draws_nothing_is_no_frame)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	for (int i = 1; i <= 20; i++) {
		int64_t t = i * 16666667LL;

		play(slices, MARK_BEGIN, 10, t, "Choreographer#doFrame", 0);
		if (i % 2) {
			play(slices, MARK_BEGIN, 11, t + 1000, "DrawFrame", 0);
			/* every fourth is drawn before its doFrame is over */
			play(slices, MARK_END, 11, t + (i % 4 == 1 ? 4000 : 6000), "", 0);
		}
		play(slices, MARK_END, 10, t + 5000, "", 0);
		/* another thread with a Choreographer of its own */
		play(slices, MARK_BEGIN, 12, t + 1, "Choreographer#doFrame", 0);
		play(slices, MARK_END, 12, t + 900, "", 0);
	}
	slices_finish(slices);
	cr_assert_eq(l.frames, 10);
	cr_assert_eq(l.work_ns, 6000);
	slices_free(slices);
}

/* A doFrame inside a doFrame ends the frame that is open; the outer one's end is nobody's any more.
 */
Test(slices, a_doframe_inside_a_doframe)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	play(slices, MARK_BEGIN, 10, 1000, "Choreographer#doFrame", 0);
	play(slices, MARK_BEGIN, 10, 1200, "Choreographer#doFrame", 0);
	play(slices, MARK_END, 10, 1500, "", 0);
	play(slices, MARK_END, 10, 1900, "", 0);
	slices_finish(slices);
	cr_assert_eq(l.frames, 1);
	cr_assert_eq(l.work_ns, 300);
	slices_free(slices);
}

/* Two threads of a process may begin a doFrame at the same time; the main thread's is the frame. */
Test(slices, two_threads_begin_at_once)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	play(slices, MARK_BEGIN, 10, 1000, "Choreographer#doFrame", 0);
	play(slices, MARK_BEGIN, 12, 1000, "Choreographer#doFrame", 0);
	play(slices, MARK_END, 12, 1100, "", 0);
	play(slices, MARK_END, 10, 1900, "", 0);
	slices_finish(slices);
	cr_assert_eq(l.frames, 1);
	cr_assert_eq(l.work_ns, 900);
	slices_free(slices);
}

/* A DrawFrame ends at its own queueBuffer; one without any, at its own end. */
Test(slices, a_queuebuffer_is_of_one_drawframe)
{
	static const struct slices_ops slices_ops = {.app_frame = on_app_frame};
	struct latches l = {.count = 0};
	struct slices *slices = slices_new(&slices_ops, &l);

	for (int64_t t = 1000; t <= 101000; t += 100000) {
		play(slices, MARK_BEGIN, 10, t, "Choreographer#doFrame", 0);
		play(slices, MARK_BEGIN, 11, t + 100, "DrawFrame", 0);
		play(slices, MARK_END, 10, t + 200, "", 0);
		if (t == 1000) {
			play(slices, MARK_BEGIN, 11, t + 300, "queueBuffer", 0);
			play(slices, MARK_END, 11, t + 400, "", 0);
		}
		play(slices, MARK_END, 11, t + 700, "", 0);
		if (t == 1000)
			slices_settle(slices, t + 50000);
	}
	slices_finish(slices);
	cr_assert_eq(l.frames, 2);
	cr_assert_eq(l.work_ns, 700);
	slices_free(slices);
}

/* Edges of vsync behind t, which is moved on. */
static void tick(struct slices *slices, int64_t *t, int64_t step_ns, int count)
{
	for (int i = 0; i < count; i++, *t += step_ns)
		play(slices, MARK_COUNTER, 1, *t, "VSYNC-app", i % 2);
	slices_settle(slices, *t);
}

static void expect_rate(struct slices *slices, int64_t period_ns)
{
	int64_t got_ns = slices_rate_period(slices);

	cr_expect(got_ns > period_ns - 20000 && got_ns < period_ns + 20000, "%lld, not %lld",
		  (long long)got_ns, (long long)period_ns);
}

Test(slices, a_rate_that_changes_shows_at_once)
{
	static const struct slices_ops slices_ops = {.latch = NULL};
	struct slices *slices = slices_new(&slices_ops, NULL);
	int64_t t = 1000000000;

	tick(slices, &t, 16666667, 40);
	expect_rate(slices, 16666667);
	tick(slices, &t, 11111111, 5);
	expect_rate(slices, 11111111);
	tick(slices, &t, 11111111, 100);
	expect_rate(slices, 11111111);
	tick(slices, &t, 8333333, 5);
	expect_rate(slices, 8333333);
	tick(slices, &t, 8333333, 60);
	tick(slices, &t, 11111111, 5);
	expect_rate(slices, 11111111);
	slices_free(slices);
}

/* An app that is always late asks for each second vsync: the display's rate is what it was. */
Test(slices, vsyncs_that_nobody_asked_for_are_no_other_rate)
{
	static const struct slices_ops slices_ops = {.latch = NULL};
	struct slices *slices = slices_new(&slices_ops, NULL);
	int64_t t = 1000000000;

	tick(slices, &t, 8333333, 60);
	tick(slices, &t, 16666667, 20);
	expect_rate(slices, 8333333);
	tick(slices, &t, 25000000, 8);
	expect_rate(slices, 8333333);
	slices_free(slices);
}

static void state(struct slices *slices, int64_t t, int64_t period_ns)
{
	play(slices, MARK_COUNTER, 1, t, "VSP-period", period_ns);
	slices_settle(slices, t + 1);
}

/* Half a rate looks like vsyncs that nobody asked for, where SurfaceFlinger does not say more. */
Test(slices, a_rate_that_is_halved_shows_where_it_is_stated)
{
	static const struct slices_ops slices_ops = {.latch = NULL};
	struct slices *slices = slices_new(&slices_ops, NULL);
	int64_t t = 1000000000;

	state(slices, t, 8333333);
	tick(slices, &t, 8333333, 60);
	state(slices, t, 8340000);
	expect_rate(slices, 8333333);
	state(slices, t, 16666667);
	/* some more that were on their way */
	tick(slices, &t, 8333333, 6);
	expect_rate(slices, 8333333);
	tick(slices, &t, 16666667, 3);
	expect_rate(slices, 16666667);
	tick(slices, &t, 16666667, 20);
	expect_rate(slices, 16666667);
	/* it says so again and again */
	tick(slices, &t, 33333333, 4);
	state(slices, t, 16666000);
	expect_rate(slices, 16666667);
	state(slices, t, 8333333);
	tick(slices, &t, 8333333, 5);
	expect_rate(slices, 8333333);
	/* an app that draws at each second refresh, on a display that becomes slower and faster */
	tick(slices, &t, 16666667, 100);
	expect_rate(slices, 16666667);
	state(slices, t, 11111111);
	expect_rate(slices, 16666667);
	slices_free(slices);
}

/* Each fifth edge is written down 4 ms late, and the one behind it in time. */
Test(slices, edges_that_come_late_are_no_other_rate)
{
	static const struct slices_ops slices_ops = {.latch = NULL};
	struct slices *slices = slices_new(&slices_ops, NULL);
	int64_t t = 1000000000, v = 11111111;

	tick(slices, &t, v, 40);
	for (int i = 0; i < 200; i++, t += v)
		play(slices, MARK_COUNTER, 1, t + (i % 5 == 2 ? 4000000 : 0), "VSYNC-app", i % 2);
	slices_settle(slices, t);
	expect_rate(slices, v);
	slices_free(slices);
}
