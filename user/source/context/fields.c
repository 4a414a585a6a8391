/* SPDX-License-Identifier: BSD-2-Clause */
/* What the context source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

static const char *const state_words[] = {"foreground", "background", "cached", "frozen", NULL};
static const char *const screen_words[] = {"on", "off", NULL};
static const char *const charging_words[] = {"yes", "no", NULL};

static const struct field process_rows[] = {
	FIELD(struct record_process_context, pid, REQUIRED, ID, "process id", MERGED(KEY)),
	FIELD(struct record_process_context, uid, REQUIRED, ID, "its uid"),
	FIELD(struct record_process_context, start_boot_ns, NONZERO, NS, "when it began",
	      MERGED(KEY)),
	FIELD(struct record_process_context, process, OPTIONAL, NAME, "its name"),
	FIELD(struct record_process_context, package, OPTIONAL, NAME, "package"),
	FIELD_WORDS(
		struct record_process_context, state, REQUIRED, state_words,
		"what it was at the end of the interval: foreground: cpuset top-app with "
		"oom_score_adj 0; frozen by its cgroup; cached: oom_score_adj from 900 on; else "
		"background"),
	FIELD(struct record_process_context, changed, NONZERO, NONE,
	      "it was something else at the beginning of the interval or amid it, or that is not "
	      "known: what "
	      "it did meanwhile is in the summary's mixed"),
	FIELD(struct record_process_context, oom_score_adj, REQUIRED, NONE,
	      "how soon the system ends it: -1000 to 1000", MERGED(LAST)),
};
static const struct field_type process_type =
	FIELD_TYPE("process_context", struct record_process_context, process_rows);

static const struct field context_rows[] = {
	FIELD(struct record_context, screen, OPTIONAL, NAME, "the screen is lit",
	      .words = screen_words),
	FIELD(struct record_context, charging, OPTIONAL, NAME,
	      "power comes from outside, or the battery is being charged", .words = charging_words),
	FIELD_ROWS("processes", struct record_context, processes, process_count, NONZERO,
		   &process_type, "the targets' processes at the end of the interval"),
};
static const struct field_type context_type =
	FIELD_TYPE("context", struct record_context, context_rows);

const struct field context_part =
	FIELD_STRUCT_IF("context", struct record_interval, context, context.present, &context_type,
			"what the device and the targets were for the user");
