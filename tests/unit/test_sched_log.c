/* SPDX-License-Identifier: BSD-2-Clause */
/* From scheduler events, in any order between CPUs, to what a thread did in a window. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frames/sched_log.h"
#include "why/cut.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define ME          10
#define OTHER       11
#define WAKER       12

static const struct sched_window windows[] = {{1000, 2000}, {5000, 6000}};

struct rig {
	struct thread_table *names;
	struct sched_log *log;
	struct sched_spells spells;
};

static void start(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	rig->names = thread_table_new();
	rig->log = sched_log_new(windows, COUNT(windows), rig->names);
	cr_assert_eq(thread_table_note(rig->names, WAKER, 5, "waker", 5), 0);
	cr_assert_eq(sched_log_watch(rig->log, ME, windows, COUNT(windows)), 0);
}

static void stop(struct rig *rig)
{
	free(rig->spells.items);
	sched_log_free(rig->log);
	thread_table_free(rig->names);
}

static void switches(struct rig *rig, int64_t ts_ns, int32_t cpu, int32_t prev, int64_t state,
		     int32_t next)
{
	sched_log_switch(rig->log, &(struct trace_switch){.ts_ns = ts_ns,
							  .cpu = cpu,
							  .prev_tid = prev,
							  .prev_state = state,
							  .next_tid = next});
}

static void wakes(struct rig *rig, int64_t ts_ns, int32_t cpu, int32_t waker)
{
	sched_log_wakeup(rig->log, &(struct trace_wakeup){.ts_ns = ts_ns,
							  .tid = ME,
							  .cpu = cpu,
							  .waker_tid = waker,
							  .target_cpu = -1});
}

/* The trace goes on for long. */
static struct why_ledger finish(struct rig *rig, int64_t begin_ns, int64_t end_ns)
{
	struct why_ledger ledger;

	switches(rig, 9000, 7, 0, 0, 99);
	cr_assert_eq(sched_log_finish(rig->log), 0);
	cr_assert_eq(sched_log_spells(rig->log, ME, begin_ns, end_ns, &rig->spells), 0);
	why_cut(rig->spells.items, rig->spells.count, begin_ns, end_ns, &ledger);
	return ledger;
}

Test(sched_log, states_of_a_window)
{
	struct rig rig;
	struct why_ledger ledger;

	start(&rig);
	/* CPU 1 is told before CPU 0, as Perfetto's bundles may stand */
	switches(&rig, 1100, 1, 0, 0, ME);
	switches(&rig, 1200, 1, ME, 2, 0); /* D */
	switches(&rig, 100, 0, 0, 0, ME);
	switches(&rig, 200, 0, ME, 1, OTHER); /* S since before the window */
	wakes(&rig, 1040, 3, WAKER);
	wakes(&rig, 1500, 3, WAKER);
	switches(&rig, 1700, 0, OTHER, 0, ME);
	switches(&rig, 1750, 0, ME, 256, OTHER); /* preempted */
	switches(&rig, 1800, 0, OTHER, 1, ME);
	ledger = finish(&rig, 1000, 1900);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 40);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 60 + 200 + 50);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 100 + 50 + 100);
	cr_expect_eq(ledger.ns[SPELL_UNINTERRUPTIBLE], 300);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 0);
	/* on CPU 0 OTHER had run; on CPU 1 nobody had */
	cr_expect_eq(ledger.preemptors.count, 1);
	cr_expect_eq(ledger.preemptors.items[0].who.tid, OTHER);
	cr_expect_eq(ledger.preemptors.items[0].ns, 250);
	cr_expect_eq(ledger.preemptors.other_ns, 60);
	cr_expect_eq(ledger.waker.tid, WAKER);
	cr_expect_str_eq(ledger.waker.comm, "waker");
	stop(&rig);
}

/* Of a window behind one in which it fell asleep, without an event between them or in it. */
Test(sched_log, a_state_goes_on_from_window_to_window)
{
	struct rig rig;

	start(&rig);
	switches(&rig, 1100, 1, 0, 0, ME);
	switches(&rig, 1200, 1, ME, 1, 0);
	cr_expect_eq(finish(&rig, 5100, 5900).ns[SPELL_SLEEPING], 800);
	stop(&rig);
	start(&rig);
	switches(&rig, 100, 1, 0, 0, ME);
	switches(&rig, 200, 1, ME, 1, 0);
	cr_expect_eq(finish(&rig, 5100, 5900).ns[SPELL_SLEEPING], 800, "nor in the first one");
	stop(&rig);
	/* between two windows only the last counts, in whatever order they come */
	start(&rig);
	wakes(&rig, 4500, 3, WAKER);
	switches(&rig, 4000, 1, ME, 1, 0);
	switches(&rig, 3000, 2, ME, 2, 0);
	cr_expect_eq(finish(&rig, 5100, 5900).ns[SPELL_RUNNABLE], 800);
	stop(&rig);
}

