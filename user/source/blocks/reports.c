/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/reports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stack/stack_merge.h"
#include "util/clock.h"

/* How long a record waits for its stacks, and for a first sample that is on its way. */
#define WAIT_NS  (200 * NSEC_PER_MSEC)
#define FIRST_NS (50 * NSEC_PER_MSEC)
/* A thread that was seen in an epoll once may serve that in turns with others: what it did before
 * is told when it comes back to wait, or after such a time. */
#define EARLY_NS NSEC_PER_SEC
/* How long a stack may follow its record. */
#define FOLLOW_NS (5 * NSEC_PER_SEC)
/* Of one thread at a time; a thread that loops is known by its second wait. */
#define MOST_HELD 8

void block_reports_init(struct block_reports *reports)
{
	*reports = (struct block_reports){0};
	reports->last = &reports->first;
}

/* A thread that polls in several places in turn is never known to loop, and what it did is held
 * until it ends. The first of its reports that are held gives way. */
static void limit_held(struct block_reports *reports, uint64_t slot_id)
{
	struct block_report **first = NULL, *report;
	size_t count = 0;

	for (struct block_report **link = &reports->first; *link; link = &(*link)->next) {
		if (!(*link)->held || (*link)->slot_id != slot_id)
			continue;
		if (!first)
			first = link;
		count++;
	}
	if (count <= MOST_HELD)
		return;
	report = *first;
	*first = report->next;
	reports->count--;
	block_report_free(report);
}

void block_reports_add(struct block_reports *reports, struct block_report *report)
{
	report->next = NULL;
	*reports->last = report;
	reports->last = &report->next;
	reports->count++;
	reports->some_early |= report->held || report->early;
	if (report->held)
		limit_held(reports, report->slot_id);
}

static void drop_samples(struct block_report *report)
{
	for (size_t i = 0; i < report->sample_count; i++)
		block_sample_put(report->samples[i]);
	free(report->samples);
	free(report->weights);
	report->samples = NULL;
	report->weights = NULL;
	report->sample_count = 0;
}

void block_report_free(struct block_report *report)
{
	if (!report)
		return;
	drop_samples(report);
	block_samples_clear(&report->list);
	block_spells_free(&report->spells);
	free(report->process);
	free(report->package);
	free(report->names);
	block_ledger_free(&report->block);
	free(report);
}

void block_reports_free(struct block_reports *reports)
{
	while (reports->first) {
		struct block_report *next = reports->first->next;

		block_report_free(reports->first);
		reports->first = next;
	}
	block_reports_init(reports);
}

int block_report_weigh(struct block_report *report, const struct block_samples *list,
		       const struct block_spells *spells, uint64_t open_spell,
		       uint64_t open_since_ns)
{
	struct block_sample *sample = list->first;

	drop_samples(report);
	if (!list->count)
		return 0;
	report->samples = calloc(list->count, sizeof(struct block_sample *));
	report->weights = calloc(list->count, sizeof(*report->weights));
	if (!report->samples || !report->weights)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++, sample = sample->next)
		report->samples[i] = block_sample_hold(sample);
	report->sample_count = list->count;
	report->block.unsampled_ns =
		SOME_U64(block_sample_weights(list, spells, report->begin_ns, report->end_ns,
					      open_spell, open_since_ns, report->weights));
	return 0;
}

/* The report of a period that is over, if its record is not out; NULL: there is none. */
static struct block_report *find_last(struct block_reports *reports, uint64_t slot_id,
				      uint64_t period)
{
	for (struct block_report *report = reports->first; report; report = report->next)
		if (report->last && !report->emitted && report->slot_id == slot_id &&
		    report->period == period)
			return report;
	return NULL;
}

bool block_reports_late_sample(struct block_reports *reports, uint64_t slot_id, uint64_t period,
			       struct block_sample *sample)
{
	struct block_report *report = find_last(reports, slot_id, period);

	if (!report) {
		block_sample_put(sample);
		return false;
	}
	block_samples_add(&report->list, sample);
	/* Without memory the record goes out with the samples that it has. */
	block_report_weigh(report, &report->list, &report->spells, 0, 0);
	return true;
}

void block_reports_late_owner(struct block_reports *reports, const struct sampler_sample *sample)
{
	struct block_report *report = find_last(reports, sample->slot_id, sample->period);

	if (report && report->chain.count && report->chain.walk_ns == sample->walk_ns)
		block_chain_take(&report->chain, sample);
}

void block_reports_late_failure(struct block_reports *reports, uint64_t slot_id, uint64_t period,
				enum stack_failure failure)
{
	struct block_report *report = find_last(reports, slot_id, period);

	if (!report)
		return;
	report->failed++;
	report->failure = failure;
}

static bool waits(const struct block_report *report)
{
	for (size_t i = 0; i < report->sample_count; i++)
		if (report->samples[i]->state == SAMPLE_WAITS)
			return true;
	return false;
}

