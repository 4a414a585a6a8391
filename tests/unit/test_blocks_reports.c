/* SPDX-License-Identifier: BSD-2-Clause */
/* A block record waits for its stacks for 200 ms at the most; what comes later follows. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/blocks/reports.h"
#include "util/clock.h"

#define MS NSEC_PER_MSEC

struct told {
	struct block_reports reports;
	size_t blocks, additions;
	size_t stacks;    /* of the last block */
	uint64_t of;      /* of the last addition */
	char missing[64]; /* the last block's reason for no stacks */
	pid_t order[16];
	uint64_t seq;
};

static void emit(void *ctx, struct record *record)
{
	struct told *told = ctx;

	record->seq = 100 + told->seq++;
	record->t_boot_ns = 7;
	if (record->type == RECORD_STACK) {
		told->additions++;
		told->of = record->addition->of;
		return;
	}
	cr_assert_eq(record->type, RECORD_BLOCK);
	told->stacks = record->block->stack_count;
	told->missing[0] = 0;
	for (size_t i = 0; i < record->block->missing.count; i++)
		if (!strcmp(record->block->missing.items[i].key, "stacks"))
			snprintf(told->missing, sizeof(told->missing), "%s",
				 record->block->missing.items[i].reason);
	told->order[told->blocks++] = record->block->pid;
}

static struct unwound *a_trace(uint64_t function)
{
	struct unwound *trace = calloc(1, sizeof(*trace) + sizeof(struct unwound_frame));

	cr_assert(trace);
	trace->frames = (struct unwound_frame *)(trace + 1);
	trace->count = 1;
	trace->frames[0].function = function;
	trace->frames[0].symbol = "f";
	return trace;
}

static struct block_sample *a_sample(struct block_samples *list, uint64_t t_ns)
{
	struct block_sample *sample = block_sample_new();

	cr_assert(sample);
	sample->t_ns = t_ns;
	block_samples_add(list, sample);
	return sample;
}

static void unwind(struct block_sample *sample, uint64_t function)
{
	sample->trace = a_trace(function);
	sample->state = SAMPLE_UNWOUND;
}

/* A report of a period from 0 to 100 ms that was created at 1 s. */
static struct block_report *a_report(struct told *told, uint64_t slot_id, bool last)
{
	struct block_report *report = calloc(1, sizeof(*report));

	cr_assert(report);
	report->slot_id = slot_id;
	report->period = 5;
	report->block.pid = (pid_t)slot_id;
	report->end_ns = 100 * MS;
	report->created_ns = 1000 * MS;
	report->last = last;
	block_reports_add(&told->reports, report);
	return report;
}

static void start(struct told *told)
{
	*told = (struct told){0};
	block_reports_init(&told->reports);
}

Test(block_reports, goes_out_when_its_samples_are_unwound)
{
	struct told told;
	struct block_report *report;
	struct block_sample *sample;

	start(&told);
	report = a_report(&told, 1, true);
	sample = a_sample(&report->list, 50 * MS);
	cr_assert_eq(block_report_weigh(report, &report->list, &report->spells, 0, 0), 0);
	cr_expect_eq(block_reports_emit(&told.reports, 1010 * MS, false, emit, &told), 1200 * MS);
	cr_expect_eq(told.blocks, 0);
	unwind(sample, 1);
	cr_expect_eq(block_reports_emit(&told.reports, 1020 * MS, false, emit, &told), 0);
	cr_expect_eq(told.blocks, 1);
	cr_expect_eq(told.stacks, 1);
	cr_expect_eq(told.reports.count, 0);
}

Test(block_reports, goes_out_after_200_ms_and_the_stack_follows)
{
	struct told told;
	struct block_report *report;
	struct block_sample *first, *second;

	start(&told);
	report = a_report(&told, 1, true);
	first = a_sample(&report->list, 30 * MS);
	second = a_sample(&report->list, 60 * MS);
	cr_assert_eq(block_report_weigh(report, &report->list, &report->spells, 0, 0), 0);
	unwind(first, 1);
	block_reports_emit(&told.reports, 1200 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 1);
	cr_expect_eq(told.stacks, 1, "what was there by then");
	cr_expect_eq(told.additions, 0);
	cr_expect_not(block_reports_settled(&told.reports));
	unwind(second, 2);
	cr_expect(block_reports_settled(&told.reports));
	cr_expect_eq(block_reports_emit(&told.reports, 1500 * MS, false, emit, &told), 0);
	cr_expect_eq(told.blocks, 1, "told once");
	cr_expect_eq(told.additions, 1);
	cr_expect_eq(told.of, 100, "the seq of its block");
	cr_expect_eq(told.reports.stacks_abandoned, 0);
}