Test(sched_log, nothing_is_known_before_the_first_event_and_behind_the_last)
{
	struct rig rig;
	struct why_ledger ledger;

	start(&rig);
	switches(&rig, 5400, 1, 0, 0, ME);
	ledger = finish(&rig, 5000, 6000);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 400);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 600);
	stop(&rig);
	start(&rig);
	switches(&rig, 5100, 1, 0, 0, ME);
	switches(&rig, 5300, 1, ME, 1, 0);
	switches(&rig, 5400, 1, 0, 0, 99);
	cr_assert_eq(sched_log_finish(rig.log), 0);
	cr_assert_eq(sched_log_spells(rig.log, ME, 5000, 6000, &rig.spells), 0);
	why_cut(rig.spells.items, rig.spells.count, 5000, 6000, &ledger);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 100, "the trace ends at 5400");
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 700);
	stop(&rig);
}

/* It leaves a CPU to which nobody saw it come: an event is missing, and what it did is not known.
 */
Test(sched_log, a_lost_event_is_no_state)
{
	struct rig rig;
	struct why_ledger ledger;

	start(&rig);
	switches(&rig, 900, 1, ME, 1, 0);
	switches(&rig, 1500, 1, ME, 1, 0);
	ledger = finish(&rig, 1000, 2000);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 500);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 500);
	stop(&rig);
}

/* A wake-up of one that runs means nothing; in the nanosecond in which it goes to sleep it does,
 * wherever it stands in the file. */
Test(sched_log, early_wakes)
{
	struct rig rig;
	struct why_ledger ledger;

	start(&rig);
	wakes(&rig, 1300, 3, WAKER);
	wakes(&rig, 1200, 3, WAKER);
	switches(&rig, 1100, 1, 0, 0, ME);
	switches(&rig, 1300, 1, ME, 1, 0);
	switches(&rig, 1400, 1, 0, 0, ME);
	ledger = finish(&rig, 1000, 2000);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 200 + 600);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 100);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 0);
	stop(&rig);
}

Test(sched_log, what_a_sleep_is_for)
{
	struct rig rig;
	struct why_ledger ledger;
	const struct sched_span spans[] = {{1000, 2000, ME, SPELL_REASON_BUFFER},
					   {1240, 1290, ME, LOOPER_REASON_FUTEX},
					   {1250, 1900, OTHER, SPELL_REASON_GPU}};

	start(&rig);
	for (size_t i = COUNT(spans); i > 0; i--)
		sched_log_span(rig.log, &spans[i - 1]);
	switches(&rig, 1000, 1, 0, 0, ME);
	switches(&rig, 1250, 1, ME, 1, 0); /* the innermost slice tells */
	wakes(&rig, 1280, 3, WAKER);
	switches(&rig, 1280, 1, 0, 0, ME);
	switches(&rig, 1300, 1, ME, 1, 0);
	wakes(&rig, 1400, 3, WAKER);
	switches(&rig, 1400, 1, 0, 0, ME);
	switches(&rig, 1500, 1, ME, 2, 0); /* the kernel says that it was a disk */
	wakes(&rig, 1570, 3, WAKER);
	sched_log_blocked(rig.log, &(struct trace_blocked){1571, ME, true});
	switches(&rig, 1575, 1, 0, 0, ME);
	sched_log_binder(rig.log, &(struct trace_binder){.ts_ns = 1580, .tid = ME});
	switches(&rig, 1600, 1, ME, 1, 0);
	wakes(&rig, 1700, 3, WAKER);
	switches(&rig, 1700, 1, 0, 0, ME);
	sched_log_binder(rig.log,
			 &(struct trace_binder){.ts_ns = 1710, .tid = ME, .received = true});
	switches(&rig, 1800, 1, ME, 1, 0);
	ledger = finish(&rig, 1000, 1900);
	cr_expect_eq(ledger.reason_ns[LOOPER_REASON_FUTEX], 30);
	cr_expect_eq(ledger.reason_ns[SPELL_REASON_BUFFER], 100 + 100);
	cr_expect_eq(ledger.reason_ns[LOOPER_REASON_IO], 70);
	cr_expect_eq(ledger.reason_ns[LOOPER_REASON_BINDER], 100);
	stop(&rig);
}

