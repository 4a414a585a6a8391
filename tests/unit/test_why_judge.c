/* SPDX-License-Identifier: BSD-2-Clause */
/* The rule of user/why/README.md, row by row. A frame of 60 Hz: the app is given 16 ms, and the
 * display's frame is made behind that. Times are in units of 100 us. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "jankscope/timeline.h"
#include "why/line.h"
#include "why/tell.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define UNIT        100000LL
#define MAIN        100
#define RENDER      101
#define SF          200
#define ENGINE      201
#define HWC         300
#define GIVEN       160 /* what the app is given */

enum { T_MAIN, T_RENDER, T_SF, T_ENGINE, T_HWC, THREADS };

struct rig {
	struct spell spells[THREADS][16];
	struct why_thread threads[THREADS];
	struct why_frame frame;
	struct why_verdict verdict;
};

/* The next spell of a thread, which goes on to `until`. */
static void next(struct rig *rig, int index, int64_t until, uint8_t state, int reason,
		 int32_t other)
{
	struct why_thread *thread = &rig->threads[index];
	struct spell *spell = &rig->spells[index][thread->spell_count++];

	*spell = (struct spell){
		.begin_ns = thread->spell_count > 1 ? spell[-1].end_ns : 0,
		.end_ns = until * UNIT,
		.state = state,
		.reason = (uint8_t)reason,
		.cpu = 0,
		.other = {.tid = other},
	};
	snprintf(spell->other.comm, sizeof(spell->other.comm), "t%d", other);
}

static void runs(struct rig *rig, int index, int64_t until)
{
	next(rig, index, until, SPELL_RUNNING, 0, 0);
}

static void sleeps(struct rig *rig, int index, int64_t until, int reason, int32_t waker)
{
	next(rig, index, until, SPELL_SLEEPING, reason, waker);
}

/* A frame that is ready at `ready`, and on the screen `late` after its time. */
static void begin(struct rig *rig, int64_t ready, int64_t late)
{
	static const enum jank_role roles[] = {JANK_ROLE_MAIN, JANK_ROLE_RENDER, JANK_ROLE_SF_MAIN,
					       JANK_ROLE_RENDER_ENGINE, JANK_ROLE_HWC};
	static const int32_t tids[] = {MAIN, RENDER, SF, ENGINE, HWC};

	memset(rig, 0, sizeof(*rig));
	for (int i = 0; i < THREADS; i++)
		rig->threads[i] = (struct why_thread){
			.tid = tids[i], .pid = tids[i], .role = roles[i], .spells = rig->spells[i]};
	rig->frame = (struct why_frame){
		.expected_start_ns = 0,
		.expected_end_ns = GIVEN * UNIT,
		.actual_start_ns = 0,
		.actual_end_ns = ready * UNIT,
		.predicted_ns = 2 * GIVEN * UNIT,
		.present_ns = (2 * GIVEN + late) * UNIT,
		.compose_start_ns = WHY_NO_TIME,
		.compose_due_ns = WHY_NO_TIME,
		.handed_ns = WHY_NO_TIME,
		.queued_ns = WHY_NO_TIME,
		.threads = rig->threads,
		.thread_count = THREADS,
	};
}

static void judge(struct rig *rig, enum jank_cause first, enum jank_cause second)
{
	why_judge(&rig->frame, &rig->verdict);
	cr_expect_eq(rig->verdict.first.cause, first, "%s, and not %s",
		     why_cause_words(rig->verdict.first.cause), why_cause_words(first));
	cr_expect_eq(rig->verdict.second.cause, second, "second: %s, and not %s",
		     why_cause_words(rig->verdict.second.cause), why_cause_words(second));
	cr_expect(rig->verdict.confidence >= 0 && rig->verdict.confidence <= 1);
	cr_expect_leq(rig->verdict.first.ns + rig->verdict.second.ns, rig->verdict.late_ns);
}

