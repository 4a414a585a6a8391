/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/session_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/header.h"
#include "core/loop.h"
#include "core/rights.h"
#include "core/self.h"
#include "summary/summary.h"
#include "core/user_signals.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "util/clock.h"
#include "util/talk.h"

#define LOOK_NS (100 * NSEC_PER_MSEC)
/* A step of boot - mono beyond this is a suspend; of unix - boot, a change of the wall clock. */
#define SUSPEND_NS (20 * NSEC_PER_MSEC)
#define JUMP_NS    NSEC_PER_SEC

void session_stop(void *ctx)
{
	struct session *session = ctx;

	session->stop = true;
	loop_stop(session->loop);
}

static void on_turn(void *ctx)
{
	struct session *session = ctx;

	if (session->options.probes)
		probe_new_turn(session->options.probes);
}

/* The helpers' sockets are watched by the loop of the session. */
static int join_loop(struct session *session)
{
	int err = session->options.warden ? warden_join_loop(session->options.warden, session->loop)
					  : 0;

	if (!err && session->options.probes)
		err = prober_pool_join_loop(session->options.probes, session->loop);
	loop_on_turn(session->loop, on_turn, session);
	return err;
}

struct session *session_new(const struct session_options *options, struct target_set *targets)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->options = *options;
	session->targets = targets;
	session->exit_timer = -1;
	session->loop = loop_new();
	loss_registry_add(&session->losses, &summary_losses);
	session->summary = summary_new(&session->losses);
	session->self = self_usage_new(options->warden, options->probes);
	session->outputs = outputs_new(session_stop, session);
	session->signal_fd = user_signals_open();
	if (!session->loop || !session->summary || !session->self || !session->outputs ||
	    session->signal_fd < 0 || join_loop(session)) {
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
	outputs_free(session->outputs);
	if (session->options.probes)
		prober_pool_join_loop(session->options.probes, NULL);
	if (session->options.warden)
		warden_join_loop(session->options.warden, NULL);
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

void session_emit(void *ctx, struct record *record)
{
	struct session *session = ctx;

	record->seq = session->seq++;
	record->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (summary_add(session->summary, record))
		session->error = -ENOMEM;
	outputs_write(session->outputs, record);
}

void session_emit_event(struct session *session, const struct record_event *event)
{
	struct record record = {.type = RECORD_EVENT, .event = event};

	session_emit(session, &record);
}

static int emit_header(struct session *session)
{
	struct source *sources[MAX_SOURCES];

	for (size_t i = 0; i < session->source_count; i++)
		sources[i] = session->sources[i].source;
	return header_emit(&session->options, sources, session->source_count, session_emit,
			   session);
}

/* ---- the clock ---- */

static void watch_clocks(struct session *session, struct record_interval *interval)
{
	uint64_t mono_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint64_t suspended_ns = clock_suspended_ns();
	int64_t unix_minus_boot_ns =
		(int64_t)(clock_now_ns(CLOCK_REALTIME) - clock_now_ns(CLOCK_BOOTTIME));
	int64_t step_ns = unix_minus_boot_ns - session->unix_minus_boot_ns;

	if (interval && suspended_ns > session->suspended_ns + SUSPEND_NS) {
		struct record_event event = {
			.event = "suspend",
			.keys = {{"dur_ns", NULL, (int64_t)(suspended_ns - session->suspended_ns)}},
			.key_count = 1,
		};

		session_emit_event(session, &event);
	}
	if (interval && (step_ns > (int64_t)JUMP_NS || step_ns < -(int64_t)JUMP_NS)) {
		struct record_event event = {
			.event = "clock_jump",
			.keys = {{"step_ns", NULL, step_ns}},
			.key_count = 1,
		};

		session_emit_event(session, &event);
	}
	if (interval)
		interval->dur_ns = mono_ns - session->last_mono_ns;
	session->suspended_ns = suspended_ns;
	session->unix_minus_boot_ns = unix_minus_boot_ns;
	session->last_mono_ns = mono_ns;
}

/* Longer than it was to be by half: said where it happens. What was missed is in this interval. */
static void tell_gap(struct session *session, uint64_t dur_ns, uint64_t planned_ns)
{
	struct record_event event = {
		.event = "gap",
		.keys = {{"dur_ns", NULL, (int64_t)dur_ns},
			 {"planned_ns", NULL, (int64_t)planned_ns}},
		.key_count = 2,
	};

	if (dur_ns <= planned_ns + planned_ns / 2)
		return;
	if (!session->overruns)
		session->overruns = 1;
	session_emit_event(session, &event);
}

/* Whoever had the rights to look at targets is dead, and nobody is left who could make another. */
static void tell_helpers_lost(struct session *session)
{
	struct record_event event = {
		.event = "degraded",
		.keys = {{"source", "helpers", 0},
			 {"reason",
			  "all helper processes were killed: no names, probes and stacks from here "
			  "on",
			  0}},
		.key_count = 2,
	};

	session_emit_event(session, &event);
}

/* planned_ns: how long the interval was to be. */
static int take_interval(struct session *session, uint64_t planned_ns, bool final)
{
	struct record_interval interval = {
		.last = final && planned_ns != session->options.interval_ns, .final = final};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	int err = 0;

	/* Who came since the last scan is listed already in this interval; without targets the scan
	 * drops the names of processes that are long gone. */
	err = session_scan(session);
	watch_clocks(session, &interval);
	tell_gap(session, interval.dur_ns, planned_ns);
	counter_list_add(&interval.lost, "interval_overruns", session->overruns);
	counter_list_add(&interval.lost, "processes_unread",
			 target_set_take_unread(session->targets));
	outputs_count_dropped(session->outputs, &interval.lost);
	counter_list_merge(&interval.lost, &session->baseline_lost);
	counter_list_free(&session->baseline_lost);
	session->overruns = 0;
	for (size_t i = 0; i < session->source_count && !err; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open)
			err = source->ops->sample(source, &interval);
		else
			missing_list_set(&interval.missing, source->ops->name, source->reason);
	}
	self_usage_take(session->self, &interval.self);
	interval.self.cpu_ns += outputs_take_cpu_ns(session->outputs);
	if (!err)
		err = loss_registry_sort(&session->losses, &interval.lost, &interval.late,
					 &interval.repaired);
	if (!err && session->options.probes)
		err = prober_pool_counters(session->options.probes, &interval.late);
	if (!err && session->options.warden)
		err = warden_counters(session->options.warden, &interval.lost, &interval.late,
				      &interval.repaired);
	if (counter_list_get(&interval.lost, "helpers_lost"))
		tell_helpers_lost(session);
	if (!err)
		session_emit(session, &record);
	counter_list_free(&interval.lost);
	counter_list_free(&interval.late);
	counter_list_free(&interval.repaired);
	missing_list_free(&interval.missing);
	session->intervals++;
	session->final_taken = final;
	return err;
}

