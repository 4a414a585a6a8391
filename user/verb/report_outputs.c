/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_outputs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/csv.h"
#include "sink/hourly.h"
#include "sink/html.h"
#include "sink/openmetrics.h"
#include "sink/perfetto.h"
#include "sink/pprof.h"
#include "sink/speedscope.h"
#include "util/new_file.h"

static const struct kind {
	const char *flag;
	size_t path; /* in struct options; is_flag: a bool, and the output is stdout */
	struct sink *(*open)(FILE *to);
	/* It is given blocks as report shows them, and not as they stand in the file. */
	bool of_shown_blocks, is_flag;
} kinds[] = {
	{"--csv", offsetof(struct options, csv), csv_sink_new, false},
	{"--html", offsetof(struct options, html), html_sink_new, true},
	{"--hourly", offsetof(struct options, hourly), hourly_sink_new, true, true},
	{"--openmetrics", offsetof(struct options, openmetrics), openmetrics_sink_new, false},
	{"--perfetto", offsetof(struct options, perfetto), perfetto_sink_new, true},
	{"--pprof", offsetof(struct options, pprof), pprof_sink_new, true},
	{"--speedscope", offsetof(struct options, speedscope), speedscope_sink_new, true},
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

struct output {
	const struct kind *kind;
	const char *path;
	struct new_file file;
	struct sink *sink;
	int err;
};

struct report_outputs {
	struct output outputs[KINDS];
	size_t count;
};

static int open_output(struct output *output)
{
	int err = new_file_open(&output->file, output->path);

	if (err)
		return err;
	output->sink = output->kind->open(output->file.stream);
	return output->sink ? 0 : -ENOMEM;
}

static void tell(const struct output *output, int err)
{
	fprintf(stderr, "jankscope: error: %s %s: %s\n", output->kind->flag, output->path,
		strerror(-err));
}

struct report_outputs *report_outputs_new(const struct options *options, enum exit_code *code)
{
	struct report_outputs *outputs = calloc(1, sizeof(*outputs));

	*code = outputs ? EXIT_FINE : EXIT_INTERNAL;
	if (!outputs)
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
	for (size_t i = 0; i < KINDS && !*code; i++) {
		const void *place = (const char *)options + kinds[i].path;
		const char *path = !kinds[i].is_flag      ? *(const char *const *)place
				   : *(const bool *)place ? "-"
							  : NULL;
		struct output *output = &outputs->outputs[outputs->count];
		int err;

		if (!path)
			continue;
		output->kind = &kinds[i];
		output->path = path;
		outputs->count++;
		err = open_output(output);
		if (!err)
			continue;
		tell(output, err);
		*code = EXIT_INTERNAL;
	}
	if (!*code)
		return outputs;
	report_outputs_free(outputs);
	return NULL;
}

bool report_outputs_any(const struct report_outputs *outputs)
{
	return outputs->count;
}

static int take(struct report_outputs *outputs, const struct record *record, bool shown)
{
	for (size_t i = 0; i < outputs->count; i++) {
		struct output *output = &outputs->outputs[i];

		if (record->type == RECORD_BLOCK && output->kind->of_shown_blocks != shown)
			continue;
		if (!output->err)
			output->err = output->sink->ops->write(output->sink, record);
		/* A disk that is full, or a pipe that nobody reads, ends the work of all. */
		if (output->err)
			return -ECANCELED;
	}
	return 0;
}

int report_outputs_take(struct report_outputs *outputs, const struct record *record)
{
	return take(outputs, record, false);
}

int report_outputs_show(struct report_outputs *outputs, const struct record_block *block)
{
	const struct record record = {
		.type = RECORD_BLOCK, .t_boot_ns = block->start_boot_ns, .block = block};

	return take(outputs, &record, true);
}

/* 0 or -errno. */
static int end_output(struct output *output)
{
	int err = output->err;

	if (!err && output->sink->ops->finish)
		err = output->sink->ops->finish(output->sink, 0);
	return new_file_end(&output->file, err);
}

enum exit_code report_outputs_end(struct report_outputs *outputs)
{
	enum exit_code code = EXIT_FINE;

	for (size_t i = 0; i < outputs->count; i++) {
		struct output *output = &outputs->outputs[i];
		int err = end_output(output);

		if (output->sink->dropped)
			fprintf(stderr,
				"jankscope: warn: %s %s: too much for one file; %" PRIu64
				" records are not whole in it\n",
				output->kind->flag, output->path, output->sink->dropped);
		if (!err || err == -EPIPE)
			continue;
		tell(output, err);
		code = EXIT_INTERNAL;
	}
	return code;
}

void report_outputs_free(struct report_outputs *outputs)
{
	if (!outputs)
		return;
	for (size_t i = 0; i < outputs->count; i++) {
		struct output *output = &outputs->outputs[i];

		if (output->sink)
			output->sink->ops->close(output->sink);
		new_file_end(&output->file, -ECANCELED);
	}
	free(outputs);
}