/* The RenderThread sleeps until the main thread wakes it at `woken`, and draws until `ready`. */
static void draws(struct rig *rig, int64_t woken, int64_t ready)
{
	sleeps(rig, T_RENDER, woken, SPELL_REASON_UNKNOWN, MAIN);
	runs(rig, T_RENDER, ready);
}

Test(why_judge, main_cpu)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 280);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 280, 300);
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.late_ns, 160 * UNIT);
	cr_expect_eq(rig.verdict.window_start_ns, 0);
	cr_expect_eq(rig.verdict.window_end_ns, 300 * UNIT);
	cr_expect_eq(rig.verdict.first.thread, T_MAIN);
	cr_expect_eq(rig.threads[T_MAIN].ledger.ns[SPELL_RUNNING], 280 * UNIT);
	cr_expect_eq(rig.threads[T_MAIN].critical_ns, 280 * UNIT);
	cr_expect_eq(rig.threads[T_RENDER].critical_ns, 20 * UNIT);
}

Test(why_judge, render_cpu)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 30, 300);
	judge(&rig, JANK_CAUSE_RENDER_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_RENDER);
}

/* Work counts only with what is beyond half of the time given: a wait that is shorter than the work
 * beside it explains the delay. */
Test(why_judge, no_cpu_names_who_ran)
{
	struct rig rig;

	begin(&rig, 240, 160);
	runs(&rig, T_MAIN, 40);
	next(&rig, T_MAIN, 120, SPELL_RUNNABLE, 0, 900);
	next(&rig, T_MAIN, 160, SPELL_RUNNABLE, 0, 901);
	runs(&rig, T_MAIN, 230);
	draws(&rig, 230, 240);
	judge(&rig, JANK_CAUSE_NO_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.culprit.tid, 900);
	cr_expect_str_eq(rig.verdict.first.culprit.comm, "t900");
}

Test(why_judge, throttled_by_its_cgroup_is_no_cpu)
{
	struct rig rig;

	begin(&rig, 240, 160);
	runs(&rig, T_MAIN, 40);
	sleeps(&rig, T_MAIN, 200, LOOPER_REASON_THROTTLED, 0);
	runs(&rig, T_MAIN, 230);
	draws(&rig, 230, 240);
	judge(&rig, JANK_CAUSE_NO_CPU, JANK_CAUSE_UNKNOWN);
}

/* The main thread waits for one thing, which the thread 777 ends. */
static void waits(uint8_t state, int reason, enum jank_cause cause)
{
	struct rig rig;

	begin(&rig, 240, 160);
	runs(&rig, T_MAIN, 20);
	next(&rig, T_MAIN, 200, state, reason, 777);
	runs(&rig, T_MAIN, 230);
	draws(&rig, 230, 240);
	judge(&rig, cause, JANK_CAUSE_UNKNOWN);
	if (cause) {
		cr_expect_eq(rig.verdict.first.culprit.tid, 777);
		cr_expect_eq(rig.verdict.first.thread, T_MAIN);
	}
	cr_expect_eq(rig.threads[T_MAIN].critical_ns, 230 * UNIT);
}

Test(why_judge, each_wait_of_the_table)
{
	waits(SPELL_SLEEPING, LOOPER_REASON_BINDER, JANK_CAUSE_BINDER);
	waits(SPELL_SLEEPING, LOOPER_REASON_FUTEX, JANK_CAUSE_LOCK);
	waits(SPELL_SLEEPING, LOOPER_REASON_READ, JANK_CAUSE_IO);
	waits(SPELL_SLEEPING, LOOPER_REASON_POLL, JANK_CAUSE_IO);
	waits(SPELL_UNINTERRUPTIBLE, LOOPER_REASON_IO, JANK_CAUSE_IO);
	waits(SPELL_UNINTERRUPTIBLE, LOOPER_REASON_PAGE_FAULT, JANK_CAUSE_PAGE_FAULT);
	waits(SPELL_SLEEPING, SPELL_REASON_GPU, JANK_CAUSE_GPU);
	waits(SPELL_SLEEPING, LOOPER_REASON_SLEEP, JANK_CAUSE_UNKNOWN);
	waits(SPELL_SLEEPING, SPELL_REASON_UNKNOWN, JANK_CAUSE_UNKNOWN);
	waits(SPELL_UNINTERRUPTIBLE, SPELL_REASON_UNKNOWN, JANK_CAUSE_UNKNOWN);
	waits(SPELL_STOPPED, LOOPER_REASON_STOPPED, JANK_CAUSE_UNKNOWN);
	waits(SPELL_UNKNOWN, 0, JANK_CAUSE_UNKNOWN);
}

