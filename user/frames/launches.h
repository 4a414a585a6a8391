/* SPDX-License-Identifier: BSD-2-Clause */
/* Launches of activities and which activity has the focus, as ActivityManager tells them in markers
 * of system_server (atrace category am). A launch is a slice `launchingActivity#N`, from the intent
 * until the windows were drawn, and an instant `launchingActivity#N:completed-KIND:PACKAGE`
 * (ActivityMetricsLogger.java, Android 13 and later; 13 does not tell the kind). One that was
 * given up has no such instant and is not told. Pure, of bounded memory. */
#pragma once
#include "jankscope/timeline.h"

#define LAUNCH_PACKAGE_BYTES  128
#define LAUNCH_ACTIVITY_BYTES 256

enum launch_kind {
	LAUNCH_UNKNOWN = 0,
	LAUNCH_HOT,  /* the activity was there and came to the front */
	LAUNCH_WARM, /* the process was there, the activity was made */
	LAUNCH_COLD, /* the process was made for it */
};

struct launch {
	uint64_t number; /* N */
	int32_t teller;  /* the process that the markers name as their writer */
	int64_t start_ns, end_ns;
	/* when a frame of the package was on the screen; 0: none was. Whoever has frames fills it
	 */
	int64_t first_frame_ns;
	enum launch_kind kind;
	char package[LAUNCH_PACKAGE_BYTES];
};

struct focus {
	int64_t since_ns; /* 0: nothing told it */
	int32_t teller;
	char activity[LAUNCH_ACTIVITY_BYTES]; /* "package/.Activity", or the package (to 13) */
};

/* The name of a process; NULL: not known. */
typedef const char *(*launch_process_name)(void *ctx, int32_t pid);

struct launches;

/* NULL with errno ENOMEM. */
struct launches *launches_new(void);
void launches_free(struct launches *launches);

/* Take in a marker; those of different CPUs may come in any order. */
void launches_mark(struct launches *launches, const struct trace_mark *mark);

/* The next launch of which all was told, in the order in which they were first heard of; *at is 0
 * before the first. False: there is none. Launches that name another process than system_server as
 * their teller are left out; a process without a name is believed. */
bool launches_next(const struct launches *launches, launch_process_name process, void *ctx,
		   size_t *at, struct launch *out);
/* The activity that came into focus last. False: nothing told it. */
bool launches_focus(const struct launches *launches, launch_process_name process, void *ctx,
		    struct focus *out);
/* Launches that made room for later ones. */
uint64_t launches_lost(const struct launches *launches);
const char *launch_kind_name(enum launch_kind kind);
