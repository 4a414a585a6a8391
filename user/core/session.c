/* SPDX-License-Identifier: BSD-2-Clause */
/* A run from its making to its exit code: sources and sinks are joined, opened, read until the run
 * ends, and summed up. What happens in between is in session_interval.c and session_targets.c. */
#include "core/session_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "control/run_status.h"
#include "core/header.h"
#include "core/loop.h"
#include "core/rights.h"
#include "core/self.h"
#include "summary/summary.h"
#include "core/user_signals.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "record/redact.h"
#include "endpoint/live_metrics.h"
#include "util/clock.h"
#include "util/niceness.h"
#include "util/talk.h"

void session_stop(void *ctx)
{
	struct session *session = ctx;

	session->stop = true;
	loop_stop(session->loop);
}

static void begin_turn(void *ctx)
{
	struct session *session = ctx;

	if (session->options.probes)
		probe_new_turn(session->options.probes);
	outputs_hold(session->outputs, true);
}

static void end_turn(void *ctx)
{
	outputs_hold(((struct session *)ctx)->outputs, false);
}

/* The helpers' sockets are watched by the loop of the session. */
static int join_loop(struct session *session)
{
	int err = session->options.warden ? warden_join_loop(session->options.warden, session->loop)
					  : 0;

	if (!err && session->options.probes)
		err = prober_pool_join_loop(session->options.probes, session->loop);
	if (!err)
		err = session_join_control(session);
	if (!err)
		err = session_join_endpoint(session);
	loop_on_turn(session->loop, begin_turn, end_turn, session);
	return err;
}

struct session *session_new(const struct session_options *options, struct target_set *targets)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->options = *options;
	watchdog_init(&session->watchdog, &options->limits);
	session->targets = targets;
	session->exit_timer = session->scan_timer = session->names_timer = -1;
	session->loop = loop_new();
	loss_registry_add(&session->losses, &summary_losses);
	session->summary = summary_new(&session->losses);
	session->self = self_usage_new(options->warden, options->probes);
	session->outputs = outputs_new(session_stop, session);
	session->signal_fd = user_signals_open();
	if (targets)
		target_set_on_names(targets, session_on_names, session);
	if (!session->loop || !session->summary || !session->self || !session->outputs ||
	    session->signal_fd < 0 || join_loop(session) || session_join_alerts(session)) {
		session_free(session);
		return NULL;
	}
	return session;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	for (size_t i = session->source_count; i-- > 0;)
		session->sources[i].source->ops->close(session->sources[i].source);
	session_leave_alerts(session);
	outputs_free(session->outputs);
	if (session->options.probes)
		prober_pool_join_loop(session->options.probes, NULL);
	if (session->options.warden)
		warden_join_loop(session->options.warden, NULL);
	if (session->options.control)
		control_join_loop(session->options.control, NULL, NULL, 0, NULL);
	session_leave_endpoint(session);
	loop_free(session->loop);
	counter_list_free(&session->baseline_lost);
	summary_free(session->summary);
	self_usage_free(session->self);
	if (session->signal_fd >= 0)
		close(session->signal_fd);
	free(session);
}

int session_add_source(struct session *session, struct source *source, bool needed)
{
	if (!source || session->source_count == MAX_SOURCES)
		return -ENOMEM;
	if (loss_registry_add(&session->losses, source->ops->losses))
		return -ENOMEM;
	session->sources[session->source_count].source = source;
	session->sources[session->source_count++].needed = needed;
	return 0;
}

int session_add_sink(struct session *session, struct sink *sink)
{
	if (sink && sink->helper > 0)
		self_usage_add(session->self, sink->helper);
	return outputs_add(session->outputs, sink);
}

/* What others see of a record: with --redact its names are hashes. */
static void session_show(struct session *session, const struct record *record)
{
	if (session->options.redactor)
		record = redactor_record(session->options.redactor, record);
	if (!record) {
		session->error = -ENOMEM;
		return;
	}
	if (session->options.status)
		run_status_take(session->options.status, record);
	if (session->live)
		live_metrics_take(session->live, record);
	outputs_write(session->outputs, record);
}

const char *session_text(const struct session *session, const char *text, char to[SESSION_TEXT])
{
	if (session->options.redactor)
		return redactor_sentence(session->options.redactor, text, to, SESSION_TEXT);
	return text;
}

