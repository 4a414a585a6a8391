/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "why/cast.h"

static const char *const reasons[SPELL_REASONS] = {
	[LOOPER_REASON_OTHER] = "other",
	[LOOPER_REASON_FUTEX] = "futex",
	[LOOPER_REASON_BINDER] = "binder",
	[LOOPER_REASON_POLL] = "poll",
	[LOOPER_REASON_READ] = "read",
	[LOOPER_REASON_IO] = "io",
	[LOOPER_REASON_PAGE_FAULT] = "page_fault",
	[LOOPER_REASON_SLEEP] = "sleep",
	[LOOPER_REASON_CHILD] = "child",
	[LOOPER_REASON_THROTTLED] = "throttled",
	[LOOPER_REASON_STOPPED] = "stopped",
	[LOOPER_REASON_FROZEN] = "frozen",
	[LOOPER_REASON_UNSEEN] = "unseen",
	[SPELL_REASON_GPU] = "gpu_fence",
	[SPELL_REASON_BUFFER] = "buffer",
};

static uint64_t time_of(int64_t ns)
{
	return ns > 0 ? (uint64_t)ns : 0;
}

static struct opt_u64 some_time(int64_t ns)
{
	struct opt_u64 some = {.present = ns != WHY_NO_TIME};

	if (some.present)
		some.value = time_of(ns);
	return some;
}

static void copy_name(char to[RECORD_COMM_LEN], const char from[RECORD_COMM_LEN])
{
	memcpy(to, from, RECORD_COMM_LEN);
	to[RECORD_COMM_LEN - 1] = 0;
}

static int longer(const void *a, const void *b)
{
	const struct block_reason *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : strcmp(x->reason, y->reason);
}

static int fill_lists(struct jank_thread *to, const struct why_ledger *ledger)
{
	const struct why_shares *shares = &ledger->preemptors;
	int64_t others_ns = shares->other_ns;

	to->reasons = calloc(SPELL_REASONS, sizeof(*to->reasons));
	to->preemptors = calloc(WHY_PREEMPTORS + 1, sizeof(*to->preemptors));
	if (!to->reasons || !to->preemptors)
		return -ENOMEM;
	for (int i = 0; i < SPELL_REASONS; i++) {
		int64_t ns = ledger->reason_ns[i];

		/* a looper's wait is a poll in a record */
		if (i == LOOPER_REASON_POLL)
			ns += ledger->reason_ns[SPELL_REASON_LOOPER];
		if (ns && reasons[i])
			to->reasons[to->reason_count++] =
				(struct block_reason){reasons[i], (uint64_t)ns};
	}
	qsort(to->reasons, to->reason_count, sizeof(*to->reasons), longer);
	for (size_t i = 0; i < shares->count && i < WHY_PREEMPTORS; i++) {
		struct block_preemptor *row = &to->preemptors[to->preemptor_count++];

		row->tid = shares->items[i].who.tid;
		copy_name(row->thread, shares->items[i].who.comm);
		row->ns = (uint64_t)shares->items[i].ns;
	}
	/* the rows sum to the time without a CPU, as those of a block do */
	for (size_t i = WHY_PREEMPTORS; i < shares->count; i++)
		others_ns += shares->items[i].ns;
	if (others_ns)
		to->preemptors[to->preemptor_count++] =
			(struct block_preemptor){.thread = "others", .ns = (uint64_t)others_ns};
	return 0;
}

static int fill_thread(struct jank_thread *to, const struct why_thread *from)
{
	const struct why_ledger *ledger = &from->ledger;

	*to = (struct jank_thread){
		.pid = from->pid,
		.tid = from->tid,
		.process = from->process,
		.role = from->role,
		.ledger = {(uint64_t)ledger->ns[SPELL_RUNNING],
			   (uint64_t)ledger->ns[SPELL_RUNNABLE],
			   (uint64_t)ledger->ns[SPELL_SLEEPING],
			   (uint64_t)ledger->ns[SPELL_UNINTERRUPTIBLE],
			   (uint64_t)ledger->ns[SPELL_STOPPED],
			   (uint64_t)ledger->ns[SPELL_UNKNOWN]},
	};
	copy_name(to->thread, from->comm);
	if (from->critical_ns)
		to->critical_ns = SOME_U64((uint64_t)from->critical_ns);
	if (ledger->max_khz)
		to->max_khz = SOME_U64(ledger->max_khz);
	if (ledger->waker.tid) {
		to->waker = (struct record_waker){
			.present = true, .pid = ledger->waker.tgid, .tid = ledger->waker.tid};
		copy_name(to->waker.thread, ledger->waker.comm);
	}
	return fill_lists(to, ledger);
}

static void fill_parts(struct record_jank *record, const struct why_frame *frame,
		       const struct why_verdict *verdict, const size_t *rows)
{
	const struct why_part *first = &verdict->first;

	record->cause = first->cause;
	record->second_cause = verdict->second.cause;
	record->confidence = verdict->confidence;
	if (first->cause)
		record->cause_ns = SOME_U64(time_of(first->ns));
	if (verdict->second.cause)
		record->second_cause_ns = SOME_U64(time_of(verdict->second.ns));
	if (first->thread < frame->thread_count && rows[first->thread] != WHY_NONE)
		record->cause_thread = SOME_U64(rows[first->thread]);
	if (first->culprit.tid) {
		record->culprit = (struct record_thread){
			.present = true, .pid = first->culprit.tgid, .tid = first->culprit.tid};
		copy_name(record->culprit.thread, first->culprit.comm);
	}
}

int why_record_fill(struct record_jank *record, const struct why_frame *frame,
		    const struct why_verdict *verdict, const char *missing)
{
	size_t *rows = calloc(frame->thread_count + 1, sizeof(*rows));
	bool main_is_known = false;
	int err = 0;

	record->threads = calloc(frame->thread_count + 1, sizeof(*record->threads));
	if (!rows || !record->threads) {
		free(rows);
		return -ENOMEM;
	}
	record->thread_count = 0;
	record->expected_start_ns = some_time(frame->expected_start_ns);
	record->expected_end_ns = some_time(frame->expected_end_ns);
	record->actual_start_ns = time_of(frame->actual_start_ns);
	record->actual_end_ns = time_of(frame->actual_end_ns);
	record->window_start_ns = time_of(verdict->window_start_ns);
	record->window_end_ns = time_of(verdict->window_end_ns);
	record->late_ns = time_of(verdict->late_ns);
	record->dropped = frame->dropped;
	if (frame->clock_error_ns > 0)
		record->clock_error_ns = SOME_U64((uint64_t)frame->clock_error_ns);
	for (size_t i = 0; i < frame->thread_count && !err; i++) {
		const struct why_thread *thread = &frame->threads[i];

		rows[i] = WHY_NONE;
		if (!thread->spell_count)
			continue;
		main_is_known |= thread->role == JANK_ROLE_MAIN && why_is_known(thread);
		rows[i] = record->thread_count;
		err = fill_thread(&record->threads[record->thread_count++], thread);
	}
	/* Of the others there may be none. */
	if (!err && !main_is_known)
		err = missing_list_set(&record->missing, "threads",
				       missing ? missing : "not recorded");
	fill_parts(record, frame, verdict, rows);
	free(rows);
	return err;
}

void why_record_free(struct record_jank *record)
{
	for (size_t i = 0; i < record->thread_count; i++) {
		free(record->threads[i].reasons);
		free(record->threads[i].preemptors);
	}
	free(record->threads);
	counter_list_free(&record->lost);
	missing_list_free(&record->missing);
	record->threads = NULL;
	record->thread_count = 0;
}
