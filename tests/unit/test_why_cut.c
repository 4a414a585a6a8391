/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread did in a window: the sums are of the window to the nanosecond, whatever is known of
 * it. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "chance.h"
#include "why/tell.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static struct spell spell(int64_t begin_ns, int64_t end_ns, uint8_t state, uint8_t reason,
			  int32_t other)
{
	struct spell s = {.begin_ns = begin_ns,
			  .end_ns = end_ns,
			  .state = state,
			  .reason = reason,
			  .cpu = -1,
			  .other = {.tid = other}};

	if (other)
		snprintf(s.other.comm, sizeof(s.other.comm), "t%d", other);
	return s;
}

/* The sums of each kind, checked against the window. */
static struct why_ledger cut(const struct spell *spells, size_t count, int64_t begin_ns,
			     int64_t end_ns)
{
	struct why_ledger ledger;
	int64_t sum = 0, reasons = 0, preempted = 0, throttled = 0;
	struct why_pieces pieces = why_pieces(spells, count, begin_ns, end_ns);
	struct why_piece piece;

	while (why_next_piece(&pieces, &piece))
		if (why_is_throttled(piece.state, piece.reason))
			throttled += piece.end_ns - piece.begin_ns;
	why_cut(spells, count, begin_ns, end_ns, &ledger);
	for (int i = 0; i < SPELL_STATES; i++) {
		cr_expect_geq(ledger.ns[i], 0);
		sum += ledger.ns[i];
	}
	for (int i = 0; i < SPELL_REASONS; i++)
		reasons += ledger.reason_ns[i];
	for (size_t i = 0; i < ledger.preemptors.count; i++)
		preempted += ledger.preemptors.items[i].ns;
	cr_expect_eq(sum, end_ns > begin_ns ? end_ns - begin_ns : 0, "the states sum to %lld",
		     (long long)sum);
	cr_expect_eq(reasons,
		     ledger.ns[SPELL_SLEEPING] + ledger.ns[SPELL_UNINTERRUPTIBLE] + throttled);
	cr_expect_eq(preempted + ledger.preemptors.other_ns, ledger.ns[SPELL_RUNNABLE]);
	return ledger;
}

Test(why_cut, spells_that_begin_before_and_end_behind_count_with_their_part)
{
	const struct spell spells[] = {
		spell(0, 1100, SPELL_RUNNING, 0, 0),
		spell(1100, 1350, SPELL_SLEEPING, LOOPER_REASON_FUTEX, 7),
		spell(1350, 1400, SPELL_RUNNABLE, 0, 8),
		spell(1400, 9000, SPELL_UNINTERRUPTIBLE, LOOPER_REASON_IO, 9),
	};
	struct why_ledger ledger = cut(spells, COUNT(spells), 1001, 1503);

	cr_expect_eq(ledger.ns[SPELL_RUNNING], 99);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 250);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 50);
	cr_expect_eq(ledger.ns[SPELL_UNINTERRUPTIBLE], 103);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 0);
	cr_expect_eq(ledger.reason_ns[LOOPER_REASON_FUTEX], 250);
	cr_expect_eq(ledger.reason_ns[LOOPER_REASON_IO], 103);
	cr_expect_eq(ledger.preemptors.count, 1);
	cr_expect_eq(ledger.preemptors.items[0].who.tid, 8);
	cr_expect_eq(ledger.longest_sleep_ns, 250);
	cr_expect_eq(ledger.waker.tid, 7);
}

/* Who woke it after the window has nothing to do with the window. */
Test(why_cut, a_sleep_that_goes_on_behind_the_window_has_no_waker)
{
	const struct spell spells[] = {spell(0, 500, SPELL_SLEEPING, SPELL_REASON_UNKNOWN, 7)};

	cr_expect_eq(cut(spells, 1, 100, 499).waker.tid, 0);
	cr_expect_eq(cut(spells, 1, 100, 500).waker.tid, 7);
}

Test(why_cut, what_no_spell_covers_is_unknown)
{
	const struct spell spells[] = {
		spell(100, 200, SPELL_RUNNING, 0, 0),
		spell(230, 300, SPELL_SLEEPING, LOOPER_REASON_POLL, 0),
	};
	struct why_ledger ledger = cut(spells, COUNT(spells), 50, 350);

	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 50 + 30 + 50);
	cr_expect_eq(ledger.ns[SPELL_RUNNING], 100);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 70);
	ledger = cut(NULL, 0, 50, 350);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 300);
	ledger = cut(spells, COUNT(spells), 350, 50);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 0, "a window that ends before it begins is empty");
}

/* A sleep whose reason changes is one sleep; a gap in it makes it two. */
Test(why_cut, the_longest_sleep)
{
	const struct spell spells[] = {
		spell(0, 100, SPELL_SLEEPING, LOOPER_REASON_FUTEX, 3),
		spell(100, 250, SPELL_UNINTERRUPTIBLE, LOOPER_REASON_IO, 4),
		spell(260, 460, SPELL_SLEEPING, LOOPER_REASON_READ, 5),
	};

	cr_expect_eq(cut(spells, COUNT(spells), 0, 500).longest_sleep_ns, 250);
	cr_expect_eq(cut(spells, COUNT(spells), 0, 500).waker.tid, 4);
	cr_expect_eq(cut(spells, COUNT(spells), 60, 500).longest_sleep_ns, 200);
	cr_expect_eq(cut(spells, COUNT(spells), 60, 500).waker.tid, 5);
}

