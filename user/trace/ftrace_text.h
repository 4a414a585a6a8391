/* SPDX-License-Identifier: BSD-2-Clause */
/* Traces as text, pushed in piece by piece: what the kernel's `trace` file, atrace and systrace
 * print, with the process dumps that systrace adds; and, told by their own lines, the outputs of
 * `dumpsys SurfaceFlinger --latency` and `dumpsys gfxinfo PACKAGE framestats`. */
#pragma once
#include "jankscope/timeline.h"

struct trace_text;

/* NULL with errno on failure. */
struct trace_text *trace_text_new(const struct trace_events *events, void *ctx);
void trace_text_free(struct trace_text *text);
/* 0 or -ENOMEM. Lines that mean nothing are counted, not errors. */
int trace_text_feed(struct trace_text *text, const char *data, size_t size);
/* The text ends here; its last line may lack the newline. */
int trace_text_finish(struct trace_text *text);

/* Lines that were understood. A text without any is not a trace. */
uint64_t trace_text_understood(const struct trace_text *text);

/* One line of ftrace's text form. */
struct ftrace_line {
	const char *comm, *event, *payload;
	size_t comm_size, event_size, payload_size;
	int32_t tid, tgid, cpu; /* tgid -1: not printed */
	int64_t ts_ns;
	bool interrupt; /* written in an interrupt, by its flags */
};

/* Parse a line without its newline. False where it is not of that form. */
bool ftrace_line_parse(const char *line, size_t size, struct ftrace_line *out);
/* The number that is all of [from, to), at most 18 digits. */
bool ftrace_digits(const char *from, const char *to, int64_t *value);
