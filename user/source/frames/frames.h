/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames source of `record`: what each layer showed, out of SurfaceFlinger's traces as they
 * are written. Values lag by the time that a trace needs to become complete (about 2.5 s). */
#pragma once
#include "jankscope/source.h"

struct frames_options {
	/* "perfetto": run the device's perfetto; "live": read tracefs; else a trace file to follow,
	 * the whole of it. */
	const char *mode;
	bool force;    /* live: use the trace buffer although something else traces */
	bool launches; /* perfetto: ask for ActivityManager's markers as well; the others have them
			*/
};

/* Options are copied; their strings must live as long as the source. NULL with errno ENOMEM. */
struct source *frames_source_new(const struct frames_options *options);
/* Launches of activities are wanted; before the source is opened. */
void frames_source_want_launches(struct source *source);
/* Late frames are judged by what this flight recorder kept; before the source is opened. Borrowed.
 */
void frames_source_use_flight(struct source *source, struct source *flight);