/* Before the main thread came to the frame its loop was idle: a poll then is nobody's I/O. */
Test(why_judge, idle_before_the_work_is_not_io)
{
	struct rig rig;

	begin(&rig, 300, 160);
	rig.frame.actual_start_ns = 200 * UNIT;
	sleeps(&rig, T_MAIN, 200, LOOPER_REASON_POLL, 777);
	runs(&rig, T_MAIN, 290);
	draws(&rig, 290, 300);
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
}

/* syncFrameState: while the main thread sleeps until the RenderThread wakes it, the time is that
 * one's. */
Test(why_judge, what_main_waits_for_in_the_render_thread_is_its)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 290, LOOPER_REASON_FUTEX, RENDER);
	runs(&rig, T_MAIN, 295);
	rig.frame.handed_ns = 295 * UNIT;
	draws(&rig, 30, 300);
	judge(&rig, JANK_CAUSE_RENDER_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_RENDER);
}

Test(why_judge, gpu_behind_the_queued_buffer)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 30, 60);
	sleeps(&rig, T_RENDER, 400, SPELL_REASON_UNKNOWN, 0);
	judge(&rig, JANK_CAUSE_GPU, JANK_CAUSE_UNKNOWN);
	/* and where the source tells when it was queued */
	rig.frame.queued_ns = 70 * UNIT;
	judge(&rig, JANK_CAUSE_GPU, JANK_CAUSE_UNKNOWN);
}

/* What it did after its last run is not known: whether it queued a buffer is not, either. */
Test(why_judge, a_render_thread_that_ends_amid_the_frame_waits_for_no_gpu)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 30, 60);
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
	/* but where the source tells that it was queued */
	rig.frame.queued_ns = 50 * UNIT;
	judge(&rig, JANK_CAUSE_GPU, JANK_CAUSE_UNKNOWN);
}

/* While the GPU is at work the next frame is made: neither of its threads' work is this one's. */
Test(why_judge, the_next_frame_is_drawn_while_the_gpu_is_late)
{
	struct rig rig;

	begin(&rig, 430, 320);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 160, SPELL_REASON_LOOPER, 0);
	runs(&rig, T_MAIN, 190);
	sleeps(&rig, T_MAIN, 500, SPELL_REASON_LOOPER, 0);
	sleeps(&rig, T_RENDER, 30, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 60);
	sleeps(&rig, T_RENDER, 190, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 220);
	sleeps(&rig, T_RENDER, 500, SPELL_REASON_LOOPER, 0);
	judge(&rig, JANK_CAUSE_GPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.threads[T_RENDER].critical_ns, 30 * UNIT);
	cr_expect_eq(rig.threads[T_MAIN].critical_ns, 30 * UNIT);
}

/* The main thread asks the RenderThread for something early in its doFrame, then computes. */
Test(why_judge, a_question_is_no_hand_over)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 10);
	sleeps(&rig, T_MAIN, 15, LOOPER_REASON_FUTEX, RENDER);
	runs(&rig, T_MAIN, 310);
	sleeps(&rig, T_MAIN, 500, SPELL_REASON_LOOPER, 0);
	sleeps(&rig, T_RENDER, 10, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 15);
	sleeps(&rig, T_RENDER, 300, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 330);
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.threads[T_MAIN].critical_ns, 295 * UNIT);
}

