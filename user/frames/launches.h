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
	/* when a frame of the package was on the screen; 0: none was. Of launches_next() whoever
	 * has frames fills it */
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
/* The same for a trace that has no end. Whether a frame that was shown then is of interest: a
 * launch that was not taken yet began within the minute before. */
bool launches_want_frame(const struct launches *launches, int64_t present_ns);
/* A frame of a package was on the screen; frames may come in any order, and before their launch is
 * known to be of that package. Eight packages are kept a launch, the later ones are not. */
void launches_frame(struct launches *launches, const char *package, int64_t present_ns);
/* Take the next launch of which all was told, each once. Its first frame is waited for: one is
 * taken window_ns after it was first asked for with a frame (a frame of another layer may have been
 * earlier), LAUNCH_FRAME_NS later without; now_ns is any steady clock. final: wait for nothing. */
#define LAUNCH_FRAME_NS 10000000000ULL
bool launches_take(struct launches *launches, launch_process_name process, void *ctx,
		   uint64_t now_ns, uint64_t window_ns, bool final, struct launch *out);
/* The activity that came into focus last. False: nothing told it. */
bool launches_focus(const struct launches *launches, launch_process_name process, void *ctx,
		    struct focus *out);
/* Take the next change of the focus, each once, as they were heard of; of more than 64 that nobody
 * took the oldest are lost, and counted with the launches. */
bool launches_take_focus(struct launches *launches, launch_process_name process, void *ctx,
			 struct focus *out);
/* Launches of which all was told, and which made room for later ones before they were taken. */
uint64_t launches_lost(const struct launches *launches);
const char *launch_kind_name(enum launch_kind kind);
