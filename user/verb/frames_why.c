/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/fields.h"
#include "record/json_write.h"
#include "sink/line.h"
#include "verb/frames_print.h"
#include "why/line.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lines {
	FILE *out;
	const struct frames_report *report;
	struct why_totals totals;
	pid_t pid; /* of the line before */
	int width;
	bool begun, quiet;
};

static int put_line(void *ctx, const struct record_jank *jank)
{
	struct lines *lines = ctx;
	const char *app = jank->package ? jank->package : jank->process;
	struct line line = {.out = lines->out, .width = lines->width};
	char text[512], clean[512];
	/* as for the worst frames, and as Perfetto's UI has its slice */
	double at_s = ((double)jank->actual_start_ns - (double)lines->report->first_ns) / 1e9;

	why_totals_add(&lines->totals, jank);
	if (lines->quiet)
		return 0;
	if (!lines->begun || jank->pid != lines->pid)
		fprintf(lines->out, "\nlate frames of %s (pid %d)\n",
			text_clean(clean, sizeof(clean), app ? app : "unknown process"), jank->pid);
	lines->begun = true;
	lines->pid = jank->pid;
	line_put(&line, "LATE %9.3f s  ", at_s);
	line_put_words(&line, text_clean(clean, sizeof(clean), why_line(jank, text, sizeof(text))));
	if (jank->lost.count)
		line_put(&line, "; events were lost");
	line_end(&line);
	return 0;
}

static void note_losses(const struct frames_report *report)
{
	struct late_why_counts counts = late_why_counts(report->why);
	const struct trace_events *events = analysis_events();

	events->loss(report->analysis, "late_frames_over_limit", counts.frames_lost);
	events->loss(report->analysis, "sched_events_over_limit", counts.events_lost);
	events->loss(report->analysis, "thread_names_over_limit", counts.names_lost);
	events->loss(report->analysis, "sched_gaps", counts.gaps);
}

int frames_print_why(FILE *out, const struct frames_report *report)
{
	struct late_why_counts counts = late_why_counts(report->why);
	struct lines lines = {.out = out,
			      .report = report,
			      .width = frames_print_width(out),
			      .quiet = !counts.switches};
	struct line line = {.out = out, .width = lines.width};
	char text[512];
	int err = late_why_each(report->why, put_line, &lines);

	if (err)
		return err;
	counts = late_why_counts(report->why);
	putc('\n', out);
	line_put_words(&line, why_totals_line(&lines.totals, text, sizeof(text)));
	line_end(&line);
	if (lines.quiet && lines.totals.frames)
		fputs("    why is not known: the trace has no scheduler events (sched_switch)\n",
		      out);
	if (counts.frames_lost || counts.events_lost || counts.gaps)
		fprintf(out,
			"lost     %llu late frames and %llu scheduler events beyond the limit; "
			"%llu "
			"gaps in the trace\n",
			(unsigned long long)counts.frames_lost,
			(unsigned long long)counts.events_lost, (unsigned long long)counts.gaps);
	if (counts.names_lost)
		fprintf(out, "lost     names of threads, %llu times\n",
			(unsigned long long)counts.names_lost);
	return 0;
}

struct objects {
	FILE *out;
	bool begun;
};

static int put_object(void *ctx, const struct record_jank *jank)
{
	struct objects *objects = ctx;
	struct json_buffer b = {0};

	json_put_mark(&b, '{');
	json_put_fields(&b, record_types[RECORD_JANK], jank);
	json_put_mark(&b, '}');
	if (b.failed) {
		free(b.text);
		return -ENOMEM;
	}
	if (objects->begun)
		putc(',', objects->out);
	objects->begun = true;
	fwrite(b.text, 1, b.length, objects->out);
	free(b.text);
	return 0;
}

int frames_print_janks(FILE *out, const struct frames_report *report)
{
	struct objects objects = {.out = out};
	int err;

	fputs(",\"janks\":[", out);
	err = late_why_each(report->why, put_object, &objects);
	putc(']', out);
	note_losses(report);
	return err;
}
