/* SPDX-License-Identifier: BSD-2-Clause */
/* What the names of atrace's slices and counters mean, from Android 9 to 16.
 */
#pragma once
#include "jankscope/timeline.h"

enum mark_meaning {
	MEANS_OTHER = 0,
	MEANS_DO_FRAME,
	MEANS_RESYNCED, /* a second doFrame, which Android 16 nests inside the real one */
	MEANS_DRAW_FRAME,
	MEANS_QUEUE_BUFFER,
	MEANS_VSYNC_APP,
	MEANS_VSYNC_SF,
	MEANS_VSYNC_HW,
	MEANS_BUFFER_COUNT,
	MEANS_MAYBE_BUFFERS, /* if SurfaceFlinger counts it */
	MEANS_DISPLAY,       /* SurfaceFlinger does this */
	MEANS_PERIOD,
	MEANS_LOCK,     /* ART waits for a monitor or one of its own locks */
	MEANS_GPU_WAIT, /* for a fence */
	MEANS_DEQUEUE,  /* for a free buffer */
	MEANS_CALL,     /* a call of AIDL, on the caller's side */
};

/* "Choreographer#doFrame", "Choreographer#doFrame 123", "DrawFrames 123", what queues buffers and
 * what waits.
 * id: the vsync id in the name (of the resynced doFrame the one it moves to), or -1. */
enum mark_meaning slice_meaning(const struct trace_mark *mark, int64_t *id);
enum mark_meaning counter_meaning(const char *name, size_t size);
