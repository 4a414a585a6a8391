/* SPDX-License-Identifier: BSD-2-Clause */
/* The targets of a run: waiting for them, and telling who came and went. */
#include <stdio.h>
#include <string.h>

#include "core/loop.h"
#include "core/session_private.h"
#include "util/clock.h"
#include "util/talk.h"

/* Many targets may end at once; one scan finds them all. */
#define EXIT_SCAN_NS NSEC_PER_MSEC
/* From one slice of a scan to the next: what else the loop has to do comes between. */
#define SLICE_SCAN_NS (30 * NSEC_PER_MSEC)
/* How often it is asked whether names are awaited still. */
#define FINDING_NS (10 * NSEC_PER_MSEC)

static int on_exit_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;

	loop_remove_timer(session->loop, session->exit_timer);
	session->exit_timer = -1;
	/* Whether that ends the run is asked when what the target did last has come. */
	if (session->scan_timer >= 0)
		loop_set_timer(session->loop, session->scan_timer, SCAN_NS, SCAN_NS);
	return session_scan(session);
}

/* A pidfd stays readable: it is not asked again before the scan that drops it. */
static int on_pidfd(void *ctx, uint32_t events)
{
	struct session *session = ctx;

	if (session->exit_timer < 0)
		session->exit_timer =
			loop_add_timer(session->loop, EXIT_SCAN_NS, 0, on_exit_timer, session);
	return session->exit_timer < 0 ? session_scan(session) : 0;
}

/* The source that watches threads says what their loops are with it. */
static bool source_tells_start(struct session *session, const struct target_process *process)
{
	bool tells = false;

	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->take_target)
			tells |= source->ops->take_target(source, process);
	}
	return tells;
}

static void tell_end(struct session *session)
{
	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->drop_target)
			source->ops->drop_target(source);
	}
}

void session_on_target(void *ctx, enum target_change change, const struct target_process *process)
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
		loop_add_fd(session->loop, process->pidfd, EPOLLIN | EPOLLET, on_pidfd, session);
	else if (process->pidfd >= 0)
		loop_remove_fd(session->loop, process->pidfd);
	if (change != TARGET_STARTED)
		tell_end(session);
	if (process->package)
		event.keys[event.key_count++] = (struct event_key){"package", process->package, 0};
	/* While the targets are still waited for there is no header yet. */
	if (session->seq && !(change == TARGET_STARTED && source_tells_start(session, process)))
		session_emit_event(session, &event);
}

static void go_on_with_names(struct session *session, uint64_t after_ns);

int session_scan(struct session *session)
{
	int n = target_set_scan(session->targets, session_on_target, session);

	session->scanned_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (n >= 0 && target_set_is_midway(session->targets) && session->exit_timer < 0)
		session->exit_timer =
			loop_add_timer(session->loop, SLICE_SCAN_NS, 0, on_exit_timer, session);
	if (n >= 0 && target_set_has_names(session->targets))
		go_on_with_names(session, SLICE_SCAN_NS);
	return n < 0 ? n : 0;
}

static int on_names_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;
	int more;

	loop_remove_timer(session->loop, session->names_timer);
	session->names_timer = -1;
	more = target_set_take_names(session->targets, session_on_target, session);
	if (more > 0)
		go_on_with_names(session, SLICE_SCAN_NS);
	/* While the targets are waited for, there is no header yet. */
	if (!session->seq && target_set_at(session->targets, 0)) {
		session->target_came = true;
		loop_stop(session->loop);
	}
	return more < 0 ? more : 0;
}

static void go_on_with_names(struct session *session, uint64_t after_ns)
{
	if (session->names_timer < 0)
		session->names_timer =
			loop_add_timer(session->loop, after_ns, 0, on_names_timer, session);
}

void session_on_names(void *ctx)
{
	go_on_with_names(ctx, 1);
}

/* Who is there: what there is to find, also by names that have to be asked for. */
static int first_scan(struct session *session)
{
	int err = session_scan(session);

	while (!err && !session->stop && target_set_is_finding(session->targets))
		err = loop_turn(session->loop, FINDING_NS);
	return err ? err : session_scan(session);
}

static bool only_pids(const struct session *session)
{
	for (size_t i = 0; i < session->options.spec_count; i++)
		if (session->options.specs[i].kind != TARGET_PID)
			return false;
	return session->options.spec_count > 0;
}