Test(block_reports, a_stack_that_never_comes_is_counted)
{
	struct told told;
	struct block_report *report;

	start(&told);
	report = a_report(&told, 1, true);
	a_sample(&report->list, 30 * MS);
	cr_assert_eq(block_report_weigh(report, &report->list, &report->spells, 0, 0), 0);
	block_reports_emit(&told.reports, 1200 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 1);
	cr_expect_str_eq(told.missing, MISSING_FOLLOWS);
	cr_expect_eq(block_reports_emit(&told.reports, 7000 * MS, false, emit, &told), 0);
	cr_expect_eq(told.reports.stacks_abandoned, 1);
	cr_expect_eq(told.additions, 0);
}

Test(block_reports, the_end_of_the_run_waits_for_nothing)
{
	struct told told;
	struct block_report *report;

	start(&told);
	report = a_report(&told, 1, true);
	a_sample(&report->list, 30 * MS);
	cr_assert_eq(block_report_weigh(report, &report->list, &report->spells, 0, 0), 0);
	cr_expect_eq(block_reports_emit(&told.reports, 1001 * MS, true, emit, &told), 0);
	cr_expect_eq(told.blocks, 1);
	cr_expect_str_eq(told.missing, "the run ended before its stack was unwound");
	cr_expect_eq(told.reports.stacks_abandoned, 1);
	cr_expect_eq(told.reports.count, 0);
}

Test(block_reports, a_late_sample_joins_the_report_of_its_period)
{
	struct told told;
	struct block_report *report;
	struct block_sample *sample = block_sample_new(), *other = block_sample_new();

	start(&told);
	report = a_report(&told, 1, true);
	cr_expect_eq(block_reports_emit(&told.reports, 1001 * MS, false, emit, &told), 1050 * MS,
		     "a sample may be on its way");
	sample->t_ns = 50 * MS;
	unwind(sample, 3);
	cr_expect_not(block_reports_late_sample(&told.reports, 1, 4, other), "another period");
	cr_expect(block_reports_late_sample(&told.reports, 1, 5, sample));
	cr_expect_eq(report->sample_count, 1);
	cr_expect_eq(report->weights[0], 100 * MS, "all of the period");
	block_reports_emit(&told.reports, 1002 * MS, false, emit, &told);
	cr_expect_eq(told.stacks, 1);
}

Test(block_reports, tried_in_vain_is_not_untried)
{
	struct told told;
	struct block_report *report;

	start(&told);
	a_report(&told, 1, true);
	block_reports_emit(&told.reports, 2000 * MS, false, emit, &told);
	cr_expect_str_eq(told.missing, "no sample of it came");
	a_report(&told, 4, true)->unknown = true;
	block_reports_emit(&told.reports, 2000 * MS, false, emit, &told);
	cr_expect_str_eq(told.missing,
			 "no capture was tried: the thread was not known to loop yet");
	report = a_report(&told, 2, true);
	report->failed = 3;
	block_reports_emit(&told.reports, 2000 * MS, false, emit, &told);
	cr_expect_str_eq(told.missing, "no capture succeeded");
	/* The word of a failure comes after the end of the block. */
	a_report(&told, 3, true);
	block_reports_late_failure(&told.reports, 3, 4, STACK_MOVED);
	block_reports_late_failure(&told.reports, 3, 5, STACK_GONE);
	block_reports_late_failure(&told.reports, 9, 5, STACK_MOVED);
	block_reports_emit(&told.reports, 2000 * MS, false, emit, &told);
	cr_expect_str_eq(told.missing, "no capture succeeded: thread is gone");
	cr_expect_eq(told.blocks, 4);
}

static unsigned forsaken;

static void on_forsaken(struct block_sample *sample)
{
	forsaken++;
	sample->state = SAMPLE_LOST;
	block_sample_put(sample);
}