static int on_interval(void *ctx, uint32_t periods)
{
	struct session *session = ctx;
	const struct session_options *options = &session->options;
	uint64_t so_far_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;
	bool over, final = options->count && session->intervals + 1 >= options->count;
	int err;

	session->periods += periods;
	if (session->stop)
		return 0;
	if (options->duration_ns && session->plan.last_dur_ns &&
	    session->periods > session->plan.periods)
		return 0; /* the last one, which the timer of -d ends */
	over = options->duration_ns && !session->plan.last_dur_ns &&
	       session->periods >= session->plan.periods;
	/* The one before came late: this one is not worth a record, and goes to the next. */
	if (!over && so_far_ns < options->interval_ns / 2) {
		session->overruns += periods;
		return 0;
	}
	session->overruns += periods - 1;
	if (over)
		run_plan_wait(session->options.interval_ns, session->last_mono_ns);
	err = take_interval(session, options->interval_ns, final || over);
	if (final || over || !outputs_any_left(session->outputs))
		session_stop(session);
	return err;
}

static int on_duration_over(void *ctx, uint32_t events)
{
	struct session *session = ctx;

	if (session->stop)
		return 0;
	session_stop(session);
	run_plan_wait(session->options.interval_ns, session->last_mono_ns);
	return take_interval(session, session->plan.last_dur_ns, true);
}

/* A signal came, or the target went: what is left is an interval too, and the sources give what
 * they hold back. */
static int take_rest(struct session *session)
{
	uint64_t left_ns = run_plan_wait(session->options.interval_ns, session->last_mono_ns);

	return take_interval(
		session,
		left_ns < session->options.interval_ns ? left_ns : session->options.interval_ns + 1,
		true);
}

