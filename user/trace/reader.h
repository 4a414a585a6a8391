/* SPDX-License-Identifier: BSD-2-Clause */
/* Any trace file, pushed in piece by piece, into events: takes the wrapping off, tells the format
 * and decodes it. */
#pragma once
#include "jankscope/timeline.h"
#include "trace/container.h"
#include "trace/perfetto.h"

struct trace_reader;

/* NULL with errno on failure. The events must outlive the reader. */
struct trace_reader *trace_reader_new(const struct trace_events *events, void *ctx);
void trace_reader_free(struct trace_reader *reader);

/* 0 as long as it makes sense to go on; a negative errno when not. Damage that can be skipped is
 * not an error here. */
int trace_reader_feed(struct trace_reader *reader, const uint8_t *data, size_t size);
/* The file ends. 0; -EBADMSG: damaged or not a trace (trace_reader_error says what and where). */
int trace_reader_finish(struct trace_reader *reader);

/* Something of a trace was found, so that there is something to report. */
bool trace_reader_found(const struct trace_reader *reader);
const char *trace_reader_error(const struct trace_reader *reader);
/* Track events that are not decoded: atrace may have been sent there instead of ftrace. */
uint64_t trace_reader_track_events(const struct trace_reader *reader);

/* The trace has markers or scheduler events (or is text, which may). */
bool trace_reader_has_ftrace(const struct trace_reader *reader);
/* By how much times in [from_ns, to_ns] that another clock than the trace's told may be wrong; 0:
 * nothing says that they are. */
int64_t trace_reader_clock_error(const struct trace_reader *reader, int64_t from_ns, int64_t to_ns);
/* A second pass over the same file goes on at this offset of a bare trace. */
void trace_reader_seek(struct trace_reader *reader, uint64_t offset);
/* Stretches of the file for a second pass, NULL where offsets mean nothing (compressed, text). */
const struct perfetto_block *trace_reader_blocks(const struct trace_reader *reader, size_t *count);