/* The RenderThread still draws the frame before, so that it is not woken, and the main thread waits
 * until it takes this one over. */
Test(why_judge, the_render_thread_draws_the_frame_before)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 20);
	sleeps(&rig, T_MAIN, 300, LOOPER_REASON_FUTEX, RENDER);
	runs(&rig, T_MAIN, 305);
	sleeps(&rig, T_MAIN, 500, SPELL_REASON_LOOPER, 0);
	runs(&rig, T_RENDER, 330);
	sleeps(&rig, T_RENDER, 500, SPELL_REASON_LOOPER, 0);
	judge(&rig, JANK_CAUSE_RENDER_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.threads[T_RENDER].critical_ns, 310 * UNIT);
}

/* The RenderThread waits for a lock and has not run again by the time of the queued buffer: it did
 * not go back to its looper, so that nothing is the GPU's. */
Test(why_judge, the_render_thread_is_not_done)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 500, SPELL_REASON_LOOPER, 0);
	sleeps(&rig, T_RENDER, 30, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 50);
	sleeps(&rig, T_RENDER, 329, LOOPER_REASON_FUTEX, 777);
	next(&rig, T_RENDER, 331, SPELL_RUNNABLE, 0, 0);
	runs(&rig, T_RENDER, 340);
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_UNKNOWN);
}

/* What a RenderThread polls is a fence. */
Test(why_judge, render_thread_polls)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 500, SPELL_REASON_LOOPER, 0);
	sleeps(&rig, T_RENDER, 30, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_RENDER, 50);
	sleeps(&rig, T_RENDER, 320, LOOPER_REASON_POLL, 0);
	runs(&rig, T_RENDER, 330);
	judge(&rig, JANK_CAUSE_GPU, JANK_CAUSE_UNKNOWN);
}

Test(why_judge, render_thread_waits_for_a_buffer)
{
	struct rig rig;

	begin(&rig, 330, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_RENDER, 30, SPELL_REASON_UNKNOWN, MAIN);
	sleeps(&rig, T_RENDER, 310, SPELL_REASON_BUFFER, SF);
	runs(&rig, T_RENDER, 330);
	judge(&rig, JANK_CAUSE_STUFFING, JANK_CAUSE_UNKNOWN);
}

Test(why_judge, stuffing_is_what_surfaceflinger_says_unless_the_app_was_late)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 290);
	draws(&rig, 290, 300);
	rig.frame.jank = JANK_BUFFER_STUFFING;
	judge(&rig, JANK_CAUSE_STUFFING, JANK_CAUSE_UNKNOWN);
	rig.frame.jank = JANK_BUFFER_STUFFING | JANK_APP_DEADLINE;
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_UNKNOWN);
}

/* The app was in time: the window goes on to the screen, and the display's threads are asked. */
static void app_in_time(struct rig *rig, uint32_t jank)
{
	begin(rig, 100, 160);
	rig->frame.compose_start_ns = GIVEN * UNIT;
	rig->frame.jank = jank;
	runs(rig, T_MAIN, 60);
	sleeps(rig, T_MAIN, 500, LOOPER_REASON_POLL, 0);
	draws(rig, 60, 100);
	sleeps(rig, T_SF, 160, LOOPER_REASON_POLL, 0);
	runs(rig, T_SF, 200);
	sleeps(rig, T_SF, 500, LOOPER_REASON_FUTEX, ENGINE);
	sleeps(rig, T_ENGINE, 200, LOOPER_REASON_FUTEX, SF);
	runs(rig, T_ENGINE, 450);
	sleeps(rig, T_HWC, 450, LOOPER_REASON_BINDER, SF);
	runs(rig, T_HWC, 470);
}