Test(sched_log, who_is_not_watched_has_no_spells)
{
	struct rig rig;

	start(&rig);
	switches(&rig, 1100, 1, 0, 0, OTHER);
	cr_assert_eq(sched_log_finish(rig.log), 0);
	cr_assert_eq(sched_log_spells(rig.log, OTHER, 1000, 2000, &rig.spells), 0);
	cr_expect_eq(rig.spells.count, 0);
	cr_assert_eq(sched_log_spells(rig.log, ME, 3000, 4000, &rig.spells), 0);
	cr_expect_eq(rig.spells.count, 0, "nor a time outside of the windows");
	cr_expect_eq(sched_log_counts(rig.log)->switches, 1);
	stop(&rig);
}

/* A trace tells CPU by CPU: the thread's first run, under its parent's name, may come last. */
Test(sched_log, a_thread_has_the_latest_name_that_it_ran_under)
{
	struct thread_table *names = thread_table_new();
	const struct spell_thread *thread;

	cr_assert_eq(thread_table_note(names, ME, 7, "from the tree", 13), 0);
	cr_assert_eq(thread_table_ran(names, ME, 900, "surfaceflinger", 14), 0);
	cr_assert_eq(thread_table_ran(names, ME, 100, "app_process64", 13), 0);
	cr_assert_eq(thread_table_note(names, ME, 8, "from the tree", 13), 0);
	cr_assert_eq(thread_table_ran(names, ME, 950, NULL, 0), 0);
	cr_assert_eq(thread_table_ran(names, 0, 950, "swapper/0", 9), 0);
	cr_assert_eq(thread_table_ran(names, OTHER, 950, "", 1), 0);
	thread = thread_table_find(names, ME);
	cr_assert_str_eq(thread->comm, "surfaceflinger");
	cr_assert_eq(thread->tgid, 8);
	cr_assert_null(thread_table_find(names, 0));
	cr_assert_null(thread_table_find(names, OTHER));
	thread_table_free(names);
}

/* Who was on a CPU whose events were lost is not on it for ever. */
Test(sched_log, who_left_unseen_does_not_run)
{
	const struct trace_switch behind = {
		.ts_ns = 1300, .cpu = 1, .prev_tid = -1, .next_tid = OTHER, .lost = true};
	struct why_ledger ledger;
	struct rig rig;

	start(&rig);
	switches(&rig, 1100, 1, 0, 0, ME);
	sched_log_switch(rig.log, &behind);
	wakes(&rig, 1500, 3, WAKER);
	switches(&rig, 1600, 2, 0, 0, ME);
	ledger = finish(&rig, 1100, 1900);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 300);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 400);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 100);
	stop(&rig);
	/* Without a word that some were: another one leaves. */
	start(&rig);
	switches(&rig, 1100, 1, 0, 0, ME);
	switches(&rig, 1300, 1, OTHER, 0, WAKER);
	wakes(&rig, 1500, 3, WAKER);
	ledger = finish(&rig, 1100, 1900);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 0);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 400);
	stop(&rig);
	/* It came to another CPU meanwhile, of which more is told later. */
	start(&rig);
	switches(&rig, 1100, 1, 0, 0, ME);
	sched_log_switch(rig.log, &behind);
	switches(&rig, 1200, 2, 0, 0, ME);
	switches(&rig, 1400, 2, ME, 1, 0);
	ledger = finish(&rig, 1100, 1900);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 300);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 500);
	stop(&rig);
	/* All of it before the window. */
	start(&rig);
	switches(&rig, 2100, 1, 0, 0, ME);
	sched_log_switch(
		rig.log,
		&(struct trace_switch){
			.ts_ns = 2300, .cpu = 1, .prev_tid = 0, .next_tid = OTHER, .lost = true});
	ledger = finish(&rig, 5100, 5900);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 800);
	stop(&rig);
	/* In a window before. */
	start(&rig);
	switches(&rig, 1100, 1, 0, 0, ME);
	sched_log_switch(rig.log, &behind);
	wakes(&rig, 5500, 3, WAKER);
	ledger = finish(&rig, 5100, 5900);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 400);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 400);
	stop(&rig);
}

