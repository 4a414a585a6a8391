/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/header.h"
#include "core/loop.h"
#include "core/rights.h"
#include "core/self.h"
#include "core/summary.h"
#include "core/user_signals.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "util/bounded_call.h"
#include "util/clock.h"

#define MAX_SOURCES 8
#define MAX_SINKS   8
/* How often a target that came, went or is waited for is looked for. */
#define SCAN_NS (200 * NSEC_PER_MSEC)
#define LOOK_NS (100 * NSEC_PER_MSEC)
/* A step of boot - mono beyond this is a suspend; of unix - boot, a change of the wall clock. */
#define SUSPEND_NS (20 * NSEC_PER_MSEC)
#define JUMP_NS    NSEC_PER_SEC

struct session {
	struct session_options options;
	struct target_set *targets;
	struct loop *loop;
	struct summary *summary;
	struct self_usage *self;
	struct {
		struct source *source;
		bool needed, open;
	} sources[MAX_SOURCES];
	size_t source_count;
	struct sink *sinks[MAX_SINKS];
	size_t sink_count;
	struct source_context context;
	uint64_t seq, last_mono_ns, suspended_ns, intervals, overruns;
	int64_t unix_minus_boot_ns;
	int signal_fd;
	bool stop;
	int sink_error;
};

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
	session->loop = loop_new();
	session->summary = summary_new();
	session->self = self_usage_new(options->warden, options->probes);
	session->signal_fd = user_signals_open();
	if (!session->loop || !session->summary || !session->self || session->signal_fd < 0 ||
	    join_loop(session)) {
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
	for (size_t i = 0; i < session->sink_count; i++)
		session->sinks[i]->ops->close(session->sinks[i]);
	if (session->options.probes)
		prober_pool_join_loop(session->options.probes, NULL);
	if (session->options.warden)
		warden_join_loop(session->options.warden, NULL);
	loop_free(session->loop);
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
	session->sources[session->source_count].source = source;
	session->sources[session->source_count++].needed = needed;
	return 0;
}

int session_add_sink(struct session *session, struct sink *sink)
{
	if (!sink || session->sink_count == MAX_SINKS)
		return -ENOMEM;
	session->sinks[session->sink_count++] = sink;
	return 0;
}

static void stop(struct session *session)
{
	session->stop = true;
	loop_stop(session->loop);
}

/* A sink that fails is out; only a reader that went away is no error. */
static void emit(void *ctx, struct record *record)
{
	struct session *session = ctx;
	sigset_t before;

	user_signals_begin_write(&before);
	record->seq = session->seq++;
	record->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (summary_add(session->summary, record))
		session->sink_error = -ENOMEM;
	for (size_t i = 0; i < session->sink_count; i++) {
		struct sink *sink = session->sinks[i];
		int err = sink->done ? 0 : sink->ops->write(sink, record);

		if (!err)
			continue;
		sink->done = true;
		if (err != -EPIPE) {
			session->sink_error = err;
			stop(session);
		}
	}
	if (user_signals_end_write(&before))
		stop(session);
}

static bool any_sink_left(const struct session *session)
{
	for (size_t i = 0; i < session->sink_count; i++)
		if (!session->sinks[i]->done)
			return true;
	return !session->sink_count;
}

static void emit_event(struct session *session, const struct record_event *event)
{
	struct record record = {.type = RECORD_EVENT, .event = event};

	emit(session, &record);
}

static int emit_header(struct session *session)
{
	struct source *sources[MAX_SOURCES];

	for (size_t i = 0; i < session->source_count; i++)
		sources[i] = session->sources[i].source;
	return header_emit(&session->options, sources, session->source_count, emit, session);
}

/* ---- targets ---- */

static int scan(struct session *session);

static int on_pidfd(void *ctx, uint32_t events)
{
	return scan(ctx);
}

static void on_target(void *ctx, enum target_change change, const struct target_process *process)
{
	struct session *session = ctx;
	struct record_event event = {
		.event = change == TARGET_STARTED ? "target_start" : "target_exit",
		.keys = {{"pid", NULL, process->pid},
			 {"uid", NULL, (int64_t)process->uid},
			 {"start_boot_ns", NULL, (int64_t)process->start_boot_ns},
			 {"process", process->process, 0}},
		.key_count = 4,
	};

	/* An exit is known at once; a start is found by the scan. */
	if (process->pidfd >= 0 && change == TARGET_STARTED)
		loop_add_fd(session->loop, process->pidfd, EPOLLIN, on_pidfd, session);
	else if (process->pidfd >= 0)
		loop_remove_fd(session->loop, process->pidfd);
	if (process->package)
		event.keys[event.key_count++] = (struct event_key){"package", process->package, 0};
	/* While the targets are still waited for there is no header yet. */
	if (session->seq)
		emit_event(session, &event);
}