/* Merge the unwound samples; those of the lock's owner apart, of the look that the chain is of: in
 * another sleep another thread may have had another lock. */
static int merge(const struct block_report *report, struct stack_merge *own,
		 struct stack_merge *owner)
{
	int err = 0;

	for (size_t i = 0; i < report->sample_count && !err; i++) {
		const struct block_sample *sample = report->samples[i];

		struct unwound *copy;

		if (sample->state != SAMPLE_UNWOUND || sample->owner > 1 ||
		    (sample->owner && sample->walk_ns != report->chain.walk_ns))
			continue;
		/* A later record of the same period may tell of the sample again. */
		copy = unwound_copy(sample->trace);
		err = copy ? stack_merge_add(sample->owner ? owner : own, copy, sample->kind,
					     sample->t_boot_ns, report->weights[i])
			   : -ENOMEM;
	}
	return err;
}

/* What is left in the report are the samples that the record has not told. */
static void keep_waiting(struct block_report *report)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->sample_count; i++) {
		if (report->samples[i]->state == SAMPLE_WAITS) {
			report->samples[kept] = report->samples[i];
			report->weights[kept++] = report->weights[i];
		} else {
			block_sample_put(report->samples[i]);
		}
	}
	report->sample_count = kept;
}

/* The last sample of the thread itself, not of one that held its lock or woke it. */
static const struct block_sample *last_own(const struct block_report *report)
{
	for (size_t i = report->sample_count; i > 0; i--)
		if (!report->samples[i - 1]->owner)
			return report->samples[i - 1];
	return NULL;
}

static const char *why_none(const struct block_report *report, char *why, size_t size)
{
	const struct block_sample *own = last_own(report);

	if (own)
		return own->why_lost ?: "no memory for its stacks";
	if (!report->failed && report->unknown)
		return "no capture was tried: the thread was not known to loop yet";
	if (!report->failed)
		return "no sample of it came";
	if (report->failure == STACK_OK)
		return "no capture succeeded";
	snprintf(why, size, "no capture succeeded: %s", stack_failure_text(report->failure));
	return why;
}

static void emit_block(struct block_report *report, bool final, report_emit_fn emit, void *ctx)
{
	struct record_block *block = &report->block;
	struct record record = {.type = RECORD_BLOCK, .block = block};
	struct stack_merge own = {0}, owner = {0};
	struct record_stack *stacks = NULL, *owner_stack = NULL;
	struct block_chain_rows rows = {0};
	struct block_wake_stack wake = {0};
	size_t owner_count = 0;
	char why[128];

	if (merge(report, &own, &owner) ||
	    (own.count && stack_merge_records(&own, &stacks, &block->stack_count)) ||
	    (owner.count && stack_merge_records(&owner, &owner_stack, &owner_count)) ||
	    block_chain_fill(block, &report->chain, report->processes, report->samples,
			     report->sample_count, &rows) ||
	    block_waker_fill(report, &wake))
		counter_list_add(&block->lost, "stacks_no_memory", 1);
	block->stacks = stacks;
	if (block->stack_count)
		block->top = SOME_U64(0);
	else if (report->no_stacks)
		missing_list_set(&block->missing, "stacks", report->no_stacks);
	else if (waits(report) && final)
		missing_list_set(&block->missing, "stacks",
				 "the run ended before its stack was unwound");
	else if (waits(report))
		missing_list_set(&block->missing, "stacks", MISSING_FOLLOWS);
	else
		missing_list_set(&block->missing, "stacks", why_none(report, why, sizeof(why)));
	if (owner_count && block->owner.present)
		block->owner_stack = owner_stack;
	emit(ctx, &record);
	report->seq = record.seq;
	report->t_boot_ns = record.t_boot_ns;
	report->emitted = true;
	block->stacks = NULL;
	block->stack_count = 0;
	block->owner_stack = NULL;
	block->chain = NULL;
	block->chain_count = 0;
	block->waker.stack = NULL;
	block_chain_rows_free(&rows);
	block_wake_stack_free(&wake);
	stack_merge_free(&own);
	stack_merge_free(&owner);
	free(stacks);
	free(owner_stack);
	keep_waiting(report);
}

/* The stacks that the record lacked. Owners' stacks do not follow: the record has no key for a
 * second one. */
static void emit_rest(struct block_reports *reports, struct block_report *report,
		      report_emit_fn emit, void *ctx)
{
	struct stack_merge own = {0}, owner = {0};
	struct record_stack *stacks = NULL;
	size_t count = 0;

	for (size_t i = 0; i < report->sample_count; i++)
		reports->stacks_abandoned += report->samples[i]->state == SAMPLE_WAITS;
	if (!merge(report, &own, &owner) && own.count)
		stack_merge_records(&own, &stacks, &count);
	for (size_t i = 0; i < count; i++) {
		struct record_addition addition = {report->seq, report->t_boot_ns, stacks[i]};
		struct record record = {.type = RECORD_STACK, .addition = &addition};

		emit(ctx, &record);
		reports->stacks_late++;
	}
	stack_merge_free(&own);
	stack_merge_free(&owner);
	free(stacks);
}