Test(why_cut, spells_that_overlap_count_once)
{
	const struct spell spells[] = {
		spell(100, 300, SPELL_RUNNING, 0, 0),
		spell(200, 400, SPELL_SLEEPING, LOOPER_REASON_FUTEX, 0),
		spell(250, 260, SPELL_RUNNABLE, 0, 1), /* inside of one before it */
		spell(350, 350, SPELL_RUNNABLE, 0, 1), /* empty */
		spell(500, 400, SPELL_RUNNABLE, 0, 1), /* ends before it begins */
		spell(0, 150, SPELL_RUNNABLE, 0, 1),   /* out of order */
		spell(390, 600, 77, 200, 0),           /* neither state nor reason */
	};
	struct why_ledger ledger = cut(spells, COUNT(spells), 100, 600);

	cr_expect_eq(ledger.ns[SPELL_RUNNING], 200);
	cr_expect_eq(ledger.ns[SPELL_SLEEPING], 100);
	cr_expect_eq(ledger.ns[SPELL_RUNNABLE], 0);
	cr_expect_eq(ledger.ns[SPELL_UNKNOWN], 200);
}

Test(why_cut, any_spells_sum_to_the_window)
{
	for (uint64_t seed = 1; seed < 2000; seed++) {
		uint64_t chance = seed;
		struct spell spells[24];

		for (size_t i = 0; i < COUNT(spells); i++) {
			spells[i] = spell((int64_t)(next_random(&chance) % (1000)) - 200, 0,
					  (uint8_t)(next_random(&chance) % (8)),
					  (uint8_t)(next_random(&chance) % (SPELL_REASONS + 4)),
					  (int32_t)(next_random(&chance) % (5)));
			spells[i].end_ns =
				spells[i].begin_ns + (int64_t)(next_random(&chance) % (120)) - 10;
		}
		cut(spells, COUNT(spells), (int64_t)(next_random(&chance) % (400)),
		    (int64_t)(next_random(&chance) % (800)));
	}
}

/* More threads than have a place, and some of which nobody knows who they were. */
static struct why_ledger crowd(struct spell *spells, int count)
{
	for (int i = 0; i < count; i++)
		spells[i] = spell(i * 10, i * 10 + 10, SPELL_RUNNABLE, 0, i % 10 ? i : 0);
	spells[5] = spell(50, 60, SPELL_RUNNABLE, 0, 3);
	return cut(spells, (size_t)count, 0, count * 10);
}

Test(why_cut, preemptors_beyond_the_cap_are_others)
{
	struct spell spells[WHY_SHARES * 2];
	struct why_ledger ledger = crowd(spells, COUNT(spells));

	cr_expect_eq(ledger.preemptors.count, WHY_SHARES);
	cr_expect_eq(ledger.preemptors.items[0].who.tid, 3, "the heaviest stands first");
	cr_expect_eq(ledger.preemptors.items[0].ns, 20);
	cr_expect_gt(ledger.preemptors.other_ns, 0);
}

Test(why_cut, the_rows_of_a_record_sum_to_the_wait)
{
	struct spell spells[WHY_SHARES * 2];
	struct why_thread thread = {.tid = 1, .role = JANK_ROLE_MAIN, .spells = spells};
	struct why_frame frame = {.expected_start_ns = 0,
				  .expected_end_ns = 10,
				  .actual_end_ns = COUNT(spells) * 10,
				  .present_ns = WHY_NO_TIME,
				  .predicted_ns = WHY_NO_TIME,
				  .compose_start_ns = WHY_NO_TIME,
				  .compose_due_ns = WHY_NO_TIME,
				  .handed_ns = WHY_NO_TIME,
				  .queued_ns = WHY_NO_TIME,
				  .threads = &thread,
				  .thread_count = 1};
	struct record_jank record = {.pid = 1};
	struct why_verdict verdict;
	uint64_t sum = 0;

	crowd(spells, COUNT(spells));
	thread.spell_count = COUNT(spells);
	why_judge(&frame, &verdict);
	cr_assert_eq(why_record_fill(&record, &frame, &verdict, NULL), 0);
	cr_assert_eq(record.thread_count, 1);
	cr_assert_eq(record.threads[0].preemptor_count, WHY_PREEMPTORS + 1);
	for (size_t i = 0; i < record.threads[0].preemptor_count; i++)
		sum += record.threads[0].preemptors[i].ns;
	cr_expect_eq(sum, record.threads[0].ledger.runnable_ns);
	cr_expect_eq(sum, COUNT(spells) * 10);
	cr_expect_str_eq(record.threads[0].preemptors[WHY_PREEMPTORS].thread, "others");
	cr_expect_eq(record.threads[0].preemptors[WHY_PREEMPTORS].tid, 0);
	why_record_free(&record);
}