Test(why_judge, surfaceflinger)
{
	struct rig rig;

	app_in_time(&rig, JANK_SF_CPU);
	judge(&rig, JANK_CAUSE_SURFACEFLINGER, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.window_end_ns, (2 * GIVEN + 160) * UNIT);
	cr_expect_eq(rig.verdict.first.thread, T_ENGINE, "the one that had most to do");
	cr_expect_eq(rig.threads[T_ENGINE].critical_ns, 250 * UNIT);
}

Test(why_judge, hwc)
{
	struct rig rig;

	app_in_time(&rig, JANK_DISPLAY_HAL);
	judge(&rig, JANK_CAUSE_HWC, JANK_CAUSE_UNKNOWN);
	app_in_time(&rig, JANK_PREDICTION_ERROR);
	judge(&rig, JANK_CAUSE_HWC, JANK_CAUSE_UNKNOWN);
}

/* SurfaceFlinger says nothing: the one that had more to do; nothing recorded of both: unknown. */
Test(why_judge, the_display_without_a_word)
{
	struct rig rig;

	app_in_time(&rig, 0);
	judge(&rig, JANK_CAUSE_SURFACEFLINGER, JANK_CAUSE_UNKNOWN);
	app_in_time(&rig, 0);
	rig.threads[T_SF].spell_count = rig.threads[T_ENGINE].spell_count = 0;
	judge(&rig, JANK_CAUSE_HWC, JANK_CAUSE_UNKNOWN);
	rig.threads[T_HWC].spell_count = 0;
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
}

/* The app overran by 10 ms and the display added 8 more. */
Test(why_judge, app_and_display_share_the_delay)
{
	struct rig rig;

	begin(&rig, 260, 180);
	rig.frame.jank = JANK_APP_DEADLINE | JANK_SF_CPU;
	rig.frame.compose_start_ns = 260 * UNIT;
	runs(&rig, T_MAIN, 250);
	draws(&rig, 250, 260);
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_SURFACEFLINGER);
	cr_expect_eq(rig.verdict.second.ns / UNIT, 80);
	cr_expect_eq((rig.verdict.first.ns + UNIT / 2) / UNIT, 96, "9.6 of the 10 ms: %lld",
		     (long long)rig.verdict.first.ns);
}

/* The app overran by 4 ms, for which its buffer waited until the next vsync; then the display was
 * late by another one. */
Test(why_judge, a_small_overrun_costs_a_whole_vsync)
{
	struct rig rig;

	begin(&rig, 200, 320);
	rig.frame.jank = JANK_APP_DEADLINE | JANK_SF_CPU;
	rig.frame.compose_start_ns = 325 * UNIT;
	rig.frame.compose_due_ns = (GIVEN + 160) * UNIT;
	runs(&rig, T_MAIN, 10);
	sleeps(&rig, T_MAIN, 180, LOOPER_REASON_FUTEX, 777);
	runs(&rig, T_MAIN, 190);
	draws(&rig, 190, 200);
	sleeps(&rig, T_SF, 330, LOOPER_REASON_POLL, 0);
	runs(&rig, T_SF, 600);
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_SURFACEFLINGER);
	cr_expect_eq(rig.verdict.second.ns / UNIT, 160);
	cr_expect_eq(rig.verdict.first.ns / UNIT, 160);
	cr_expect_eq(rig.verdict.second.thread, T_SF);
}

Test(why_judge, two_causes_at_once)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 10);
	sleeps(&rig, T_MAIN, 110, LOOPER_REASON_FUTEX, 777);
	next(&rig, T_MAIN, 200, SPELL_RUNNABLE, 0, 900);
	runs(&rig, T_MAIN, 260);
	draws(&rig, 260, 300);
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_NO_CPU);
	cr_expect_eq(rig.verdict.first.culprit.tid, 777);
	cr_expect_eq(rig.verdict.second.culprit.tid, 900);
	/* 10 ms of lock, 9 ms without a CPU, 11 ms of work of which 3 are beyond half: 220 in all
	 */
	cr_expect_eq(rig.verdict.first.ns / UNIT, 160 * 100 / 220);
	cr_expect_eq(rig.verdict.second.ns / UNIT, 160 * 90 / 220);
}

