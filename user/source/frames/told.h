/* SPDX-License-Identifier: BSD-2-Clause */
/* What ActivityManager tells in a trace while it is recorded, as events: `launch` for each launch
 * of an activity (frames/launches.h), `focus` when another activity has it. */
#pragma once
#include "frames/stream.h"
#include "jankscope/source.h"

struct frames_janks;
struct frames_names;
struct owners;

struct frames_told {
	const struct source_context *context;
	const struct owners *owners; /* launches of their processes are told */
	struct frame_stream *stream; /* that is watched */
	struct frames_names *names;  /* NULL: the pids are of another device */
	struct frames_janks *janks;  /* whose flight recorder has the ledgers; NULL: nobody */
	uint64_t count;              /* launches told */
	uint64_t lost;               /* of the stream, that were counted */
};

/* Watch a stream: its frames are given to its launches. told must outlive the stream. */
void frames_told_watch(struct frames_told *told, struct frame_stream *stream,
		       struct frames_names *names);
/* Emit what is new of the stream; launches of no target are left out. now_ns is any steady clock,
 * window_ns how long events may be on their way; final: nothing more comes. Returns how many
 * launches were lost since the last call. */
uint64_t frames_told_emit(struct frames_told *told, uint64_t now_ns, uint64_t window_ns,
			  bool final);