static int scan(struct session *session)
{
	int n = target_set_scan(session->targets, on_target, session);

	return n < 0 ? n : 0;
}

static bool only_pids(const struct session *session)
{
	for (size_t i = 0; i < session->options.spec_count; i++)
		if (session->options.specs[i].kind != TARGET_PID)
			return false;
	return session->options.spec_count > 0;
}

static int on_scan_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;
	int err = scan(session);

	if (err)
		return err;
	/* Nothing can come back under a pid that is gone. */
	if (session->seq && only_pids(session) && !target_set_at(session->targets, 0)) {
		fprintf(stderr, "jankscope: info: the target exited; ending\n");
		stop(session);
	}
	return 0;
}

static int on_wait_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;
	int err = scan(session);

	if (!err && target_set_at(session->targets, 0))
		loop_stop(session->loop);
	return err;
}

static int on_wait_over(void *ctx, uint32_t events)
{
	loop_stop(((struct session *)ctx)->loop);
	return 0;
}

static enum exit_code wait_for_targets(struct session *session)
{
	const struct target_spec *spec = session->options.specs;
	int err = scan(session), timer, deadline;

	if (err) {
		fprintf(stderr, "jankscope: error: cannot read /proc: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	if (target_set_is_all(session->targets) || target_set_at(session->targets, 0))
		return EXIT_FINE;
	if (only_pids(session)) {
		fprintf(stderr, "jankscope: error: -p %d: no such process\n", spec->pid);
		return EXIT_NO_TARGET;
	}
	if (session->options.wait_ns) {
		timer = loop_add_timer(session->loop, SCAN_NS, SCAN_NS, on_wait_timer, session);
		deadline = loop_add_timer(session->loop, session->options.wait_ns, 0, on_wait_over,
					  session);
		err = timer < 0 ? timer : deadline < 0 ? deadline : loop_run(session->loop);
		loop_remove_timer(session->loop, timer);
		loop_remove_timer(session->loop, deadline);
		if (err < 0)
			return EXIT_INTERNAL;
	}
	if (session->stop || target_set_at(session->targets, 0))
		return EXIT_FINE;
	if (spec->kind == TARGET_UID)
		fprintf(stderr,
			"jankscope: error: -u %u: no process of this uid after %.3g s; see "
			"--wait\n",
			spec->uid, (double)session->options.wait_ns / 1e9);
	else
		fprintf(stderr, "jankscope: error: -p %s: not running after %.3g s; see --wait\n",
			spec->name, (double)session->options.wait_ns / 1e9);
	return EXIT_NO_TARGET;
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

		emit_event(session, &event);
	}
	if (interval && (step_ns > (int64_t)JUMP_NS || step_ns < -(int64_t)JUMP_NS)) {
		struct record_event event = {
			.event = "clock_jump",
			.keys = {{"step_ns", NULL, step_ns}},
			.key_count = 1,
		};

		emit_event(session, &event);
	}
	if (interval)
		interval->dur_ns = mono_ns - session->last_mono_ns;
	session->suspended_ns = suspended_ns;
	session->unix_minus_boot_ns = unix_minus_boot_ns;
	session->last_mono_ns = mono_ns;
}

static int take_interval(struct session *session, bool last, bool final)
{
	struct record_interval interval = {.last = last, .final = final};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	int err = 0;

	/* Who came since the last scan is listed already in this interval; without targets the scan
	 * drops the names of processes that are long gone. */
	err = scan(session);
	watch_clocks(session, &interval);
	counter_list_add(&interval.lost, "interval_overruns", session->overruns);
	session->overruns = 0;
	for (size_t i = 0; i < session->source_count && !err; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open)
			err = source->ops->sample(source, &interval);
		else
			missing_list_set(&interval.missing, source->ops->name, source->reason);
	}
	self_usage_take(session->self, &interval.self);
	if (!err)
		emit(session, &record);
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	session->intervals++;
	return err;
}

/* The run is over when the interval that is being taken is. */
static bool ends_with_this(const struct session *session)
{
	uint64_t taken = session->intervals + 1;

	if (session->options.count && taken >= session->options.count)
		return true;
	return session->options.duration_ns &&
	       (taken + session->overruns) * session->options.interval_ns >=
		       session->options.duration_ns;
}

