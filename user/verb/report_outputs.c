/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink/csv.h"
#include "sink/openmetrics.h"
#include "sink/perfetto.h"
#include "sink/pprof.h"
#include "sink/speedscope.h"

static const struct kind {
	const char *flag;
	size_t path; /* in struct options */
	struct sink *(*open)(FILE *to);
	/* It is given blocks as report shows them, and not as they stand in the file. */
	bool of_shown_blocks;
} kinds[] = {
	{"--csv", offsetof(struct options, csv), csv_sink_new, false},
	{"--openmetrics", offsetof(struct options, openmetrics), openmetrics_sink_new, false},
	{"--perfetto", offsetof(struct options, perfetto), perfetto_sink_new, true},
	{"--pprof", offsetof(struct options, pprof), pprof_sink_new, true},
	{"--speedscope", offsetof(struct options, speedscope), speedscope_sink_new, true},
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

struct output {
	const struct kind *kind;
	const char *path;
	char *temporary; /* NULL: it is written to directly, as a pipe or a device is */
	FILE *file;
	struct sink *sink;
	int err;
};

struct report_outputs {
	struct output outputs[KINDS];
	size_t count;
};

/* Beside the file, so that a rename gives it its name. An error leaves errno. */
static FILE *open_temporary(struct output *output)
{
	FILE *file = NULL;
	int fd;

	if (asprintf(&output->temporary, "%s.XXXXXX", output->path) < 0) {
		output->temporary = NULL;
		return NULL;
	}
	fd = mkostemp(output->temporary, O_CLOEXEC);
	if (fd >= 0)
		file = fdopen(fd, "w");
	if (file)
		return file;
	if (fd >= 0) {
		close(fd);
		unlink(output->temporary);
	}
	free(output->temporary);
	output->temporary = NULL;
	return NULL;
}

static int open_output(struct output *output)
{
	struct stat status;

	if (!strcmp(output->path, "-"))
		output->file = stdout;
	else if (!stat(output->path, &status) && !S_ISREG(status.st_mode))
		output->file = fopen(output->path, "we");
	else
		output->file = open_temporary(output);
	if (!output->file)
		return -errno;
	output->sink = output->kind->open(output->file);
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
		const char *path =
			*(const char *const *)(const void *)((const char *)options + kinds[i].path);
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
	if (!err && fflush(output->file))
		err = -errno;
	if (output->file != stdout && fclose(output->file) && !err)
		err = -errno;
	output->file = NULL;
	if (!output->temporary)
		return err;
	if (!err && rename(output->temporary, output->path))
		err = -errno;
	if (err)
		unlink(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	return err;
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
		if (output->file && output->file != stdout)
			fclose(output->file);
		if (output->temporary)
			unlink(output->temporary);
		free(output->temporary);
	}
	free(outputs);
}