/* By now the helpers have said who they are. */
static int on_look_timer(void *ctx, uint32_t events)
{
	self_usage_look(((struct session *)ctx)->self);
	return 0;
}

static int on_signal(void *ctx, uint32_t events)
{
	struct session *session = ctx;

	user_signals_taken(session->signal_fd);
	session_stop(session);
	return 0;
}

/* ---- a run ---- */

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

		session->sources[i].open = err == 0;
		if (!err) {
			if (source->state == SOURCE_DEGRADED)
				fprintf(stderr, "jankscope: warn: %s is degraded (%s): %s\n",
					source->ops->name, source->variant, source->reason);
			continue;
		}
		if (!source->reason[0])
			snprintf(source->reason, sizeof(source->reason), "%s", strerror(-err));
		source->state = SOURCE_ABSENT;
		if (session->sources[i].needed) {
			fprintf(stderr, "jankscope: error: %s\n", source->reason);
			return err == -ENOMEM || err == -EIO ? EXIT_INTERNAL : EXIT_UNSUPPORTED;
		}
		fprintf(stderr, "jankscope: warn: %s is absent: %s\n", source->ops->name,
			source->reason);
	}
	drop_rights(session);
	return EXIT_FINE;
}

/* Opening takes its time (the net source loads after the CPU source has its baseline): what
 * happened meanwhile is thrown away, so that all sources and the clock count from the same moment.
 * What was lost meanwhile is not: a process that is not watched stays unwatched. */
static void take_common_baseline(struct session *session)
{
	struct record_interval ignored = {0};

	for (size_t i = 0; i < session->source_count; i++)
		if (session->sources[i].open)
			session->sources[i].source->ops->sample(session->sources[i].source,
								&ignored);
	session->baseline_lost = ignored.lost;
	counter_list_free(&ignored.late);
	counter_list_free(&ignored.repaired);
	missing_list_free(&ignored.missing);
	self_usage_take(session->self, NULL);
	watch_clocks(session, NULL);
	/* The kernel side tells of processes from here on; the scan finds those that began before.
	 */
	session_scan(session);
}

static int run_loop(struct session *session)
{
	const struct session_options *options = &session->options;
	int timer;

	timer = loop_add_timer(session->loop, options->interval_ns, options->interval_ns,
			       on_interval, session);
	if (timer >= 0)
		timer = loop_urgent_timer(session->loop, timer);
	if (timer < 0)
		return timer;
	timer = loop_add_timer(session->loop,
			       options->interval_ns / 2 < LOOK_NS ? options->interval_ns / 2
								  : LOOK_NS,
			       0, on_look_timer, session);
	if (timer < 0)
		return timer;
	session->plan = run_plan_make(options->interval_ns, options->duration_ns);
	if (session->plan.last_dur_ns) {
		timer = loop_add_timer(session->loop, options->duration_ns, 0, on_duration_over,
				       session);
		if (timer >= 0)
			timer = loop_urgent_timer(session->loop, timer);
		if (timer < 0)
			return timer;
	}
	if (options->spec_count) {
		timer = loop_add_timer(session->loop, SCAN_NS, SCAN_NS, session_on_scan_timer,
				       session);
		if (timer < 0)
			return timer;
	}
	return session->stop ? 0 : loop_run(session->loop);
}

static void emit_footer(struct session *session)
{
	struct record record = {.type = RECORD_FOOTER};
	uint64_t dropped = outputs_tables_dropped(session->outputs);

	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->summarise)
			source->ops->summarise(source, session->summary);
	}
	/* Made later or asked again: late, not lost. */
	summary_set_total(session->summary, "calls_held_up",
			  (double)(session->options.probes
					   ? prober_pool_given_up(session->options.probes)
					   : 0));
	if (dropped)
		summary_set_total(session->summary, "tables_dropped", (double)dropped);
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
	err = outputs_watch(session->outputs, session->loop);
	if (!err)
		err = run_loop(session);
	if (!err && !session->final_taken)
		err = take_rest(session);
	if (!err)
		emit_footer(session);
	outputs_finish(session->outputs);
	if (err) {
		talk("error: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	if (session->error || outputs_error(session->outputs))
		return EXIT_INTERNAL;
	return judge_losses(session);
}
