/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/frames.h"
#include "frames/analysis.h"
#include "frames/row_order.h"
#include "sink/text.h"
#include "trace/reader.h"
#include "util/progress.h"
#include "verb/frames_print.h"
#include "verb/verb.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES  (128 * 1024) /* stays in the nearer caches */
#define WORST_COUNT 10

struct run {
	const struct frames_request *request;
	const char *path;
	FILE *out;
	int fd, out_errno; /* out_errno: why out could not be written, 0: it could */
	uint8_t *buffer;
	struct analysis *analysis;
	struct late_why *why; /* NULL: nobody asks */
	struct row_order *rows;
	bool begun; /* the JSON object or the table of rows was begun */
	uint64_t row_count;
	struct progress progress;
};

static void begin_rows(struct run *run)
{
	if (run->begun)
		return;
	run->begun = true;
	if (run->request->json)
		fputs("{\"frames\":[", run->out);
	else
		frames_print_row_header(run->out);
}

static void emit_row(void *ctx, const struct timeline_row *row)
{
	struct run *run = ctx;

	if (!analysis_wants_row(run->analysis, row))
		return;
	begin_rows(run);
	run->row_count++;
	if (!run->request->json) {
		frames_print_row_text(run->out, run->analysis, row);
		return;
	}
	if (run->row_count > 1)
		putc(',', run->out);
	frames_print_row_json(run->out, run->analysis, row);
}

static void on_row(void *ctx, const struct timeline_row *row)
{
	struct run *run = ctx;

	row_order_add(run->rows, row);
}

/* Read the rest of a stretch of the file into a reader. 0 or a negative errno. */
static int feed(struct run *run, struct trace_reader *reader, uint64_t limit)
{
	while (limit) {
		size_t want = limit < READ_BYTES ? (size_t)limit : READ_BYTES;
		ssize_t n = read(run->fd, run->buffer, want);
		int err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		limit -= (uint64_t)n;
		progress_add(&run->progress, (uint64_t)n);
		err = trace_reader_feed(reader, run->buffer, (size_t)n);
		if (err)
			return err == -EBADMSG || err == -EFBIG ? 0 : err;
	}
	return 0;
}

/* The second pass: what the threads of the worst frames did. Only stretches near them are read
 * again where the trace is bare. */
static int explain(struct run *run, const struct trace_reader *first)
{
	size_t worst_count, block_count;
	struct worst_frame *worst = analysis_worst(run->analysis, &worst_count);
	const struct perfetto_block *blocks = trace_reader_blocks(first, &block_count);
	struct late_frame frames[ANALYSIS_MAX_WORST];
	struct trace_reader *reader = NULL;
	struct late *late;
	int err = 0;

	if (!worst_count || !trace_reader_has_ftrace(first))
		return 0;
	if (lseek(run->fd, 0, SEEK_SET) < 0) {
		fprintf(stderr,
			"jankscope: info: %s: a pipe is read once: what the threads did in the "
			"worst frames is left out\n",
			run->path);
		return 0;
	}
	for (size_t i = 0; i < worst_count; i++)
		frames[i] = worst[i].late;
	late = late_new(frames, worst_count);
	reader = late ? trace_reader_new(late_events(), late) : NULL;
	if (!reader) {
		late_free(late);
		return -ENOMEM;
	}
	if (!blocks)
		err = feed(run, reader, UINT64_MAX);
	for (size_t i = 0; i < block_count && !err; i++) {
		/* the first stretch tells the reader what the file is */
		if (i && !late_wants(late, blocks[i].first_ns, blocks[i].last_ns))
			continue;
		if (lseek(run->fd, (off_t)blocks[i].offset, SEEK_SET) < 0)
			break;
		trace_reader_seek(reader, blocks[i].offset);
		err = feed(run, reader, blocks[i].size);
	}
	trace_reader_finish(reader);
	if (!err)
		err = late_finish(late);
	for (size_t i = 0; i < worst_count && !err; i++)
		worst[i].late = frames[i];
	trace_reader_free(reader);
	late_free(late);
	return err;
}

/* One more pass: what the scheduler did to the threads of all late frames. From the beginning of
 * the file, because a thread may have slept since then, to the last late frame. */
static int ask_why(struct run *run, const struct trace_reader *first)
{
	size_t block_count;
	const struct perfetto_block *blocks = trace_reader_blocks(first, &block_count);
	struct trace_reader *reader;
	int err = late_why_plan(run->why, run->analysis, first);

	if (err || !late_why_count(run->why) || !trace_reader_has_ftrace(first))
		return err ? err : late_why_finish(run->why);
	if (lseek(run->fd, 0, SEEK_SET) < 0)
		return -ESPIPE;
	reader = trace_reader_new(late_why_events(), run->why);
	if (!reader)
		return -ENOMEM;
	if (!blocks)
		err = feed(run, reader, UINT64_MAX);
	for (size_t i = 0; i < block_count && !err; i++) {
		/* a stretch without such events has a span that ends before it begins */
		if (i && !blocks[i].clocks &&
		    (blocks[i].first_ns > blocks[i].last_ns ||
		     !late_why_wants(run->why, blocks[i].first_ns)))
			continue;
		if (lseek(run->fd, (off_t)blocks[i].offset, SEEK_SET) < 0)
			err = -errno;
		trace_reader_seek(reader, blocks[i].offset);
		if (!err)
			err = feed(run, reader, blocks[i].size);
	}
	trace_reader_finish(reader);
	trace_reader_free(reader);
	return err ? err : late_why_finish(run->why);
}

