/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the session share. */
#pragma once
#include "record/losses.h"
#include "core/outputs.h"
#include "core/run_plan.h"
#include "core/session.h"
#include "util/clock.h"

/* How often a target that came, went or is waited for is looked for. */
#define SCAN_NS (200 * NSEC_PER_MSEC)
/* Where targets are pids none can come, and the pidfd of each tells of its end: only names are left
 * to be read again. */
#define SCAN_PIDS_NS NSEC_PER_SEC
/* A scan may come so much earlier or later, with something else. */
#define SCAN_SLACK_NS (50 * NSEC_PER_MSEC)

struct session {
	struct session_options options;
	struct target_set *targets;
	struct loop *loop;
	struct loss_registry losses;
	struct summary *summary;
	struct self_usage *self;
	struct {
		struct source *source;
		bool needed, open;
		uint64_t cpu_ns; /* what its samples took of the recorder's own time */
	} sources[MAX_SOURCES];
	size_t source_count;
	struct outputs *outputs;
	struct watchdog watchdog;
	bool gave_up; /* the watchdog has */
	struct source_context context;
	uint64_t seq, last_mono_ns, suspended_ns, intervals, overruns;
	uint64_t periods; /* of the interval timer that went by */
	/* An interval was cut by a mark: the next one may be longer than planned by this. */
	uint64_t ahead_ns;
	uint64_t gave_back_ns; /* when free memory was given back, CLOCK_MONOTONIC */
	bool cut;
	struct run_plan plan;
	uint64_t end_boot_ns; /* 0: the plan alone ends the run */
	bool final_taken;
	int64_t unix_minus_boot_ns;
	struct counter_list
		baseline_lost; /* while the sources opened; told in the first interval */
	int exit_timer;        /* a scan is due: a target ended, or it goes on; -1: none */
	int scan_timer;        /* -1: none */
	int names_timer;       /* names of new processes have come; -1: none */
	uint64_t scanned_ns;
	int signal_fd;
	bool stop;
	bool opened;               /* the sources */
	bool target_came;          /* while it was waited for */
	int error;                 /* of counting */
	struct alerts *alerts;     /* NULL: there are no rules */
	struct commands *commands; /* NULL: none is to be run */
	struct live_metrics *live; /* NULL: nobody scrapes */
};

/* Rules of --alert; 0 or -ENOMEM. */
int session_join_alerts(struct session *session);
void session_leave_alerts(struct session *session);
/* Look at a record that was given to the sinks. */
void session_take_alerts(struct session *session, const struct record *record);
/* Say which rules can never fire: the sources are open. */
void session_check_alerts(const struct session *session);
/* Their totals for the footer. 0 or -ENOMEM. */
int session_sum_alerts(struct session *session);

#define SESSION_TEXT 512
/* What stderr is to show of a text that may hold names: with --redact hashes, in `to`. */
const char *session_text(const struct session *session, const char *text, char to[SESSION_TEXT]);

void session_stop(void *session);
/* Answer what comes by options.control, in the session's loop. 0 or -errno. */
int session_join_control(struct session *session);
/* The object that `status --json` prints of this run; the caller's. 0 or -ENOMEM. */
int session_status(const struct session *session, char **text, size_t *bytes);
/* Answer scrapers by options.endpoint, in the session's loop. 0 or -errno. */
int session_join_endpoint(struct session *session);
void session_leave_endpoint(struct session *session);
/* Stamp a record, count it and hand it to the sinks; as source_context.emit. */
void session_emit(void *session, struct record *record);
void session_emit_event(struct session *session, const struct record_event *event);

/* What the outputs have to tell, as events. */
void session_take_output_events(struct session *session);

/* Open the sources, and give up the rights that none of them needs; once. */
enum exit_code session_open_sources(struct session *session);

/* Read the clocks anew, and tell of a suspend or a step of the wall clock since the last reading.
 * interval gets its length; NULL: the first reading, of which nothing is told. */
void session_watch_clocks(struct session *session, struct record_interval *interval);
/* End the interval now, for a scene; false: it has hardly begun. */
bool session_cut_interval(struct session *session);
/* Judge what the recorder itself cost in an interval, and thin it, or end the run. */
void session_watch_self(struct session *session, const struct record_interval *interval,
			uint64_t late_ns);
/* Turn an end by CLOCK_BOOTTIME into a duration. */
void session_plan_end(struct session *session);
/* Take intervals until the run is stopped or its last one is taken. 0 or -errno. */
int session_run_loop(struct session *session);
/* A signal came, or the target went: what is left is an interval too, and the sources give what
 * they hold back. 0 or -errno. */
int session_take_rest(struct session *session);

/* A target_set_on_names of the session's targets. */
void session_on_names(void *session);
/* Look for targets that came or went. 0 or -errno. */
int session_scan(struct session *session);
int session_on_scan_timer(void *session, uint32_t events);
/* Have session_on_scan_timer called as often as these targets need. 0 or -errno. */
int session_start_scans(struct session *session);
void session_on_target(void *session, enum target_change change,
		       const struct target_process *process);
/* Until one of them is there, or ran for a moment that no scan met, at most --wait. EXIT_FINE, also
 * when the run was ended meanwhile. */
enum exit_code session_wait_for_targets(struct session *session);
