/* SPDX-License-Identifier: BSD-2-Clause */
/* When a frame goes from one of its threads to the next. Threads are indices of the frame's. */
#pragma once
#include "why/judge.h"

/* When, in [from_ns, to_ns], the main thread gave the frame away: its last wake-up of the
 * RenderThread before it went back to its looper (a doFrame may ask that thread for other things
 * before), or the first one where it did not go back. A RenderThread that draws the frame before is
 * not woken: then it is when that one let it go on (syncFrameState). If none is told, the first run
 * of that one. render: WHY_NONE: to_ns. */
int64_t why_handed(const struct why_frame *frame, size_t main, size_t render, int64_t from_ns,
		   int64_t to_ns);
/* When, in [handed_ns, to_ns], the RenderThread queued the buffer: when it went back to its looper
 * (behind that it may draw the next frame); where nobody tells loopers apart, the end of its last
 * run. What comes behind is the GPU's, as far as something is known of the RenderThread then.
 * render: WHY_NONE: to_ns. */
int64_t why_queued(const struct why_frame *frame, size_t render, int64_t handed_ns, int64_t to_ns);
/* For how long in [from_ns, to_ns) nothing is known of the thread. */
int64_t why_unseen(const struct why_thread *thread, int64_t from_ns, int64_t to_ns);