static int on_interval(void *ctx, uint32_t periods)
{
	struct session *session = ctx;
	int err;

	session->overruns += periods - 1;
	err = take_interval(session, false, ends_with_this(session));
	if (session->options.count && session->intervals >= session->options.count)
		stop(session);
	if (!any_sink_left(session))
		stop(session);
	return err;
}

static int on_duration_over(void *ctx, uint32_t events)
{
	stop(ctx);
	return 0;
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
	stop(session);
	return 0;
}

/* ---- a run ---- */

static enum exit_code open_sources(struct session *session)
{
	session->context = (struct source_context){
		.loop = session->loop,
		.targets = session->targets,
		.calls = session->options.calls,
		.probes = session->options.probes,
		.warden = session->options.warden,
		.interval_ns = session->options.interval_ns,
		.block_ns = session->options.block_ns,
		.emit = emit,
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
	return EXIT_FINE;
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

/* Opening takes its time (the net source loads after the CPU source has its baseline): what
 * happened meanwhile is thrown away, so that all sources and the clock count from the same moment.
 */
static void take_common_baseline(struct session *session)
{
	struct record_interval ignored = {0};

	for (size_t i = 0; i < session->source_count; i++)
		if (session->sources[i].open)
			session->sources[i].source->ops->sample(session->sources[i].source,
								&ignored);
	counter_list_free(&ignored.lost);
	missing_list_free(&ignored.missing);
	self_usage_take(session->self, NULL);
	watch_clocks(session, NULL);
}

static int run_loop(struct session *session)
{
	const struct session_options *options = &session->options;
	int timer;

	timer = loop_add_timer(session->loop, options->interval_ns, options->interval_ns,
			       on_interval, session);
	if (timer < 0)
		return timer;
	timer = loop_add_timer(session->loop,
			       options->interval_ns / 2 < LOOK_NS ? options->interval_ns / 2
								  : LOOK_NS,
			       0, on_look_timer, session);
	if (timer < 0)
		return timer;
	if (options->duration_ns) {
		timer = loop_add_timer(session->loop, options->duration_ns, 0, on_duration_over,
				       session);
		if (timer < 0)
			return timer;
	}
	if (options->spec_count) {
		timer = loop_add_timer(session->loop, SCAN_NS, SCAN_NS, on_scan_timer, session);
		if (timer < 0)
			return timer;
	}
	return session->stop ? 0 : loop_run(session->loop);
}

static void emit_footer(struct session *session)
{
	struct record record = {.type = RECORD_FOOTER};

	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->summarise)
			source->ops->summarise(source, session->summary);
	}
	/* Made later or asked again: late, not lost. */
	summary_set_total(
		session->summary, "calls_held_up",
		(double)(bounded_calls_given_up(session->options.calls) +
			 (session->options.probes ? prober_pool_given_up(session->options.probes)
						  : 0)));
	record.footer = summary_footer(session->summary);
	if (record.footer)
		emit(session, &record);
	else
		session->sink_error = -ENOMEM;
}

enum exit_code session_run(struct session *session)
{
	struct record_event start = {.event = "start"};
	enum exit_code code;
	uint64_t left_ns;
	int err = loop_add_fd(session->loop, session->signal_fd, EPOLLIN, on_signal, session);

	if (err) {
		fprintf(stderr, "jankscope: error: epoll: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	code = wait_for_targets(session);
	if (code || session->stop)
		return code;
	code = open_sources(session);
	if (code)
		return code;
	drop_rights(session);
	err = emit_header(session);
	if (err) {
		fprintf(stderr, "jankscope: error: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	emit_event(session, &start);
	for (size_t i = 0; target_set_at(session->targets, i); i++)
		on_target(session, TARGET_STARTED, target_set_at(session->targets, i));
	take_common_baseline(session);
	err = run_loop(session);
	/* The rest of an interval is one too, unless the timer has just fired. */
	left_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;
	if (!err && !session->sink_error &&
	    !(session->options.count && session->intervals >= session->options.count) &&
	    left_ns > NSEC_PER_MSEC)
		err = take_interval(session, true, true);
	if (!err)
		emit_footer(session);
	if (err) {
		fprintf(stderr, "jankscope: error: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	if (session->sink_error)
		return EXIT_INTERNAL;
	if (summary_lost_pct(session->summary) > session->options.max_lost_pct) {
		fprintf(stderr, "jankscope: warn: %.2f %% was lost, more than --max-lost %.3g\n",
			summary_lost_pct(session->summary), session->options.max_lost_pct);
		return EXIT_INCOMPLETE;
	}
	return EXIT_FINE;
}