/* A second cause of a third or less is not named. */
Test(why_judge, a_small_second_cause_is_not_named)
{
	struct rig rig;

	begin(&rig, 300, 160);
	sleeps(&rig, T_MAIN, 180, LOOPER_REASON_FUTEX, 777);
	next(&rig, T_MAIN, 260, SPELL_RUNNABLE, 0, 900);
	runs(&rig, T_MAIN, 290);
	draws(&rig, 290, 300);
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_UNKNOWN);
}

/* What is not recorded is not guessed: it weighs against each cause. */
Test(why_judge, nothing_recorded)
{
	struct rig rig;
	struct record_jank record = {.pid = 1};

	begin(&rig, 300, 160);
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
	cr_assert_eq(why_record_fill(&record, &rig.frame, &rig.verdict, "no scheduler events"), 0);
	cr_expect_eq(record.thread_count, 0);
	cr_assert_eq(record.missing.count, 1);
	cr_expect_str_eq(record.missing.items[0].key, "threads");
	cr_expect_str_eq(record.missing.items[0].reason, "no scheduler events");
	cr_expect(!record.cause_ns.present);
	why_record_free(&record);
	/* the display's threads say nothing of the app's */
	memset(&record, 0, sizeof(record));
	runs(&rig, T_SF, 300);
	rig.frame.threads = &rig.threads[T_SF];
	rig.frame.thread_count = 1;
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
	cr_assert_eq(why_record_fill(&record, &rig.frame, &rig.verdict, "not found"), 0);
	cr_expect_eq(record.thread_count, 1);
	cr_assert_eq(record.missing.count, 1);
	cr_expect_str_eq(record.missing.items[0].key, "threads");
	why_record_free(&record);
	/* half of it is seen, and ran; the other half may have been anything */
	begin(&rig, 300, 160);
	next(&rig, T_MAIN, 160, SPELL_UNKNOWN, 0, 0);
	runs(&rig, T_MAIN, 290);
	draws(&rig, 290, 300);
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
}

Test(why_judge, late)
{
	struct rig rig;

	begin(&rig, 300, 160);
	cr_expect_eq(why_late(&rig.frame), 160 * UNIT);
	rig.frame.dropped = true;
	cr_expect_eq(why_late(&rig.frame), 140 * UNIT,
		     "never shown: by how much it was ready late");
	rig.frame.dropped = false;
	rig.frame.predicted_ns = WHY_NO_TIME;
	cr_expect_eq(why_late(&rig.frame), 140 * UNIT);
	rig.frame.expected_end_ns = WHY_NO_TIME;
	cr_expect_eq(why_late(&rig.frame), 0);
	begin(&rig, 300, -20);
	cr_expect_eq(why_late(&rig.frame), 0);
}

/* The app was in time, and nothing says by how much the frame was late. */
Test(why_judge, dropped_by_the_display)
{
	struct rig rig;

	begin(&rig, 150, 0);
	runs(&rig, T_MAIN, 140);
	draws(&rig, 140, 150);
	rig.frame.dropped = true;
	rig.frame.jank = JANK_SF_CPU;
	judge(&rig, JANK_CAUSE_SURFACEFLINGER, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.late_ns, 0);
	cr_expect_eq(rig.verdict.confidence, 1);
	rig.frame.jank = JANK_DISPLAY_HAL;
	judge(&rig, JANK_CAUSE_HWC, JANK_CAUSE_UNKNOWN);
	/* nobody says who it was */
	rig.frame.jank = 0;
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
	/* by SurfaceFlinger's reckoning it was the app */
	rig.frame.jank = JANK_APP_DEADLINE;
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_UNKNOWN);
}