static int print(struct run *run, const struct frames_report *report)
{
	int err = 0;

	if (run->rows)
		row_order_flush(run->rows);
	if (run->request->json) {
		if (run->request->rows) {
			begin_rows(run);
			fputs("],", run->out);
		} else {
			putc('{', run->out);
		}
		err = frames_print_json(run->out, report);
		fputs("}\n", run->out);
	} else if (run->request->rows) {
		begin_rows(run);
	} else {
		err = frames_print_table(run->out, report);
		if (!err && report->why)
			err = frames_print_why(run->out, report);
	}
	if (fflush(run->out) || ferror(run->out)) {
		run->out_errno = errno ? errno : EIO;
		err = err ? err : -run->out_errno;
	}
	return err;
}

/* When the trace begins: by all its packets where it was read in stretches. */
static int64_t first_of(const struct run *run, const struct trace_reader *reader)
{
	size_t count;
	const struct perfetto_block *blocks = trace_reader_blocks(reader, &count);
	int64_t first_ns = analysis_first_ns(run->analysis);

	for (size_t i = 0; blocks && i < count; i++) {
		if (blocks[i].first_ns > 0 && blocks[i].first_ns < first_ns)
			first_ns = blocks[i].first_ns;
	}
	return first_ns;
}

/* Nobody drew anything: a gate that asks for frames must not stay green. */
static bool nothing_drawn(const struct run *run)
{
	size_t count, gfx_count;
	const struct gfx_summary *gfx = analysis_gfx(run->analysis, &gfx_count);

	analysis_layers(run->analysis, &count);
	if (count || run->row_count || analysis_left_out(run->analysis) ||
	    analysis_counts(run->analysis)->actual)
		return false;
	for (size_t i = 0; i < gfx_count; i++) {
		if (gfx[i].counters[GFX_TOTAL] > 0)
			return false;
	}
	fprintf(stderr, "jankscope: error: %s: nothing was drawn in it\n", run->path);
	return true;
}

/* The trace has layers, but none that was asked for. */
static bool nothing_wanted(const struct run *run)
{
	const struct frames_request *request = run->request;
	size_t count;

	analysis_layers(run->analysis, &count);
	if (count || run->row_count || !analysis_left_out(run->analysis))
		return false;
	fprintf(stderr, "jankscope: error: %s: none of its %zu layers is", run->path,
		analysis_left_out(run->analysis));
	if (request->layer_glob)
		fprintf(stderr, " called %s", request->layer_glob);
	if (request->package)
		fprintf(stderr, "%s of package %s", request->layer_glob ? " and" : "",
			request->package);
	fputc('\n', stderr);
	return true;
}

/* Names first, where rows are picked by package. A pipe is read only once: there the names that
 * come before a row have to do. */
static int read_names(struct run *run)
{
	struct trace_reader *reader;
	int err;

	if (!run->request->package || lseek(run->fd, 0, SEEK_CUR) < 0)
		return 0;
	reader = trace_reader_new(analysis_name_events(), run->analysis);
	if (!reader)
		return -ENOMEM;
	err = feed(run, reader, UINT64_MAX);
	trace_reader_free(reader);
	if (!err && lseek(run->fd, 0, SEEK_SET) < 0)
		err = -errno;
	return err;
}

/* Frames were late and nothing tells why: a gate that asks why must not stay green. */
static bool nothing_scheduled(const struct run *run)
{
	if (!run->why || !late_why_count(run->why) || late_why_counts(run->why).switches)
		return false;
	fprintf(stderr,
		"jankscope: error: %s: %zu frames were late; why is not known, because the trace "
		"has no scheduler events (sched_switch)\n",
		run->path, late_why_count(run->why));
	return true;
}

