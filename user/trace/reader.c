/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/reader.h"
#include "trace/ftrace_text.h"
#include "trace/systrace_html.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_reader {
	const struct trace_events *events;
	void *ctx;
	struct container *container;
	enum trace_format format;
	struct perfetto *perfetto;
	struct trace_text *text;
	struct systrace_html *html;
	unsigned members;
	uint64_t track_events, understood, ftrace;
	char error[200];
};

static int text_piece(void *ctx, const char *data, size_t size)
{
	struct trace_reader *reader = ctx;

	return trace_text_feed(reader->text, data, size);
}

static void note_error(struct trace_reader *reader, const char *error)
{
	if (error[0] && !reader->error[0])
		snprintf(reader->error, sizeof(reader->error), "%s", error);
}

static void drop_decoders(struct trace_reader *reader)
{
	perfetto_free(reader->perfetto);
	trace_text_free(reader->text);
	systrace_html_free(reader->html);
	reader->perfetto = NULL;
	reader->text = NULL;
	reader->html = NULL;
}

/* A bare trace begins: the file itself, or the next member of an archive. */
static int on_begin(void *ctx, enum trace_format format)
{
	struct trace_reader *reader = ctx;

	drop_decoders(reader);
	reader->format = format;
	reader->members++;
	switch (format) {
	case TRACE_FORMAT_PROTO:
		reader->perfetto = perfetto_new(reader->events, reader->ctx);
		return reader->perfetto ? 0 : -ENOMEM;
	case TRACE_FORMAT_HTML:
		reader->html = systrace_html_new(text_piece, reader);
		if (!reader->html)
			return -ENOMEM;
		/* fall through */
	case TRACE_FORMAT_TEXT:
		reader->text = trace_text_new(reader->events, reader->ctx);
		return reader->text ? 0 : -ENOMEM;
	case TRACE_FORMAT_UNKNOWN:
		break;
	}
	return -EBADMSG;
}

static int on_data(void *ctx, const uint8_t *data, size_t size)
{
	struct trace_reader *reader = ctx;
	int err;

	if (reader->perfetto) {
		err = perfetto_feed(reader->perfetto, data, size);
		/* it looks for the next whole packet by itself */
		return err == -EBADMSG ? 0 : err;
	}
	if (reader->html)
		return systrace_html_feed(reader->html, data, size);
	return trace_text_feed(reader->text, (const char *)data, size);
}

static int on_end(void *ctx)
{
	struct trace_reader *reader = ctx;

	if (reader->perfetto) {
		if (perfetto_finish(reader->perfetto)) {
			char line[120];

			snprintf(line, sizeof(line), "cut short inside the packet at byte %llu",
				 (unsigned long long)perfetto_packet_offset(reader->perfetto));
			note_error(reader, perfetto_error(reader->perfetto));
			note_error(reader, perfetto_unusable_line(reader->perfetto));
			note_error(reader, line);
		}
		note_error(reader, perfetto_error(reader->perfetto));
		note_error(reader, perfetto_unusable_line(reader->perfetto));
		reader->track_events += perfetto_track_events(reader->perfetto);
		reader->understood += perfetto_packets(reader->perfetto);
		reader->ftrace += perfetto_ftrace_bundles(reader->perfetto);
		return 0;
	}
	trace_text_finish(reader->text);
	reader->ftrace += trace_text_understood(reader->text);
	if (!trace_text_understood(reader->text))
		note_error(reader, reader->html ? "a page without a systrace in it"
						: "text, but no line of it is of a trace");
	reader->understood += trace_text_understood(reader->text);
	return 0;
}

struct trace_reader *trace_reader_new(const struct trace_events *events, void *ctx)
{
	static const struct container_ops ops = {on_begin, on_data, on_end};
	struct trace_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->events = events;
	reader->ctx = ctx;
	reader->container = container_new(&ops, reader);
	if (!reader->container) {
		free(reader);
		return NULL;
	}
	return reader;
}

void trace_reader_free(struct trace_reader *reader)
{
	if (!reader)
		return;
	drop_decoders(reader);
	container_free(reader->container);
	free(reader);
}

int trace_reader_feed(struct trace_reader *reader, const uint8_t *data, size_t size)
{
	int err = container_feed(reader->container, data, size);

	if (err)
		note_error(reader, container_error(reader->container));
	return err;
}

int trace_reader_finish(struct trace_reader *reader)
{
	int err = container_finish(reader->container);

	if (err)
		note_error(reader, container_error(reader->container));
	if (container_truncated(reader->container))
		note_error(reader, "cut short inside a compressed stream");
	if (err == -ENOMEM)
		return err;
	return reader->error[0] ? -EBADMSG : err;
}

bool trace_reader_found(const struct trace_reader *reader)
{
	return reader->understood > 0;
}

const char *trace_reader_error(const struct trace_reader *reader)
{
	return reader->error;
}

uint64_t trace_reader_track_events(const struct trace_reader *reader)
{
	return reader->track_events;
}

bool trace_reader_has_ftrace(const struct trace_reader *reader)
{
	return reader->ftrace > 0;
}

int64_t trace_reader_clock_error(const struct trace_reader *reader, int64_t from_ns, int64_t to_ns)
{
	return reader->perfetto ? perfetto_clock_error(reader->perfetto, from_ns, to_ns) : 0;
}

void trace_reader_seek(struct trace_reader *reader, uint64_t offset)
{
	if (reader->perfetto)
		perfetto_seek(reader->perfetto, offset);
}

const struct perfetto_block *trace_reader_blocks(const struct trace_reader *reader, size_t *count)
{
	*count = 0;
	if (!reader->perfetto || reader->members != 1 || !container_is_bare(reader->container))
		return NULL;
	return perfetto_blocks(reader->perfetto, count);
}
