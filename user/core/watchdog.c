/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/watchdog.h"

#include <stdio.h>
#include <string.h>

#include "core/session_private.h"
#include "util/talk.h"
#include "util/units.h"

void watchdog_init(struct watchdog *watchdog, const struct watchdog_limits *limits)
{
	*watchdog = (struct watchdog){.limits = *limits};
}

const char *watchdog_step_name(unsigned step)
{
	return step == THIN_TASKS ? "tasks" : step == THIN_STACKS ? "stacks" : "intervals";
}

/* Whether one of the limits is passed when each of them is this part of itself. */
static bool passes(struct watchdog *watchdog, const struct watchdog_look *look, double part,
		   bool tell)
{
	const struct watchdog_limits *limits = &watchdog->limits;
	double cpu_pct = look->dur_ns ? 100.0 * (double)look->cpu_ns / (double)look->dur_ns : 0;
	char is[32], may[32], text[sizeof(watchdog->reason)] = "";

	if (limits->cpu_pct > 0 && cpu_pct > part * limits->cpu_pct)
		snprintf(text, sizeof(text), "CPU time %.1f %% of one CPU, the limit is %.3g %%",
			 cpu_pct, limits->cpu_pct);
	else if (limits->memory_bytes && look->memory_bytes.present &&
		 (double)look->memory_bytes.value > part * (double)limits->memory_bytes)
		snprintf(text, sizeof(text), "memory %s, the limit is %s",
			 format_bytes(is, sizeof(is), look->memory_bytes.value),
			 format_bytes(may, sizeof(may), limits->memory_bytes));
	else if (limits->late_ns && (double)look->late_ns > part * (double)limits->late_ns)
		snprintf(text, sizeof(text), "an interval %s late, the limit is %s",
			 format_duration(is, sizeof(is), look->late_ns),
			 format_duration(may, sizeof(may), limits->late_ns));
	if (tell && *text)
		memcpy(watchdog->reason, text, sizeof(text));
	return *text;
}

enum watchdog_verdict watchdog_look(struct watchdog *watchdog, const struct watchdog_look *look,
				    unsigned *step)
{
	const struct watchdog_limits *limits = &watchdog->limits;
	bool over = passes(watchdog, look, 1, true);

	/* Between the two: neither. */
	if (!over && passes(watchdog, look, 0.8, false))
		return WATCHDOG_FINE;
	if (over) {
		watchdog->calm_ns = 0;
		watchdog->over_ns += look->dur_ns;
	} else {
		watchdog->calm_ns += look->dur_ns;
		watchdog->over_ns -=
			look->dur_ns < watchdog->over_ns ? look->dur_ns : watchdog->over_ns;
	}
	if (over && watchdog->over_ns >= limits->window_ns) {
		watchdog->over_ns = 0;
		for (*step = 1; *step < 1u << THIN_STEPS; *step <<= 1) {
			if (watchdog->steps & *step)
				continue;
			watchdog->steps |= *step;
			return WATCHDOG_THIN;
		}
		return WATCHDOG_GIVE_UP;
	}
	if (watchdog->steps && watchdog->calm_ns >= WATCHDOG_CALM_WINDOWS * limits->window_ns) {
		watchdog->calm_ns = 0;
		*step = 1u << (31 - __builtin_clz(watchdog->steps));
		watchdog->steps &= ~*step;
		return WATCHDOG_BACK;
	}
	return WATCHDOG_FINE;
}

/* ---- in a session ---- */

static void tell(struct session *session, unsigned step, const char *state, const char *reason)
{
	struct record_event event = {
		.event = "degraded",
		.keys = {{"source", "self", 0},
			 {"state", state, 0},
			 {"step", watchdog_step_name(step), 0},
			 {"reason", reason, 0}},
		.key_count = 4,
	};

	session_emit_event(session, &event);
	for (size_t i = 0; i < session->source_count; i++) {
		struct source *source = session->sources[i].source;

		if (session->sources[i].open && source->ops->thin)
			source->ops->thin(source, session->watchdog.steps);
	}
}

void session_watch_self(struct session *session, const struct record_interval *interval,
			uint64_t late_ns)
{
	const struct watchdog_look look = {
		.dur_ns = interval->dur_ns,
		.cpu_ns = interval->self.cpu_ns,
		.memory_bytes = interval->self.memory_bytes,
		.late_ns = late_ns,
	};
	struct watchdog *watchdog = &session->watchdog;
	unsigned step = 0;

	switch (watchdog_look(watchdog, &look, &step)) {
	case WATCHDOG_FINE:
		break;
	case WATCHDOG_THIN:
		talk("warn: the recorder costs too much (%s): less of %s from here on\n",
		     watchdog->reason, watchdog_step_name(step));
		tell(session, step, "begin", watchdog->reason);
		break;
	case WATCHDOG_BACK:
		tell(session, step, "end", "within the limits again");
		break;
	case WATCHDOG_GIVE_UP:
		talk("error: the recorder costs too much (%s), and nothing is left to leave out; "
		     "ended\n",
		     watchdog->reason);
		session->gave_up = true;
		session_stop(session);
		break;
	}
}