Test(block_reports, a_stack_that_is_given_up_is_not_unwound)
{
	struct told told;
	struct block_report *report;
	struct block_sample *sample;

	start(&told);
	forsaken = 0;
	report = a_report(&told, 1, true);
	sample = a_sample(&report->list, 50 * MS);
	sample->forsaken = on_forsaken;
	block_sample_hold(sample); /* the job's */
	cr_assert_eq(block_report_weigh(report, &report->list, &report->spells, 0, 0), 0);
	block_reports_emit(&told.reports, 1200 * MS, false, emit, &told);
	cr_expect_eq(forsaken, 0, "it may follow");
	block_reports_emit(&told.reports, 6000 * MS, false, emit, &told);
	cr_expect_eq(told.reports.stacks_abandoned, 1);
	cr_expect_eq(forsaken, 1);
	/* Nobody waits for one that comes behind its record. */
	sample = block_sample_new();
	cr_assert(sample);
	sample->forsaken = on_forsaken;
	block_sample_hold(sample);
	cr_expect_not(block_reports_late_sample(&told.reports, 1, 5, sample));
	cr_expect_eq(forsaken, 2);
}

Test(block_reports, a_thread_that_is_never_known_to_loop_holds_few)
{
	struct told told;

	start(&told);
	for (int i = 0; i < 100; i++) {
		struct block_report *report = calloc(1, sizeof(*report));

		cr_assert(report);
		report->slot_id = 1 + i % 2;
		report->block.pid = i;
		report->held = i % 2;
		report->last = true;
		report->no_stacks = "--stack off";
		block_reports_add(&told.reports, report);
	}
	cr_expect_eq(told.reports.count, 50 + 8, "those of the other thread are not held");
	block_reports_drop_held(&told.reports, 1);
	cr_expect_eq(told.reports.count, 50 + 8);
	block_reports_drop_held(&told.reports, 2);
	cr_expect_eq(told.reports.count, 50);
	block_reports_free(&told.reports);
}

Test(block_reports, held_back_until_the_thread_is_known_to_loop)
{
	struct told told;
	struct block_report *held, *dropped;

	start(&told);
	held = a_report(&told, 1, true);
	dropped = a_report(&told, 2, true);
	held->held = dropped->held = true;
	told.reports.some_early = true; /* as if they had been held when they were added */
	held->no_stacks = dropped->no_stacks = "--stack off";
	cr_expect_eq(block_reports_emit(&told.reports, 9000 * MS, false, emit, &told), 0);
	cr_expect_eq(told.blocks, 0);
	block_reports_release(&told.reports, 1);
	block_reports_drop_held(&told.reports, 2);
	block_reports_emit(&told.reports, 9000 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 1);
	cr_expect_eq(told.order[0], 1);
	cr_expect_str_eq(told.missing, "--stack off");
	cr_expect_eq(told.reports.count, 0);
}

Test(block_reports, the_end_of_a_thread_answers_no_question)
{
	struct told told;
	struct block_report *report;

	start(&told);
	report = a_report(&told, 1, true);
	report->doubted = true;
	report->no_stacks = "--stack off";
	report = a_report(&told, 1, true);
	report->early = true;
	report->no_stacks = "--stack off";
	a_report(&told, 1, true)->held = true;
	report = a_report(&told, 2, true);
	report->doubted = true;
	block_reports_emit(&told.reports, 1000 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 0);
	block_reports_end(&told.reports, 1);
	block_reports_emit(&told.reports, 1000 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 2, "%zu", told.blocks);
	cr_expect_eq(told.order[0], 1);
	cr_expect_eq(told.order[1], 1);
	cr_expect_eq(told.reports.count, 1, "the other thread's is asked about still");
	block_reports_emit(&told.reports, 9000 * MS, true, emit, &told);
}

Test(block_reports, records_of_one_thread_keep_their_order)
{
	struct told told;
	struct block_report *open, *closed, *other;
	struct block_samples list = {0};
	struct block_sample *sample = a_sample(&list, 50 * MS);

	start(&told);
	open = a_report(&told, 1, false);
	closed = a_report(&told, 1, true);
	other = a_report(&told, 2, true);
	closed->no_stacks = other->no_stacks = "--stack off";
	cr_assert_eq(block_report_weigh(open, &list, &open->spells, 0, 0), 0);
	block_samples_clear(&list);
	block_reports_emit(&told.reports, 1001 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 1, "only the other thread's");
	cr_expect_eq(told.order[0], 2);
	unwind(sample, 1);
	block_reports_emit(&told.reports, 1002 * MS, false, emit, &told);
	cr_expect_eq(told.blocks, 3);
	cr_expect_eq(told.reports.count, 0);
}