void session_emit(void *ctx, struct record *record)
{
	struct session *session = ctx;

	/* While the targets are waited for the sources are open and see them; what they tell then
	 * is no part of the run, whose first record is the header. */
	if (!session->seq && record->type != RECORD_HEADER)
		return;
	record->seq = session->seq++;
	record->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (summary_add(session->summary, record))
		session->error = -ENOMEM;
	session_show(session, record);
	session_take_alerts(session, record);
}

void session_emit_event(struct session *session, const struct record_event *event)
{
	struct record record = {.type = RECORD_EVENT, .event = event};

	session_emit(session, &record);
}

static void emit_output_event(void *ctx, const struct record_event *event)
{
	struct session *session = ctx;

	session_emit_event(session, event);
	/* Who took the segment may have taken all that lies in the folder. */
	if (session->options.control && !strcmp(event->event, "segment_taken"))
		control_look(session->options.control);
}

void session_take_output_events(struct session *session)
{
	outputs_take_events(session->outputs, emit_output_event, session);
}

static int emit_header(struct session *session)
{
	struct source *sources[MAX_SOURCES];

	for (size_t i = 0; i < session->source_count; i++)
		sources[i] = session->sources[i].source;
	return header_emit(&session->options, sources, session->source_count, session_emit,
			   session);
}

static int on_signal(void *ctx, uint32_t events)
{
	struct session *session = ctx;

	user_signals_taken(session->signal_fd);
	session_stop(session);
	return 0;
}

/* A recorder that keeps its rights is a danger to the device, not to the recording. */
static void drop_rights(const struct session *session)
{
	unsigned needs = 0;
	int err;

	for (size_t i = 0; i < session->source_count; i++)
		if (session->sources[i].open)
			needs |= session->sources[i].source->rights;
	err = rights_drop(needs);
	if (err)
		fprintf(stderr, "jankscope: warn: capabilities are kept: %s\n", strerror(-err));
}

enum exit_code session_open_sources(struct session *session)
{
	if (session->opened)
		return EXIT_FINE;
	session->opened = true;
	session->context = (struct source_context){
		.loop = session->loop,
		.targets = session->targets,
		.probes = session->options.probes,
		.warden = session->options.warden,
		.interval_ns = session->options.interval_ns,
		.block_ns = session->options.block_ns,
		.emit = session_emit,
		.emit_ctx = session,
	};
	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;
		int err = source->ops->open(source, &session->context);
		char reason[SESSION_TEXT];

		session->sources[i].open = err == 0;
		if (!err) {
			if (source->state == SOURCE_DEGRADED)
				fprintf(stderr, "jankscope: warn: %s is degraded (%s): %s\n",
					source->ops->name, source->variant,
					session_text(session, source->reason, reason));
			continue;
		}
		if (!source->reason[0])
			snprintf(source->reason, sizeof(source->reason), "%s", strerror(-err));
		source->state = SOURCE_ABSENT;
		if (session->sources[i].needed) {
			fprintf(stderr, "jankscope: error: %s\n",
				session_text(session, source->reason, reason));
			return err == -ENOMEM || err == -EIO ? EXIT_INTERNAL : EXIT_UNSUPPORTED;
		}
		fprintf(stderr, "jankscope: warn: %s is absent: %s\n", source->ops->name,
			session_text(session, source->reason, reason));
	}
	/* Its keeper made it urgent, so that the gap is short. */
	if (session->options.resumed)
		niceness_set(0);
	drop_rights(session);
	session_check_alerts(session);
	return EXIT_FINE;
}

/* Opening takes its time (the net source loads after the CPU source has its baseline): what
 * happened meanwhile is thrown away, so that all sources and the clock count from the same moment.
 * What was lost meanwhile is not: a process that is not watched stays unwatched. */
static void take_common_baseline(struct session *session)
{
	struct record_interval ignored = {.baseline = true};

	for (size_t i = 0; i < session->source_count; i++)
		if (session->sources[i].open)
			session->sources[i].source->ops->sample(session->sources[i].source,
								&ignored);
	session->baseline_lost = ignored.lost;
	counter_list_free(&ignored.late);
	counter_list_free(&ignored.repaired);
	missing_list_free(&ignored.missing);
	self_usage_take(session->self, NULL);
	session_watch_clocks(session, NULL);
	/* The kernel side tells of processes from here on; the scan finds those that began before.
	 */
	session_scan(session);
}

/* Between the last interval of the recorder that died and the first one of this run, which began
 * with the common baseline, nothing was measured; what the dead one told after its last interval
 * may be written or not. */
