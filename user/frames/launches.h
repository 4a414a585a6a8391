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
	int32_t teller;  /* the process that wrote the markers */
	int64_t start_ns, end_ns;
	int64_t first_frame_ns; /* on the screen, of a layer of the package; 0: none was seen */
	enum launch_kind kind;
	char package[LAUNCH_PACKAGE_BYTES];
};

struct focus {
	int64_t since_ns; /* 0: nothing told it */
	int32_t teller;
	char activity[LAUNCH_ACTIVITY_BYTES]; /* "package/.Activity", or the package (to 13) */
};

/* Whom a launch and its frames belong to; NULL is answered for what is not known. */
struct launch_names {
	const char *(*process)(void *ctx, int32_t pid);
	/* the package of a layer by its index; the answer may lie in buffer */
	const char *(*layer_package)(void *ctx, uint32_t layer, char *buffer, size_t size);
	void *ctx;
};

struct launches;

/* NULL with errno ENOMEM. */
struct launches *launches_new(void);
void launches_free(struct launches *launches);

void launches_mark(struct launches *launches, const struct trace_mark *mark);
/* A frame of a layer was shown at present_ns. Layers are told apart by index until
 * launches_forget_layers. */
void launches_frame(struct launches *launches, uint32_t layer, int64_t present_ns);
void launches_forget_layers(struct launches *launches);

/* The oldest launch that is complete, to be asked until it says false. A launch waits for its
 * first frame until one came, frames of 10 s later came, or final is set. What another process
 * than system_server wrote is left out. */
bool launches_take(struct launches *launches, const struct launch_names *names, bool final,
		   struct launch *out);
/* The activity in focus as told last, by system_server. False: nothing told it. */
bool launches_focus(const struct launches *launches, const struct launch_names *names,
		    struct focus *out);
/* Launches that were left out because more than are followed began at a time. */
uint64_t launches_lost(const struct launches *launches);
const char *launch_kind_name(enum launch_kind kind);
