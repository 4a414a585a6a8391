/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/perfetto_janks.h"

#include <string.h>

#include "record/fields.h"
#include "sink/perfetto_event.h"
#include "why/line.h"

#define WHY_BYTES 512

static void add_optional(struct perfetto_arguments *arguments, const char *name,
			 struct opt_u64 value)
{
	if (value.present)
		perfetto_add_number(arguments, name, value.value);
}

static void add_token(struct perfetto_arguments *arguments, const char *name, struct opt_i64 token)
{
	if (token.present)
		perfetto_add_number(arguments, name, (uint64_t)token.value);
}

static void add_ledger(struct perfetto_arguments *arguments, const struct jank_ledger *ledger)
{
	perfetto_add_number(arguments, "ledger.running_ns", ledger->running_ns);
	perfetto_add_number(arguments, "ledger.runnable_ns", ledger->runnable_ns);
	perfetto_add_number(arguments, "ledger.sleeping_ns", ledger->sleeping_ns);
	perfetto_add_number(arguments, "ledger.uninterruptible_ns", ledger->uninterruptible_ns);
	perfetto_add_number(arguments, "ledger.stopped_ns", ledger->stopped_ns);
	if (ledger->unknown_ns)
		perfetto_add_number(arguments, "ledger.unknown_ns", ledger->unknown_ns);
}

static void put_slice(struct perfetto_tracks *tracks, uint64_t track, const char *name,
		      const struct record_jank *jank, struct perfetto_arguments *arguments)
{
	perfetto_put_event(tracks, PERFETTO_BEGIN, track, jank->window_start_ns, name, arguments);
	perfetto_put_event(tracks, PERFETTO_END, track, jank->window_end_ns, NULL, NULL);
}

static void put_frame(struct perfetto_tracks *tracks, const struct record_jank *jank,
		      uint64_t track, struct perfetto_arguments *arguments)
{
	const struct record_thread *culprit = &jank->culprit;
	char why[WHY_BYTES], name[64];

	snprintf(name, sizeof(name), "%s: %s", jank->dropped ? "DROPPED" : "LATE",
		 why_cause_words(jank->cause));
	perfetto_add_text(arguments, "why", why_line(jank, why, sizeof(why)));
	perfetto_add_text(arguments, "cause", record_jank_causes[jank->cause]);
	if (jank->second_cause)
		perfetto_add_text(arguments, "second_cause",
				  record_jank_causes[jank->second_cause]);
	perfetto_add_number(arguments, "late_ns", jank->late_ns);
	add_optional(arguments, "cause_ns", jank->cause_ns);
	add_optional(arguments, "second_cause_ns", jank->second_cause_ns);
	add_optional(arguments, "expected_start_ns", jank->expected_start_ns);
	add_optional(arguments, "expected_end_ns", jank->expected_end_ns);
	perfetto_add_number(arguments, "actual_start_ns", jank->actual_start_ns);
	perfetto_add_number(arguments, "actual_end_ns", jank->actual_end_ns);
	add_token(arguments, "surface_frame_token", jank->surface_frame_token);
	add_token(arguments, "display_frame_token", jank->display_frame_token);
	perfetto_add_text(arguments, "layer", jank->layer);
	perfetto_add_text(arguments, "jank_type", jank->jank_type);
	perfetto_add_number(arguments, "confidence_pct",
			    (uint64_t)(jank->confidence > 0 && jank->confidence <= 1
					       ? 100 * jank->confidence + 0.5
					       : 0));
	if (culprit->present)
		perfetto_add_thread(arguments, "culprit", culprit->thread, culprit->tid,
				    culprit->process, culprit->pid);
	perfetto_add_chain(arguments, jank->chain, jank->chain_count);
	if (jank->top.present && jank->top.value < jank->stack_count)
		perfetto_add_stack(arguments, "stack", &jank->stacks[jank->top.value]);
	put_slice(tracks, track, name, jank, arguments);
}