int session_on_scan_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;
	int err = 0;

	/* Each interval begins with a scan, too. */
	if (clock_now_ns(CLOCK_MONOTONIC) - session->scanned_ns > SCAN_SLACK_NS)
		err = session_scan(session);
	if (err)
		return err;
	/* Nothing can come back under a pid that is gone. */
	if (session->seq && only_pids(session) && !target_set_at(session->targets, 0)) {
		talk("info: the target exited; ending\n");
		session_stop(session);
	}
	return 0;
}

static bool ends_are_told(const struct session *session)
{
	const struct target_process *process;

	for (size_t n = 0; (process = target_set_at(session->targets, n)); n++)
		if (process->pidfd < 0)
			return false;
	return true;
}

int session_start_scans(struct session *session)
{
	uint64_t period_ns = only_pids(session) && ends_are_told(session) ? SCAN_PIDS_NS : SCAN_NS;

	session->scan_timer =
		loop_add_timer(session->loop, period_ns, period_ns, session_on_scan_timer, session);
	if (session->scan_timer < 0)
		return session->scan_timer;
	return loop_set_slack(session->loop, session->scan_timer, SCAN_SLACK_NS);
}

/* What the sources saw before the run is not part of it; but a target that ran and ended between
 * two scans is one that came. */
static int has_run(struct session *session, bool *ran)
{
	struct record_interval ignored = {0};
	int err = 0;

	for (size_t i = 0; i < session->source_count && !err; i++)
		if (session->sources[i].open)
			err = session->sources[i].source->ops->sample(session->sources[i].source,
								      &ignored);
	*ran = ignored.cpu.task_count > 0;
	counter_list_free(&ignored.lost);
	counter_list_free(&ignored.late);
	counter_list_free(&ignored.repaired);
	missing_list_free(&ignored.missing);
	return err;
}

static int on_wait_timer(void *ctx, uint32_t events)
{
	struct session *session = ctx;
	bool ran = false;
	int err = session_scan(session);

	if (!err)
		err = has_run(session, &ran);
	session->target_came = ran || target_set_at(session->targets, 0);
	if (!err && session->target_came)
		loop_stop(session->loop);
	return err;
}

static int on_wait_over(void *ctx, uint32_t events)
{
	loop_stop(((struct session *)ctx)->loop);
	return 0;
}

enum exit_code session_wait_for_targets(struct session *session)
{
	const struct target_spec *spec = session->options.specs;
	int err = first_scan(session), timer, deadline;
	char name[SESSION_TEXT];

	if (err) {
		fprintf(stderr, "jankscope: error: cannot read /proc: %s\n", strerror(-err));
		return EXIT_INTERNAL;
	}
	/* A signal that came meanwhile is not told again: loop_run() begins anew. */
	if (session->stop || target_set_is_all(session->targets) ||
	    target_set_at(session->targets, 0))
		return EXIT_FINE;
	if (only_pids(session)) {
		fprintf(stderr, "jankscope: error: -p %d: no such process\n", spec->pid);
		return EXIT_NO_TARGET;
	}
	if (session->options.wait_ns) {
		enum exit_code code = session_open_sources(session);

		if (code)
			return code;
		timer = loop_add_timer(session->loop, SCAN_NS, SCAN_NS, on_wait_timer, session);
		deadline = loop_add_timer(session->loop, session->options.wait_ns, 0, on_wait_over,
					  session);
		err = timer < 0 ? timer : deadline < 0 ? deadline : loop_run(session->loop);
		loop_remove_timer(session->loop, timer);
		loop_remove_timer(session->loop, deadline);
		if (err < 0)
			return EXIT_INTERNAL;
	}
	if (session->stop || session->target_came)
		return EXIT_FINE;
	if (spec->kind == TARGET_UID)
		fprintf(stderr,
			"jankscope: error: -u %u: no process of this uid after %.3g s; see "
			"--wait\n",
			spec->uid, (double)session->options.wait_ns / 1e9);
	else
		fprintf(stderr, "jankscope: error: -p %s: not running after %.3g s; see --wait\n",
			session_text(session, spec->name, name),
			(double)session->options.wait_ns / 1e9);
	return EXIT_NO_TARGET;
}
