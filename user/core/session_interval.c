/* SPDX-License-Identifier: BSD-2-Clause */
/* The intervals of a run: the timers that end them, the clocks that they are measured by, and one
 * record from what all sources give. */
#include <errno.h>
#include <malloc.h>

#include "control/run_status.h"
#include "core/loop.h"
#include "core/self.h"
#include "core/session_private.h"
#include "prober/pool.h"
#include "prober/warden.h"

/* A mark ends an interval that is at least so long. */
#define SHORTEST_NS (50 * NSEC_PER_MSEC)
#define LOOK_NS     (100 * NSEC_PER_MSEC)
/* A step of boot - mono beyond this is a suspend; of unix - boot, a change of the wall clock. */
#define SUSPEND_NS (20 * NSEC_PER_MSEC)
#define JUMP_NS    NSEC_PER_SEC
/* What a burst took of the heap is given back so soon: pages below a block that stayed are not
 * freed by free(), and each burst of a week would leave some more of them. */
#define GIVE_BACK_NS (10 * NSEC_PER_SEC)

void session_watch_clocks(struct session *session, struct record_interval *interval)
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

static void trim_heap(struct session *session)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (now_ns - session->gave_back_ns < GIVE_BACK_NS)
		return;
	malloc_trim(0);
	session->gave_back_ns = now_ns;
}

/* planned_ns: how long the interval was to be. */
static int take_interval(struct session *session, uint64_t planned_ns, bool final, bool marked)
{
	struct record_interval interval = {
		.last = final && planned_ns != session->options.interval_ns,
		.marked = marked,
		.final = final,
	};
	struct record record = {.type = RECORD_INTERVAL, .interval = &interval};
	int err = 0;

	/* Who came since the last scan is listed already in this interval; without targets the scan
	 * drops the names of processes that are long gone. */
	err = session_scan(session);
	session_take_output_events(session);
	session_watch_clocks(session, &interval);
	tell_gap(session, interval.dur_ns, planned_ns);
	counter_list_add(&interval.lost, "interval_overruns", session->overruns);
	counter_list_add(&interval.lost, "processes_unread",
			 target_set_take_unread(session->targets));
	counter_list_add(&interval.lost, "targets_unmet", target_set_take_unmet(session->targets));
	counter_list_add(&interval.lost, "package_lines_unread",
			 target_packages_take_rejected(session->targets));
	outputs_count_dropped(session->outputs, &interval.lost);
	counter_list_merge(&interval.lost, &session->baseline_lost);
	counter_list_free(&session->baseline_lost);
	session->overruns = 0;
	for (size_t i = 0; i < session->source_count && !err; i++) {
		struct source *source = session->sources[i].source;
		uint64_t before_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

		if (session->sources[i].open)
			err = source->ops->sample(source, &interval);
		else
			missing_list_set(&interval.missing, source->ops->name, source->reason);
		session->sources[i].cpu_ns += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
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
	if (!err && !final)
		session_watch_self(session, &interval,
				   interval.dur_ns > planned_ns ? interval.dur_ns - planned_ns : 0);
	counter_list_free(&interval.lost);
	counter_list_free(&interval.late);
	counter_list_free(&interval.repaired);
	missing_list_free(&interval.missing);
	trim_heap(session);
	session->intervals += !marked;
	session->cut = marked;
	session->ahead_ns = 0;
	session->final_taken = final;
	return err;
}

static int on_interval(void *ctx, uint32_t periods)
{
	struct session *session = ctx;
	const struct session_options *options = &session->options;
	uint64_t so_far_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;
	bool over, final = options->count && session->intervals + 1 >= options->count;
	uint64_t planned_ns;
	int err;

	session->periods += periods;
	if (session->stop)
		return 0;
	if (options->duration_ns && session->plan.last_dur_ns &&
	    session->periods > session->plan.periods)
		return 0; /* the last one, which the timer of -d ends */
	over = options->duration_ns && !session->plan.last_dur_ns &&
	       session->periods >= session->plan.periods;
	/* The timers stand still in a suspend. */
	over |= session->end_boot_ns && clock_now_ns(CLOCK_BOOTTIME) >= session->end_boot_ns;
	/* Cut by a mark a moment ago. */
	if (!over && session->cut && so_far_ns < options->interval_ns / 2) {
		session->ahead_ns = so_far_ns;
		return 0;
	}
	/* What is thinned goes on with every fourth period. */
	if (!over && !final && session->watchdog.steps & THIN_INTERVALS &&
	    so_far_ns + options->interval_ns / 2 < THIN_TIMES * options->interval_ns)
		return 0;
	/* The one before came late: this one is not worth a record, and goes to the next. */
	if (!over && so_far_ns < options->interval_ns / 2) {
		session->overruns += periods;
		return 0;
	}
	session->overruns += periods - 1;
	if (over)
		run_plan_wait(session->options.interval_ns, session->last_mono_ns);
	planned_ns = options->interval_ns;
	if (session->watchdog.steps & THIN_INTERVALS)
		planned_ns *= THIN_TIMES;
	err = take_interval(session, planned_ns + session->ahead_ns, final || over, false);
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
	return take_interval(session, session->plan.last_dur_ns, true, false);
}

bool session_cut_interval(struct session *session)
{
	uint64_t so_far_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;

	if (so_far_ns < SHORTEST_NS)
		return false;
	if (take_interval(session, session->options.interval_ns + session->ahead_ns, false, true))
		session->error = -EIO;
	return true;
}

int session_take_rest(struct session *session)
{
	uint64_t left_ns = run_plan_wait(session->options.interval_ns, session->last_mono_ns);

	return take_interval(
		session,
		left_ns < session->options.interval_ns ? left_ns : session->options.interval_ns + 1,
		true, false);
}

/* By now the helpers have said who they are. */
static int on_look_timer(void *ctx, uint32_t events)
{
	self_usage_look(((struct session *)ctx)->self);
	return 0;
}

void session_plan_end(struct session *session)
{
	struct session_options *options = &session->options;
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);

	if (!options->by_boot_clock || !options->duration_ns || !options->status)
		return;
	if (!options->status->end_boot_ns)
		options->status->end_boot_ns = now_ns + options->duration_ns;
	session->end_boot_ns = options->status->end_boot_ns;
	options->duration_ns =
		session->end_boot_ns > now_ns + LOOK_NS ? session->end_boot_ns - now_ns : LOOK_NS;
}

int session_run_loop(struct session *session)
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
		timer = session_start_scans(session);
		if (timer < 0)
			return timer;
	}
	return session->stop ? 0 : loop_run(session->loop);
}