static void put_thread(struct perfetto_tracks *tracks, const struct record_jank *jank,
		       const struct jank_thread *thread, uint64_t track, uint64_t flow)
{
	static const char *const preemptors[] = {"preemptor.0", "preemptor.1", "preemptor.2"};
	struct perfetto_arguments arguments = {.tracks = tracks, .ending_flow = flow};
	char name[64], text[160];

	snprintf(name, sizeof(name), "%s of a late frame: %s", record_jank_roles[thread->role],
		 why_cause_words(jank->cause));
	add_ledger(&arguments, &thread->ledger);
	add_optional(&arguments, "critical_ns", thread->critical_ns);
	add_optional(&arguments, "max_khz", thread->max_khz);
	if (thread->reason_count) {
		perfetto_add_text(&arguments, "reason", thread->reasons[0].reason);
		perfetto_add_number(&arguments, "reason_ns", thread->reasons[0].ns);
	}
	for (size_t i = 0; i < thread->preemptor_count && i < 3; i++) {
		const struct block_preemptor *other = &thread->preemptors[i];

		snprintf(text, sizeof(text), "%.*s %d of %.80s, %llu ns", RECORD_COMM_LEN,
			 other->thread, other->tid, other->process ? other->process : "",
			 (unsigned long long)other->ns);
		perfetto_add_text(&arguments, preemptors[i], text);
	}
	if (thread->waker.present)
		perfetto_add_thread(&arguments, "waker", thread->waker.thread, thread->waker.tid,
				    thread->waker.process, thread->waker.pid);
	add_token(&arguments, "surface_frame_token", jank->surface_frame_token);
	put_slice(tracks, track, name, jank, &arguments);
}

/* The lane of a thread; 0: there is no room. */
static uint64_t lane_of(struct perfetto_tracks *tracks, const struct record_jank *jank,
			const struct jank_thread *thread, uint64_t process)
{
	char name[RECORD_COMM_LEN + 1], lane[64] = "in late frames";
	uint64_t parent = process;

	snprintf(name, sizeof(name), "%.*s", RECORD_COMM_LEN, thread->thread);
	if (thread->pid && thread->process)
		perfetto_process(tracks, thread->pid, 0, thread->process);
	/* A thread of a process that is not known has no track of its own in the format. */
	if (thread->pid)
		parent = perfetto_thread(tracks, thread->pid, thread->tid, 0, name);
	else
		snprintf(lane, sizeof(lane), "%s %d in late frames", name, thread->tid);
	return parent ? perfetto_lane(tracks, parent, lane, jank->window_start_ns,
				      jank->window_end_ns)
		      : 0;
}

void perfetto_take_jank(struct perfetto_tracks *tracks, const struct record_jank *jank)
{
	struct perfetto_arguments arguments = {.tracks = tracks};
	uint64_t process = perfetto_process(tracks, jank->pid, 0,
					    jank->process ? jank->process : jank->package);
	uint64_t frame = process ? perfetto_lane(tracks, process, "late frames",
						 jank->window_start_ns, jank->window_end_ns)
				 : 0;
	uint64_t lanes[PERFETTO_FLOWS];
	size_t count = jank->thread_count < PERFETTO_FLOWS ? jank->thread_count : PERFETTO_FLOWS;

	/* A file may have a window that ends before it begins. */
	if (!frame || jank->window_end_ns < jank->window_start_ns)
		return;
	for (size_t i = 0; i < count; i++) {
		lanes[i] = lane_of(tracks, jank, &jank->threads[i], process);
		if (lanes[i])
			arguments.flows[arguments.flow_count++] = perfetto_flow(tracks);
	}
	/* The begin of a flow stands before its end: both have the same time. */
	put_frame(tracks, jank, frame, &arguments);
	for (size_t i = 0, flow = 0; i < count; i++)
		if (lanes[i])
			put_thread(tracks, jank, &jank->threads[i], lanes[i],
				   arguments.flows[flow++]);
}