static void tell_resumed(struct session *session, const struct run_status *before)
{
	uint64_t begun_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME) - begun_ns;
	struct record_event event = {
		.event = "gap",
		.keys = {{"from_boot_ns", NULL, (int64_t)before->last_interval_boot_ns},
			 {"to_boot_ns", NULL, (int64_t)now_ns},
			 {"dur_ns", NULL, (int64_t)(now_ns - before->last_interval_boot_ns)},
			 {"reason", session->options.resumed, 0},
			 {"last_seq", NULL, (int64_t)before->last_seq},
			 {"recorder_restarts", NULL, (int64_t)before->recorder_restarts}},
		.key_count = 6,
	};

	if (before->last_interval_boot_ns)
		session_emit_event(session, &event);
}

static void tell_begun(const struct session *session)
{
	size_t ok = 0;

	for (size_t i = 0; i < session->source_count; i++)
		ok += session->sources[i].open && session->sources[i].source->state == SOURCE_OK;
	if (session->options.begun)
		session->options.begun(session->options.begun_ctx, ok, session->source_count);
}

/* What was dropped since the last interval was begun, that interval among it. */
static void add_last_losses(struct session *session)
{
	struct counter_list lost = {0};

	if (outputs_count_dropped(session->outputs, &lost) ||
	    summary_add_losses(session->summary, &lost))
		session->error = -ENOMEM;
	counter_list_free(&lost);
}

static void emit_footer(struct session *session)
{
	struct record record = {.type = RECORD_FOOTER};
	uint64_t dropped = outputs_tables_dropped(session->outputs);
	char key[96];

	session_take_output_events(session);
	add_last_losses(session);
	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->summarise)
			source->ops->summarise(source, session->summary);
		snprintf(key, sizeof(key), "self.sources.%s.cpu_ns", source->ops->name);
		if (session->sources[i].open)
			summary_set_total(session->summary, key,
					  (double)session->sources[i].cpu_ns);
	}
	/* Made later or asked again: late, not lost. */
	summary_set_total(session->summary, "calls_held_up",
			  (double)(session->options.probes
					   ? prober_pool_given_up(session->options.probes)
					   : 0));
	if (dropped)
		summary_set_total(session->summary, "tables_dropped", (double)dropped);
	if (session_sum_alerts(session))
		session->error = -ENOMEM;
	record.footer = summary_footer(session->summary);
	if (record.footer)
		session_emit(session, &record);
	else
		session->error = -ENOMEM;
}

static enum exit_code judge_losses(const struct session *session)
{
	char text[256];

	if (!summary_describe_losses(session->summary, session->options.max_lost_pct, text,
				     sizeof(text)))
		return EXIT_FINE;
	talk("warn: %s was lost, more than --max-lost %.3g\n", text, session->options.max_lost_pct);
	return EXIT_INCOMPLETE;
}

enum exit_code session_run(struct session *session)
{
	const struct run_status *status = session->options.status;
	struct run_status before = status ? *status : (struct run_status){0};
	struct record_event start = {.event = "start"};
	enum exit_code code;
	int err = loop_add_fd(session->loop, session->signal_fd, EPOLLIN, on_signal, session);

	if (!err)
		err = loop_urgent_fd(session->loop, session->signal_fd);
	if (err) {
		fprintf(stderr, "jankscope: error: epoll: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	code = session_wait_for_targets(session);
	if (code || session->stop)
		return code;
	code = session_open_sources(session);
	if (code)
		return code;
	err = emit_header(session);
	if (err) {
		fprintf(stderr, "jankscope: error: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	session_emit_event(session, &start);
	for (size_t i = 0; target_set_at(session->targets, i); i++)
		session_on_target(session, TARGET_STARTED, target_set_at(session->targets, i));
	take_common_baseline(session);
	if (session->options.resumed)
		tell_resumed(session, &before);
	session_plan_end(session);
	err = outputs_watch(session->outputs, session->loop);
	if (!err)
		tell_begun(session);
	if (!err)
		err = session_run_loop(session);
	if (!err && !session->final_taken)
		err = session_take_rest(session);
	if (!err)
		emit_footer(session);
	outputs_finish(session->outputs);
	if (err) {
		talk("error: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	if (session->error || outputs_error(session->outputs) || session->gave_up)
		return EXIT_INTERNAL;
	return judge_losses(session);
}
