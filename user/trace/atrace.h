/* SPDX-License-Identifier: BSD-2-Clause */
/* The text that Android writes to trace_marker (cutils/trace.h): B|pid|name, E|pid,
 * S|pid|name|cookie, F, G|pid|track|name|cookie, H, I, N, C|pid|name|value, trace_event_clock_sync.
 */
#pragma once
#include "jankscope/timeline.h"

/* Parse one marker; a trailing newline is ignored. tid and ts_ns of mark are left alone. False
 * where it is not one. */
bool atrace_parse(const char *text, size_t size, struct trace_mark *mark);

/* The number in a slice's name after its first word ("Choreographer#doFrame 123 extra"): the vsync
 * id. False where the next word is not a number. */
bool atrace_slice_id(const char *name, size_t size, size_t word, int64_t *id);