#define WAITING_PLACES 1024
#define SEVERAL        UINT64_MAX

static bool earlier_of_thread(const struct block_reports *reports,
			      const struct block_report *report)
{
	for (const struct block_report *at = reports->first; at && at != report; at = at->next)
		if (!at->emitted && at->slot_id == report->slot_id)
			return true;
	return false;
}

/* When the report is to be looked at again; 0: it is done. earlier: the slot of a thread of which
 * an earlier report waits still, which may be this one's; SEVERAL: of some threads; 0: of none. */
static uint64_t step(struct block_reports *reports, struct block_report *report, uint64_t now_ns,
		     bool final, uint64_t earlier, report_emit_fn emit, void *ctx)
{
	uint64_t wait_ns = report->sample_count ? WAIT_NS : FIRST_NS;

	if (report->held)
		return final ? 0 : UINT64_MAX;
	if (report->early && !final && now_ns < report->created_ns + EARLY_NS)
		return report->created_ns + EARLY_NS;
	/* The end of a question that gets no answer is no event of this report. */
	if (report->doubted && !final && now_ns < report->created_ns + WAIT_NS)
		return report->created_ns + WAIT_NS;
	if (!report->emitted) {
		bool ready = report->no_stacks || (last_own(report) && !waits(report));

		if (!final && (earlier == report->slot_id ||
			       (earlier == SEVERAL && earlier_of_thread(reports, report))))
			return report->created_ns + WAIT_NS > now_ns ? report->created_ns + WAIT_NS
								     : now_ns + FIRST_NS;
		if (!final && !ready && now_ns < report->created_ns + wait_ns)
			return report->created_ns + wait_ns;
		emit_block(report, final, emit, ctx);
	}
	if (!waits(report) || final || now_ns >= report->created_ns + FOLLOW_NS) {
		emit_rest(reports, report, emit, ctx);
		return 0;
	}
	return report->created_ns + FOLLOW_NS;
}

uint64_t block_reports_emit(struct block_reports *reports, uint64_t now_ns, bool final,
			    report_emit_fn emit, void *ctx)
{
	struct block_report **link = &reports->first;
	/* Of which threads earlier reports wait, by their slots; threads may share a place. So a
	 * report of hundreds looks at the others only where it has to. */
	uint64_t waiting[WAITING_PLACES] = {0};
	uint64_t next_ns = UINT64_MAX;

	while (*link) {
		struct block_report *report = *link;
		uint64_t *place = &waiting[report->slot_id % WAITING_PLACES];
		uint64_t at_ns = step(reports, report, now_ns, final, *place, emit, ctx);

		if (!at_ns) {
			*link = report->next;
			reports->count--;
			block_report_free(report);
			continue;
		}
		if (!report->emitted)
			*place = *place && *place != report->slot_id ? SEVERAL : report->slot_id;
		if (at_ns < next_ns)
			next_ns = at_ns;
		link = &report->next;
	}
	reports->last = link;
	return next_ns == UINT64_MAX ? 0 : next_ns;
}

void block_reports_release(struct block_reports *reports, uint64_t slot_id)
{
	bool some = false;

	/* This is asked at each look at each thread, and mostly there is nothing to release. */
	if (!reports->some_early)
		return;
	for (struct block_report *report = reports->first; report; report = report->next) {
		if (report->slot_id == slot_id)
			report->held = report->early = false;
		some |= report->held || report->early;
	}
	reports->some_early = some;
}

void block_reports_trust(struct block_reports *reports, uint64_t slot_id)
{
	for (struct block_report *report = reports->first; report; report = report->next)
		if (report->slot_id == slot_id)
			report->doubted = false;
}

static void drop(struct block_reports *reports, uint64_t slot_id, bool only_held)
{
	struct block_report **link = &reports->first;

	while (*link) {
		struct block_report *report = *link;
		bool unsure = report->held || (!only_held && (report->doubted || report->early));

		if (!unsure || report->slot_id != slot_id) {
			link = &report->next;
			continue;
		}
		*link = report->next;
		reports->count--;
		block_report_free(report);
	}
	reports->last = link;
}

void block_reports_drop_held(struct block_reports *reports, uint64_t slot_id)
{
	drop(reports, slot_id, false);
}

void block_reports_end(struct block_reports *reports, uint64_t slot_id)
{
	drop(reports, slot_id, true);
	for (struct block_report *report = reports->first; report; report = report->next)
		if (report->slot_id == slot_id)
			report->early = report->doubted = false;
}

bool block_reports_settled(const struct block_reports *reports)
{
	for (const struct block_report *report = reports->first; report; report = report->next)
		if (!report->held && (report->doubted || waits(report)))
			return false;
	return true;
}