/* More nanoseconds than a double can tell. */
Test(why_judge, a_delay_of_decades)
{
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 280);
	draws(&rig, 280, 300);
	rig.frame.jank = JANK_BUFFER_STUFFING;
	for (int64_t late_ns = (1ll << 60) + 1; late_ns < (1ll << 60) + 600; late_ns += 101) {
		rig.frame.present_ns = rig.frame.predicted_ns + late_ns;
		judge(&rig, JANK_CAUSE_STUFFING, JANK_CAUSE_UNKNOWN);
	}
}

/* Times that no device has. */
Test(why_judge, hostile_times)
{
	static const int64_t times[] = {INT64_MIN + 1, INT64_MAX, 0, -1, 1, WHY_NO_TIME};
	struct rig rig;

	for (size_t n = 0; n < 6 * 6 * 6 * 6 * 6; n++) {
		begin(&rig, 300, 160);
		runs(&rig, T_MAIN, 290);
		draws(&rig, 290, 300);
		rig.frame.expected_start_ns = times[n % 6];
		rig.frame.expected_end_ns = times[n / 6 % 6];
		rig.frame.actual_start_ns = times[n / 36 % 5];
		rig.frame.actual_end_ns = times[n / 216 % 5];
		rig.frame.present_ns = rig.frame.queued_ns = times[n / 1296 % 6];
		rig.frame.handed_ns = rig.frame.compose_start_ns = times[(n + 3) % 6];
		why_judge(&rig.frame, &rig.verdict);
		cr_assert_leq(rig.verdict.window_start_ns, rig.verdict.window_end_ns);
		cr_assert_geq(rig.verdict.late_ns, 0);
	}
}

/* Two threads of that name in one process: the first one ended, or is a WebView's. */
static void two_renderers(struct rig *rig)
{
	begin(rig, 300, 160);
	rig->threads[T_SF] = rig->threads[T_RENDER];
	rig->threads[T_SF].spells = rig->spells[T_SF];
	rig->threads[T_SF].tid = RENDER + 50;
	runs(rig, T_MAIN, 20);
	sleeps(rig, T_MAIN, 400, SPELL_REASON_LOOPER, 0);
}

Test(why_judge, the_renderer_that_main_woke_is_the_frame_s)
{
	struct rig rig;

	/* The first one draws something of its own, for longer. */
	two_renderers(&rig);
	sleeps(&rig, T_RENDER, 10, SPELL_REASON_LOOPER, 999);
	runs(&rig, T_RENDER, 400);
	sleeps(&rig, T_SF, 20, SPELL_REASON_LOOPER, MAIN);
	runs(&rig, T_SF, 40);
	sleeps(&rig, T_SF, 290, LOOPER_REASON_FUTEX, 998);
	runs(&rig, T_SF, 300);
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_SF);
}

Test(why_judge, a_renderer_that_ended_is_not_the_frame_s)
{
	struct rig rig;

	two_renderers(&rig);
	sleeps(&rig, T_SF, 20, SPELL_REASON_LOOPER, 0);
	runs(&rig, T_SF, 300);
	judge(&rig, JANK_CAUSE_RENDER_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_SF);
}

Test(why_judge, who_ran_while_it_was_throttled_is_not_to_blame)
{
	struct rig rig;
	struct record_jank record = {0};
	char text[512];

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 20);
	next(&rig, T_MAIN, 260, SPELL_RUNNABLE, LOOPER_REASON_THROTTLED, 777);
	next(&rig, T_MAIN, 270, SPELL_RUNNABLE, LOOPER_REASON_OTHER, 778);
	runs(&rig, T_MAIN, 280);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 280, 300);
	judge(&rig, JANK_CAUSE_NO_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.culprit.tid, 0);
	cr_expect_eq(rig.threads[T_MAIN].ledger.ns[SPELL_RUNNABLE], 250 * UNIT);
	cr_assert_eq(why_record_fill(&record, &rig.frame, &rig.verdict, NULL), 0);
	cr_expect(strstr(why_line(&record, text, sizeof(text)),
			 "main waited 25.0 ms for a CPU: throttled by its cgroup (24.0), behind "
			 "t778 (1.0)"),
		  "%s", text);
	why_record_free(&record);
	/* Who had the CPU for longer than that is. */
	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 20);
	next(&rig, T_MAIN, 100, SPELL_RUNNABLE, LOOPER_REASON_THROTTLED, 777);
	next(&rig, T_MAIN, 270, SPELL_RUNNABLE, LOOPER_REASON_OTHER, 778);
	runs(&rig, T_MAIN, 280);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 280, 300);
	judge(&rig, JANK_CAUSE_NO_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.culprit.tid, 778);
}

