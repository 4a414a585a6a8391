/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/late_why_private.h"
#include "why/tell.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORK_LIMIT 67108864 /* spells, of all frames: some seconds */

/* The threads of one frame while it is judged. */
struct cast {
	struct why_thread threads[3 * MAX_CREW];
	struct sched_spells spells[3 * MAX_CREW];
	size_t count;
	uint64_t work;
	struct block_link call; /* that it waited for */
};

static bool ran(const struct sched_spells *spells, const struct late *late)
{
	for (size_t i = 0; i < spells->count; i++)
		if (spells->items[i].state == SPELL_RUNNING &&
		    spells->items[i].begin_ns < late->end_ns &&
		    spells->items[i].end_ns > late->begin_ns)
			return true;
	return false;
}

static int add_crew(struct late_why *why, struct cast *cast, const struct late *late,
		    const struct crew *crew)
{
	int err = 0;

	for (size_t i = 0; i < crew->count && !err; i++) {
		const struct member *member = &crew->members[i];
		struct sched_spells *spells = &cast->spells[cast->count];
		struct why_thread *thread = &cast->threads[cast->count++];
		struct spell_thread known = {0};

		err = sched_log_spells(why->log, member->tid, late->begin_ns, late->end_ns, spells);
		*thread = (struct why_thread){
			.tid = member->tid,
			.pid = member->pid,
			.process = analysis_process(why->analysis, member->pid),
			.role = member->role,
			.spells = spells->items,
			.spell_count = spells->count,
		};
		/* of the many that serve the HAL, those that did something */
		if (member->role == JANK_ROLE_HWC && !ran(spells, late))
			thread->spell_count = 0;
		thread_table_at(why->threads, member->tid, late->begin_ns, &known);
		memcpy(thread->comm, known.comm, sizeof(thread->comm));
		cast->work += spells->count;
	}
	return err;
}

/* Whom the frame called, if it waited for an answer: the longest of those sleeps tells. */
static void find_call(struct late_why *why, struct cast *cast, const struct why_verdict *verdict,
		      struct record_jank *record)
{
	const struct why_part *part =
		verdict->first.cause == JANK_CAUSE_BINDER ? &verdict->first : &verdict->second;
	struct block_link *link = &cast->call;
	struct spell_thread server = {0};
	const struct why_thread *thread;
	int64_t begin_ns = 0, end_ns = 0;
	struct sched_call call;

	if (part->cause != JANK_CAUSE_BINDER || part->thread >= cast->count)
		return;
	thread = &cast->threads[part->thread];
	for (size_t i = 0; i < thread->spell_count; i++) {
		const struct spell *spell = &thread->spells[i];
		int64_t stop_ns = spell->end_ns < verdict->window_end_ns ? spell->end_ns
									 : verdict->window_end_ns;

		if (spell->reason == LOOPER_REASON_BINDER && stop_ns > verdict->window_start_ns &&
		    stop_ns - spell->begin_ns > end_ns - begin_ns) {
			begin_ns = spell->begin_ns;
			end_ns = stop_ns;
		}
	}
	if (!end_ns || !sched_log_call(why->log, thread->tid, begin_ns, &call))
		return;
	thread_table_at(why->threads, call.server, call.taken_ns, &server);
	*link = (struct block_link){.pid = call.to_pid, .tid = call.server, .how = LINK_BINDER};
	if (server.tgid)
		link->pid = server.tgid;
	memcpy(link->thread, server.comm, sizeof(link->thread));
	link->process = analysis_process(why->analysis, link->pid);
	if (call.taken_ns > end_ns) {
		link->queued_ns = SOME_U64((uint64_t)(end_ns - call.sent_ns));
	} else {
		link->queued_ns = SOME_U64((uint64_t)(call.taken_ns - call.sent_ns));
		link->served_ns = SOME_U64((uint64_t)(end_ns - call.taken_ns));
	}
	record->chain = link;
	record->chain_count = 1;
}

static const char *why_missing(const struct sched_log_counts *counts)
{
	if (!counts->switches)
		return "the trace has no scheduler events";
	return counts->lost ? "more scheduler events than there is room for"
			    : "the trace has no scheduler events of them";
}

static int judge(struct late_why *why, struct cast *cast, const struct late *late,
		 struct record_jank *record)
{
	const struct timeline_late *row = &late->row;
	struct why_frame frame = {
		.expected_start_ns = row->expected_start_ns,
		.expected_end_ns = row->expected_end_ns,
		.actual_start_ns = row->start_ns,
		.actual_end_ns = row->end_ns,
		.present_ns = row->present_ns,
		.predicted_ns = row->predicted_ns,
		.compose_start_ns = row->compose_start_ns,
		.compose_due_ns = row->compose_due_ns,
		.handed_ns = late->handed_ns,
		.queued_ns = late->queued_ns,
		.jank = row->jank,
		.dropped = row->dropped,
		.clock_error_ns = late->clock_error_ns,
		.threads = cast->threads,
	};
	const struct crew *crew = late_why_crew(why, row->pid);
	struct why_verdict verdict;
	int err = 0;

	_Static_assert(TIMELINE_NONE == WHY_NO_TIME, "both say that a time is not known");
	cast->count = 0;
	/* threads of another machine have numbers of their own */
	if (!row->machine)
		err = add_crew(why, cast, late, crew);
	if (!err && !row->machine && !late_why_is_display(why, row->pid))
		err = add_crew(why, cast, late, &why->display);
	if (!err && !row->machine)
		err = add_crew(why, cast, late, &why->hal);
	if (err)
		return err;
	frame.thread_count = cast->count;
	why_judge(&frame, &verdict);
	err = why_record_fill(record, &frame, &verdict, why_missing(sched_log_counts(why->log)));
	if (!err)
		find_call(why, cast, &verdict, record);
	if (!err && !row->machine &&
	    sched_log_has_gap(why->log, verdict.window_start_ns, verdict.window_end_ns))
		err = counter_list_add(&record->lost, "sched_events", 1);
	return err;
}

int late_why_each(struct late_why *why, int (*visit)(void *ctx, const struct record_jank *jank),
		  void *ctx)
{
	struct cast *cast = calloc(1, sizeof(*cast));
	int err = cast ? 0 : -ENOMEM;
	char package[256], jank_type[512];

	for (size_t i = 0; i < why->count && !err; i++) {
		const struct timeline_late *row = &why->by_time[i]->row;
		const struct layer *layer = analysis_layer(why->analysis, row->layer);
		struct record_jank record = {
			.pid = row->pid,
			.package = analysis_package(why->analysis, layer, package, sizeof(package)),
			.process = row->machine ? NULL : analysis_process(why->analysis, row->pid),
			.layer = layer->name,
		};

		if (row->is_row) {
			record.surface_frame_token = SOME_I64(row->token);
			record.display_frame_token = SOME_I64(row->display_token);
			record.jank_type =
				timeline_jank_text(row->jank, jank_type, sizeof(jank_type));
		}
		if (cast->work > WORK_LIMIT) {
			why->frames_lost += why->count - i;
			break;
		}
		err = judge(why, cast, why->by_time[i], &record);
		if (!err)
			err = visit(ctx, &record);
		why_record_free(&record);
	}
	for (size_t i = 0; cast && i < 3 * MAX_CREW; i++)
		free(cast->spells[i].items);
	free(cast);
	return err;
}
