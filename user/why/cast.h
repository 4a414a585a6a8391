/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of a frame's threads has which part in it. */
#pragma once
#include "why/judge.h"

/* The first thread of that role of which something is known in the window, else the first one of
 * that role, or WHY_NONE: the threads of a dead process are there a while, and its pid may be
 * another one's by then. The ledgers of the threads are those of the window. */
size_t why_thread_of(const struct why_frame *frame, enum jank_role role);
/* Whether anything is known of what the thread did in the window. */
bool why_is_known(const struct why_thread *thread);
/* The RenderThread that drew the frame, or WHY_NONE. A process may have several threads of that
 * name: a WebView's, one that ended amid the frame. The frame's is one that the main thread (its
 * index, or WHY_NONE) woke or that woke it in [from_ns, to_ns), and of those the one that had most
 * to do. The ledgers of the threads are those of the window. */
size_t why_renderer_of(const struct why_frame *frame, size_t main, int64_t from_ns, int64_t to_ns);