#define MANY 75000

/* Windows of many threads: what has no room is counted, and what has is whole. */
Test(sched_log, more_windows_than_there_is_room_for)
{
	static struct sched_window many[MANY];
	struct thread_table *names = thread_table_new();
	struct sched_spells spells = {0};
	struct sched_log *log;

	for (int64_t i = 0; i < MANY; i++)
		many[i] = (struct sched_window){1000 * i + 100, 1000 * i + 900};
	log = sched_log_new(many, MANY, names);
	for (int32_t tid = 1; tid <= 8; tid++) {
		cr_assert_eq(sched_log_watch(log, tid, many, MANY), 0);
		sched_log_switch(
			log, &(struct trace_switch){
				     .ts_ns = 5200, .cpu = tid, .prev_tid = 0, .next_tid = tid});
	}
	sched_log_switch(log, &(struct trace_switch){.ts_ns = 5900, .next_tid = 99});
	cr_assert_eq(sched_log_finish(log), 0);
	cr_expect_eq(sched_log_counts(log)->lost, 3);
	for (int32_t tid = 1; tid <= 8; tid++) {
		cr_assert_eq(sched_log_spells(log, tid, 5100, 5800, &spells), 0);
		cr_expect_eq(spells.count, tid <= 5);
	}
	free(spells.items);
	sched_log_free(log);
	thread_table_free(names);
}

static void is_called(const struct thread_table *names, int64_t ts_ns, const char *comm,
		      int32_t tgid)
{
	struct spell_thread at = {0};

	cr_assert(thread_table_at(names, ME, ts_ns, &at));
	cr_expect_str_eq(at.comm, comm, "%ld: %s", (long)ts_ns, at.comm);
	cr_expect_eq(at.tgid, tgid, "%ld: %d", (long)ts_ns, at.tgid);
}

/* In any order: what is told of one CPU stands behind what is told of another. */
Test(sched_log, a_number_that_is_anothers_later_has_the_name_of_its_time)
{
	static const struct {
		int64_t ts_ns;
		const char *comm;
	} runs[] = {{100, "RenderThread"}, {300, "RenderThread"}, {500, "kworker/1"},
		    {700, "kworker/1"},    {900, "RenderThread"}, {950, "RenderThread"}};
	static const unsigned char orders[][6] = {
		{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {0, 5, 2, 1, 3, 4}, {2, 0, 4, 5, 3, 1}};
	struct spell_thread none = {0};

	for (size_t n = 0; n < COUNT(orders); n++) {
		struct thread_table *names = thread_table_new();

		cr_assert_eq(thread_table_note(names, ME, 7, "", 0), 0);
		for (size_t i = 0; i < COUNT(runs); i++)
			cr_assert_eq(thread_table_ran(names, ME, runs[orders[n][i]].ts_ns,
						      runs[orders[n][i]].comm, 16),
				     0);
		is_called(names, 0, "RenderThread", 7);
		is_called(names, 300, "RenderThread", 7);
		is_called(names, 500, "kworker/1", 7);
		is_called(names, 700, "kworker/1", 7);
		is_called(names, 2000, "RenderThread", 7);
		cr_assert_eq(thread_table_note(names, ME, 8, "", 0), 0);
		is_called(names, 100, "RenderThread", 0);
		is_called(names, 900, "RenderThread", 8);
		cr_expect(thread_was_called(thread_table_find(names, ME), "kworker/1"));
		cr_expect_not(thread_was_called(thread_table_find(names, ME), "kworker"));
		cr_expect_not(thread_table_at(names, OTHER, 0, &none));
		thread_table_free(names);
	}
}

Test(sched_log, a_thread_of_many_names_has_the_latest_one)
{
	struct thread_table *names = thread_table_new();
	char name[RECORD_COMM_LEN];

	for (int i = 0; i < 100; i++) {
		int length = snprintf(name, sizeof(name), "name %d", i);

		cr_assert_eq(thread_table_ran(names, ME, 10 * i, name, (size_t)length), 0);
	}
	cr_expect_str_eq(thread_table_find(names, ME)->comm, "name 99");
	is_called(names, 11, "name 1", 0);
	is_called(names, 5000, "name 99", 0);
	cr_expect_eq(thread_table_lost(names), 92);
	thread_table_free(names);
}