/* Of a RenderThread that was born lately nothing is recorded yet. It ended the main thread's sleep:
 * so the main thread waited for it, but what the RenderThread did meanwhile is not known. */
Test(why_judge, who_draws_was_not_recorded)
{
	struct rig rig;
	struct spell *sleep;

	for (int known = 0; known < 2; known++) {
		begin(&rig, 300, 160);
		runs(&rig, T_MAIN, 30);
		sleeps(&rig, T_MAIN, 300, LOOPER_REASON_FUTEX, 999);
		sleep = &rig.spells[T_MAIN][1];
		sleep->other.tgid = MAIN;
		snprintf(sleep->other.comm, sizeof(sleep->other.comm), "RenderThread");
		/* another one: the wait is for a thread that draws another frame */
		if (known)
			sleeps(&rig, T_RENDER, 400, SPELL_REASON_LOOPER, 0);
		judge(&rig, known ? JANK_CAUSE_LOCK : JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
	}
	/* a thread of another process that is called so as well */
	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 300, LOOPER_REASON_FUTEX, 999);
	sleep = &rig.spells[T_MAIN][1];
	sleep->other.tgid = 998;
	snprintf(sleep->other.comm, sizeof(sleep->other.comm), "RenderThread");
	judge(&rig, JANK_CAUSE_LOCK, JANK_CAUSE_UNKNOWN);
}

/* One that ended before the frame stands first among the threads. */
Test(why_judge, who_draws_is_the_one_that_lives)
{
	struct rig rig;

	begin(&rig, 300, 160);
	rig.threads[T_SF].role = JANK_ROLE_RENDER; /* the new one */
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 300, LOOPER_REASON_READ, SF);
	runs(&rig, T_SF, 400);
	judge(&rig, JANK_CAUSE_RENDER_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_SF);
	/* and of that one nothing is known */
	begin(&rig, 300, 160);
	rig.threads[T_SF].role = JANK_ROLE_RENDER;
	runs(&rig, T_MAIN, 30);
	sleeps(&rig, T_MAIN, 300, LOOPER_REASON_READ, SF);
	next(&rig, T_SF, 400, SPELL_UNKNOWN, 0, 0);
	judge(&rig, JANK_CAUSE_UNKNOWN, JANK_CAUSE_UNKNOWN);
}

/* The recorder keeps the threads of a process that ended for half a minute, and its pid may be
 * another one's by then: of two main threads the frame's is the one that did something. */
Test(why_judge, the_main_thread_of_a_dead_process_with_that_pid_is_not_the_frame_s)
{
	struct why_thread threads[THREADS + 1];
	struct rig rig;

	begin(&rig, 300, 160);
	runs(&rig, T_MAIN, 280);
	sleeps(&rig, T_MAIN, 400, LOOPER_REASON_POLL, 0);
	draws(&rig, 280, 300);
	threads[0] = (struct why_thread){.tid = MAIN, .pid = MAIN, .role = JANK_ROLE_MAIN};
	memcpy(threads + 1, rig.threads, sizeof(rig.threads));
	rig.frame.threads = threads;
	rig.frame.thread_count = THREADS + 1;
	judge(&rig, JANK_CAUSE_MAIN_CPU, JANK_CAUSE_UNKNOWN);
	cr_expect_eq(rig.verdict.first.thread, T_MAIN + 1);
}
