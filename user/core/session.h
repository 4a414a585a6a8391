/* SPDX-License-Identifier: BSD-2-Clause */
/* A run: one loop, one clock, one snapshot per interval. Sources -> records -> sinks. */
#pragma once
#include <stdbool.h>

#include "core/watchdog.h"
#include "jankscope/sink.h"
#include "jankscope/source.h"
#include "jankscope/target.h"

/* Exit codes; the man page (cli/options_text.c) says what each means. */
enum exit_code {
	EXIT_FINE = 0,
	EXIT_INTERNAL = 1,
	EXIT_USAGE = 2,
	EXIT_INCOMPLETE = 3,
	EXIT_NO_TARGET = 4,
	EXIT_UNSUPPORTED = 5,
	EXIT_RULE = 10,
	EXIT_INTERRUPTED = 130,
};

struct alert_rule;
struct command;
struct control;
struct endpoint;
struct prober_pool;
struct redactor;
struct run_status;
struct warden;

struct session_options {
	uint64_t interval_ns, duration_ns, count; /* 0: no limit */
	uint64_t block_ns;
	uint64_t wait_ns; /* for a named target that is not there yet */
	double max_lost_pct;
	struct watchdog_limits limits;
	/* Borrowed until session_free; they are in the session's loop meanwhile. NULL: none. */
	struct warden *warden;
	struct prober_pool *probes;
	struct control *control;   /* requests are answered in the loop */
	struct endpoint *endpoint; /* scrapers are answered in the loop */
	struct run_status *status; /* what it answers; not begun anew where it says something */
	/* duration_ns ends by CLOCK_BOOTTIME, at status->end_boot_ns where that is set already. */
	bool by_boot_clock;
	/* This run goes on where another recorder of the same recording died, for this reason; what
	 * status says is of that one then. NULL: it does not. */
	const char *resumed;
	/* Called once, when the first interval has begun. NULL: nobody waits for it. */
	void (*begun)(void *ctx, size_t sources_ok, size_t sources);
	void *begun_ctx;
	const struct target_spec *specs;
	size_t spec_count;
	const struct alert_rule *alerts; /* borrowed, too */
	size_t alert_count;
	const struct command *on_alert; /* NULL: none */
	struct redactor *redactor;      /* borrowed; NULL: names are shown */
	struct header_estimate estimate;
	bool verbose;
};

struct session;

/* Blocks SIGINT, SIGTERM and SIGHUP and ignores SIGPIPE: call before any thread is made. NULL with
 * errno. */
struct session *session_new(const struct session_options *options, struct target_set *targets);
/* Both take ownership, also when they fail with -ENOMEM. A source that cannot be opened ends the
 * run if it is needed, else it is absent and said so in the header. */
int session_add_source(struct session *session, struct source *source, bool needed);
int session_add_sink(struct session *session, struct sink *sink);
/* Wait for the targets, open the sources, run, write the footer. Returns an exit code; what went
 * wrong was said in one line on stderr. */
enum exit_code session_run(struct session *session);
/* A scene begins or ends now (summary/scenes.h): an event, and the interval ends here if it is 50
 * ms long. To be called from a callback of the session's loop. 0; -EINVAL: not a name; -EALREADY:
 * it is open; -ENOENT: it is not; -ENOSPC: too many are open;
 * -EAGAIN: the run has not begun, or is over. */
int session_mark(struct session *session, const char *name, bool end);
void session_free(struct session *session);
