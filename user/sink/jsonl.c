/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/jsonl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_write.h"
#include "sink/store_events.h"
#include "sink/writer.h"
#include "util/talk.h"

struct jsonl_sink {
	struct sink base;
	struct writer *writer;
	char *path;  /* NULL: stdout */
	bool folder; /* path is one of segments */
	/* Records that found no room in the queue and are not told yet. */
	uint64_t first_dropped, last_dropped, untold;
	bool told; /* its error */
	/* The error of the last sync that failed, negative; an event tells of it, if the disk takes
	 * one again. */
	int sync_error;
};

static const char *name_of(const struct jsonl_sink *jsonl)
{
	return jsonl->path ? jsonl->path : "stdout";
}

/* Say an error once; a reader that went away is none. */
static int tell(struct jsonl_sink *jsonl, int err)
{
	int torn = writer_torn(jsonl->writer);

	if (jsonl->told || !err || err == -EPIPE)
		return err;
	jsonl->told = true;
	if (torn)
		talk("warn: %s ends in a torn line: %s\n", name_of(jsonl), strerror(-torn));
	if (jsonl->folder && writer_unwritten(jsonl->writer)) {
		talk("error: cannot write %s: %s; %" PRIu64 " records could not be written\n",
		     name_of(jsonl), strerror(-err), writer_unwritten(jsonl->writer));
		return err;
	}
	talk("error: cannot write %s: %s; %" PRIu64 " bytes of whole records are kept\n",
	     name_of(jsonl), strerror(-err), writer_bytes(jsonl->writer));
	return err;
}

static int jsonl_write(struct sink *sink, const struct record *record)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;
	bool last = record->type == RECORD_FOOTER;
	size_t length, size = 0;
	char *room = writer_room(jsonl->writer, &size);
	char *line = record_to_line_in(room, size, record, &length);
	int err;

	if (!line)
		return -ENOMEM;
	err = writer_put(jsonl->writer, line, length, last);
	if (line != room)
		free(line);
	/* So that all outputs end at the same time. */
	if (last)
		writer_end(jsonl->writer);
	if (err != -EAGAIN)
		return tell(jsonl, err);
	sink->dropped++;
	if (!jsonl->untold++)
		jsonl->first_dropped = record->seq;
	jsonl->last_dropped = record->seq;
	return 0;
}

/* A file has room for no more than its lines: there the gap in seq and the counter tell of it. */
static void jsonl_events(struct sink *sink,
			 void (*emit)(void *ctx, const struct record_event *event), void *ctx)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;
	struct store_notice notice;
	struct record_event event;

	if (!jsonl->folder)
		return;
	while (writer_notice(jsonl->writer, &notice)) {
		sink->dropped += store_notice_lost(&notice);
		if (notice.kind == STORE_SYNC_FAILED)
			jsonl->sync_error = notice.error;
		store_event_make(&notice, &event);
		emit(ctx, &event);
	}
	if (!jsonl->untold)
		return;
	notice = (struct store_notice){.kind = STORE_DROPPED,
				       .has_seq = true,
				       .first_seq = jsonl->first_dropped,
				       .last_seq = jsonl->last_dropped,
				       .records = jsonl->untold};
	jsonl->untold = 0;
	store_event_make(&notice, &event);
	emit(ctx, &event);
}

static int jsonl_fd(const struct sink *sink)
{
	return writer_fd(((const struct jsonl_sink *)sink)->writer);
}

static int jsonl_check(struct sink *sink)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;

	return tell(jsonl, writer_error(jsonl->writer));
}

static void jsonl_hold(struct sink *sink, bool held)
{
	writer_hold(((struct jsonl_sink *)sink)->writer, held);
}

/* What the writer of a folder told behind the footer: no event of the recording can say it. */
static int tell_last(struct jsonl_sink *jsonl, int err)
{
	struct store_notice notice;
	int failed = err ? jsonl->sync_error : 0;

	while (jsonl->folder && writer_notice(jsonl->writer, &notice)) {
		jsonl->base.dropped += store_notice_lost(&notice);
		if (notice.kind == STORE_SYNC_FAILED)
			failed = notice.error;
	}
	jsonl->told |= failed && !err;
	if (failed)
		talk("error: %s: the last records may not be on the disk: %s\n", name_of(jsonl),
		     strerror(-failed));
	else if (!err && jsonl->folder && !writer_has_ended(jsonl->writer))
		talk("warn: %s: the disk has not confirmed the last records yet: a power cut could "
		     "cost them\n",
		     name_of(jsonl));
	return err ? err : failed;
}

static int jsonl_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;
	int err;

	writer_end(jsonl->writer);
	err = tell_last(jsonl, writer_wait(jsonl->writer, deadline_mono_ns));
	if (sink->dropped && err != -EPIPE)
		talk("warn: %s: %" PRIu64 " records were dropped: %s\n", name_of(jsonl),
		     sink->dropped,
		     jsonl->folder ? "its events tell which and why"
		     : jsonl->path ? "writing took too long"
				   : "stdout was not read");
	if (err != -ETIMEDOUT)
		return tell(jsonl, err);
	if (writer_unwritten(jsonl->writer))
		talk("error: cannot write %s: %s; %" PRIu64 " records could not be written\n",
		     name_of(jsonl), jsonl->path ? "it hangs" : "it is not read",
		     writer_unwritten(jsonl->writer));
	else
		talk("error: cannot close %s: it hangs; what was written may not be kept\n",
		     name_of(jsonl));
	return err;
}

static void jsonl_close(struct sink *sink)
{
	struct jsonl_sink *jsonl = (struct jsonl_sink *)sink;

	writer_free(jsonl->writer, false);
	free(jsonl->path);
	free(jsonl);
}

static const struct sink_ops jsonl_ops = {
	.name = "jsonl",
	.write = jsonl_write,
	.fd = jsonl_fd,
	.check = jsonl_check,
	.hold = jsonl_hold,
	.events = jsonl_events,
	.finish = jsonl_finish,
	.close = jsonl_close,
};

static struct sink *start(const struct writer_options *options, char *why, size_t why_size)
{
	struct jsonl_sink *jsonl = calloc(1, sizeof(*jsonl));
	int err;

	if (!jsonl)
		return NULL;
	jsonl->base.ops = &jsonl_ops;
	jsonl->base.keeps = true;
	jsonl->path = options->path ? strdup(options->path) : NULL;
	jsonl->folder = options->store;
	errno = ENOMEM;
	if (jsonl->path || !options->path)
		jsonl->writer = writer_start(options, why, why_size);
	if (!jsonl->writer) {
		err = errno;
		free(jsonl->path);
		free(jsonl);
		errno = err;
		return NULL;
	}
	jsonl->base.helper = writer_pid(jsonl->writer);
	return &jsonl->base;
}

struct sink *jsonl_sink_open(const char *path, bool overwrite, char *why, size_t why_size)
{
	const struct writer_options options = {
		.path = path, .overwrite = overwrite, .queue_bytes = WRITER_RECORD_BYTES};

	return start(&options, why, why_size);
}

struct sink *jsonl_sink_folder(const char *path, const struct store_options *store, char *why,
			       size_t why_size)
{
	const struct writer_options options = {
		.path = path, .store = store, .queue_bytes = WRITER_RECORD_BYTES};

	return start(&options, why, why_size);
}

struct sink *jsonl_sink_fd(int fd)
{
	const struct writer_options options = {.fd = fd, .queue_bytes = WRITER_RECORD_BYTES};
	char why[8];

	return start(&options, why, sizeof(why));
}