static int read_and_print(struct run *run)
{
	struct trace_reader *reader = trace_reader_new(
		run->why ? analysis_thread_events() : analysis_events(), run->analysis);
	struct frames_report report = {.trace = run->path, .analysis = run->analysis};
	int code = EXIT_INTERNAL, err, damage;
	char name[256];

	/* Rows are printed as they are read. */
	progress_begin(&run->progress, run->request->rows ? -1 : STDERR_FILENO,
		       text_clean(name, sizeof(name), run->path), "bytes");
	if (!reader) {
		fprintf(stderr, "jankscope: error: %s: out of memory\n", run->path);
		return EXIT_INTERNAL;
	}
	err = read_names(run);
	if (!err)
		err = feed(run, reader, UINT64_MAX);
	damage = trace_reader_finish(reader);
	progress_clear(&run->progress);
	if (err || damage == -ENOMEM) {
		fprintf(stderr, "jankscope: error: %s: %s\n", run->path,
			strerror(err ? -err : ENOMEM));
		goto out;
	}
	if (!trace_reader_found(reader)) {
		fprintf(stderr, "jankscope: error: %s: %s\n", run->path,
			damage ? trace_reader_error(reader) : "not a trace");
		goto out;
	}
	if (damage) {
		fprintf(stderr, "jankscope: warn: %s: %s; what is readable is reported\n",
			run->path, trace_reader_error(reader));
		report.error = trace_reader_error(reader);
	}
	err = analysis_finish(run->analysis);
	if (!err && !(run->request->rows && !run->request->json))
		err = explain(run, reader);
	if (!err && run->why)
		err = ask_why(run, reader);
	progress_clear(&run->progress);
	report.why = run->why;
	report.first_ns = first_of(run, reader);
	if (!err)
		err = print(run, &report);
	if (err) {
		if (err == -EPIPE || run->out_errno == EPIPE)
			code = EXIT_FINE;
		else
			fprintf(stderr, "jankscope: error: %s: %s\n",
				run->out_errno ? "stdout" : run->path, strerror(-err));
		goto out;
	}
	if (trace_reader_track_events(reader) && !analysis_slices(run->analysis)->do_frames &&
	    !analysis_counts(run->analysis)->actual)
		fprintf(stderr,
			"jankscope: warn: %s: has track events (atrace through the SDK); they are "
			"not decoded\n",
			run->path);
	if (analysis_counts(run->analysis)->layers_lost) {
		fprintf(stderr, "jankscope: warn: %s: more than %d layers; the rest was left out\n",
			run->path, ANALYSIS_MAX_LAYERS);
		damage = -EFBIG;
	}
	code = damage ? EXIT_INCOMPLETE : EXIT_FINE;
	/* of a trace that is damaged what is missing may have been drawn */
	if (nothing_wanted(run) || (!damage && nothing_drawn(run)) || nothing_scheduled(run))
		code = EXIT_NO_TARGET;
out:
	trace_reader_free(reader);
	return code;
}

int frames_report_file(const struct frames_request *request, const char *path, FILE *out)
{
	struct run run = {.request = request, .path = path, .out = out, .fd = -1};
	struct analysis_options options = {
		.layer_glob = request->layer_glob,
		.package = request->package,
		.worst = WORST_COUNT,
	};
	int code = EXIT_INTERNAL;

	run.fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	if (run.fd < 0) {
		fprintf(stderr, "jankscope: error: %s: %s\n", path, strerror(errno));
		return EXIT_INTERNAL;
	}
	if (request->rows) {
		options.row = on_row;
		options.row_ctx = &run;
		run.rows = row_order_new(emit_row, &run);
	}
	if (request->why) {
		if (lseek(run.fd, 0, SEEK_CUR) < 0) {
			fprintf(stderr,
				"jankscope: error: %s: a pipe is read once, and --why reads a "
				"trace "
				"twice\n",
				path);
			close(run.fd);
			return EXIT_UNSUPPORTED;
		}
		run.why = late_why_new();
		options.late = late_why_frame;
		options.late_ctx = run.why;
		options.threads = run.why ? late_why_threads(run.why) : NULL;
	}
	run.buffer = malloc(READ_BYTES);
	run.analysis = analysis_new(&options);
	if (!run.buffer || !run.analysis || (request->rows && !run.rows) ||
	    (request->why && !run.why))
		fprintf(stderr, "jankscope: error: %s: out of memory\n", path);
	else
		code = read_and_print(&run);
	late_why_free(run.why);
	analysis_free(run.analysis);
	row_order_free(run.rows);
	free(run.buffer);
	close(run.fd);
	return code;
}

enum exit_code verb_frames(const struct options *options)
{
	struct frames_request request = {
		.layer_glob = options->layer,
		.package = options->package,
		.json = options->json,
		.rows = options->rows,
		.why = options->why,
	};
	int code = EXIT_FINE;

	if (!options->argument_count) {
		fprintf(stderr,
			"jankscope: error: frames: name a trace; see jankscope frames --help\n");
		return EXIT_USAGE;
	}
	if (options->why && options->rows && !options->json) {
		fprintf(stderr, "jankscope: error: frames: --why with --rows needs --json\n");
		return EXIT_USAGE;
	}
	for (int i = 0; i < options->argument_count; i++) {
		int one = frames_report_file(&request, options->arguments[i], stdout);

		/* an unreadable file outweighs an incomplete one */
		if (code != EXIT_INTERNAL && one != EXIT_FINE)
			code = one;
		if (i + 1 < options->argument_count && !options->json)
			putchar('\n');
	}
	return (enum exit_code)code;
}
