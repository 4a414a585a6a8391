/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/paths.h"
#include "sink/table.h"
#include "sink/terminal.h"
#include "sink/text.h"
#include "source/recording.h"
#include "util/progress.h"
#include "verb/report_activity.h"
#include "verb/report_compare.h"
#include "verb/report_folded.h"
#include "verb/report_outputs.h"
#include "verb/report_rebuild.h"
#include "verb/report_rules.h"
#include "verb/report_selection.h"
#include "verb/report_stacks.h"
#include "verb/verb.h"

/* Damages of one file that are told one by one. */
#define MAX_TOLD 20

#define PATHS_BYTES (64u << 20) /* of all that the recordings have */

struct reading {
	const char *file;
	char segment[64]; /* "/00000001.jsonl" of a folder, else empty */
	struct paths *paths;
	struct report_stacks *stacks;
	struct sink *table; /* NULL: no summary was asked for */
	struct report_outputs *outputs;
	struct report_rules *rules;
	struct report_compare *compare;
	struct report_selection *selection;
	struct report_activity *activity; /* NULL: not asked for */
	/* It is read for `base`, or to be compared with: of the rest what shows is NULL. */
	bool is_base;
	struct report_rebuild *rebuild; /* of the run that is read; NULL: it has its footer */
	bool begun;                     /* a record came */
	struct progress progress;
	uint64_t damages;
};

static int show_block(struct reading *reading, const struct record_block *block)
{
	struct record_block shown;
	int err;

	if (!reading->paths)
		return 0;
	err = report_stacks_take(reading->stacks, block, &shown);
	if (!err && !reading->is_base)
		err = report_outputs_show(reading->outputs, &shown);
	return err ? err : paths_add(reading->paths, &shown);
}

static int print_footer(struct reading *reading, const struct record *record)
{
	struct record_footer footer = *record->footer;
	struct record shown = *record;
	int err = report_stacks_regroup(reading->stacks, &footer);

	shown.footer = &footer;
	return err ? err : reading->table->ops->write(reading->table, &shown);
}

/* A run that was not written to its end gets the footer that its records make. */
static int end_run(struct reading *reading)
{
	struct report_rebuild *rebuild = reading->rebuild;
	const struct record *footer;
	int err;

	reading->rebuild = NULL;
	if (!rebuild)
		return 0;
	footer = report_rebuild_footer(rebuild);
	err = footer ? report_rules_take(reading->rules, reading->file, footer, reading->is_base)
		     : -ENOMEM;
	if (!err)
		err = report_compare_footer(reading->compare, footer);
	if (!err && !reading->is_base)
		err = report_outputs_take(reading->outputs, footer);
	if (!err && reading->table) {
		if (!report_selection_any(reading->selection))
			printf("no summary: the recording was not written to its end; it has "
			       "%" PRIu64 " records. What they make:\n",
			       report_rebuild_records(rebuild));
		err = print_footer(reading, footer);
	}
	report_rebuild_free(rebuild);
	return err;
}

/* Until its footer comes nobody knows whether a run has one. */
static int follow_run(struct reading *reading, const struct record *record)
{
	bool first = !reading->begun;
	int err = 0;

	reading->begun = true;
	if (!reading->is_base && !reading->table && !report_outputs_any(reading->outputs) &&
	    !report_rules_any(reading->rules) && !report_compare_any(reading->compare))
		return 0;
	if (first || record->type == RECORD_HEADER) {
		err = end_run(reading);
		reading->rebuild = report_rebuild_new(report_selection_any(reading->selection));
		if (!reading->rebuild)
			err = -ENOMEM;
	}
	if (record->type == RECORD_FOOTER) {
		report_rebuild_free(reading->rebuild);
		reading->rebuild = NULL;
	}
	if (!err && reading->rebuild)
		err = report_rebuild_add(reading->rebuild, record);
	return err;
}

/* The head and the summary, as they stood on the screen of the run. */
static int print_record(void *ctx, const struct record *record)
{
	struct reading *reading = ctx;
	char name[4096], when[32] = "";
	time_t seconds;
	struct tm tm;
	int err = follow_run(reading, record);

	if (!err && record->type == RECORD_FOOTER)
		err = report_rules_take(reading->rules, reading->file, record, reading->is_base);
	if (!err && record->type == RECORD_FOOTER)
		err = report_compare_footer(reading->compare, record);
	else if (!err)
		err = report_compare_take(reading->compare, record);
	if (!err && !reading->is_base)
		err = report_outputs_take(reading->outputs, record);
	if (err)
		return err;
	if (!reading->table || (record->type != RECORD_HEADER && record->type != RECORD_FOOTER))
		return 0;
	if (record->type == RECORD_FOOTER)
		return print_footer(reading, record);
	seconds = (time_t)(record->header->clock.unix_ns / 1000000000u);
	if (seconds && gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), ", %Y-%m-%d %H:%M:%SZ", &tm);
	printf("%s%s\n", text_clean(name, sizeof(name), reading->file), when);
	return reading->table->ops->write(reading->table, record);
}

static int skip_interval(void *ctx, uint64_t end_boot_ns)
{
	struct reading *reading = ctx;

	if (reading->rebuild)
		report_rebuild_skip(reading->rebuild, end_boot_ns);
	return 0;
}

static int select_record(void *ctx, const struct record *record)
{
	struct reading *reading = ctx;
	const struct selection_output output = {print_record, skip_interval, ctx};

	return report_selection_take(reading->selection, record, &output);
}

static int take_record(void *ctx, const struct record *record)
{
	struct reading *reading = ctx;
	int err;

	progress_add(&reading->progress, 1);
	if (record->type == RECORD_FOOTER || record->type == RECORD_HEADER)
		progress_clear(&reading->progress); /* a summary may follow */
	if (!report_selection_any(reading->selection))
		return print_record(ctx, record);
	/* The run before it, with what was selected of it, ends here. */
	err = record->type == RECORD_HEADER ? end_run(reading) : 0;
	if (!err && reading->activity)
		err = report_activity_take(reading->activity, record, select_record, ctx);
	return err ? err : select_record(ctx, record);
}

static int take_block(void *ctx, const struct record_block *block)
{
	struct reading *reading = ctx;
	const struct selection_output output = {print_record, skip_interval, ctx};
	bool in = true;
	int err = 0;

	if (report_selection_any(reading->selection))
		err = report_selection_take_block(reading->selection, block, &in, &output);
	return err || !in ? err : show_block(reading, block);
}

static void tell_damage(void *ctx, uint64_t line, const char *what)
{
	struct reading *reading = ctx;
	char text[256];

	progress_clear(&reading->progress);
	/* The keys in it are the file's. */
	if (reading->damages++ < MAX_TOLD)
		fprintf(stderr, "jankscope: warn: %s%s:%" PRIu64 ": %s\n", reading->file,
			reading->segment, line, text_clean(text, sizeof(text), what));
}

static void name_segment(void *ctx, const char *name)
{
	struct reading *reading = ctx;
	size_t length = strlen(reading->file);

	snprintf(reading->segment, sizeof(reading->segment), "%s%s",
		 length && reading->file[length - 1] == '/' ? "" : "/", name);
}

/* to: what is done with each recording. */
static enum exit_code read_recording(const char *file, const struct reading *to)
{
	struct reading reading = *to;
	const struct recording_reader reader = {.block = take_block,
						.damage = tell_damage,
						.segment = name_segment,
						.record = take_record,
						.ctx = &reading};
	struct recording_counts counts = {0};
	int err = report_stacks_begin(to->stacks);
	char name[256];

	reading.file = file;
	if (!err && to->activity)
		err = report_activity_begin(to->activity, file);
	if (err == -ENODATA) {
		fprintf(stderr,
			"jankscope: error: %s: no activity had the focus in it; record with "
			"--frames live, or --frames perfetto --startup, on Android 13 or later\n",
			file);
		return EXIT_NO_TARGET;
	}
	progress_begin(&reading.progress, STDERR_FILENO, text_clean(name, sizeof(name), file),
		       "records");
	report_selection_begin(to->selection);
	if (!err)
		err = report_compare_begin(to->compare, to->is_base);
	if (!err)
		err = recording_read(file, &reader, &counts);
	progress_clear(&reading.progress);
	if (!err)
		err = end_run(&reading);
	report_rebuild_free(reading.rebuild);
	if (reading.damages > MAX_TOLD)
		fprintf(stderr, "jankscope: warn: %s: %" PRIu64 " more damages\n", file,
			reading.damages - MAX_TOLD);
	if (err == -EPROTONOSUPPORT) {
		fprintf(stderr,
			"jankscope: error: %s: schema %" PRId64
			": this jankscope reads %d at the most; use a newer one\n",
			file, counts.schema, RECORD_SCHEMA);
		return EXIT_UNSUPPORTED;
	}
	if (err == -ENODATA) {
		fprintf(stderr,
			"jankscope: error: %s: its clock was not set, so no wall time is known of "
			"it; "
			"use --since and --until with +10m or boot:\n",
			file);
		return EXIT_USAGE;
	}
	if (err == -EPIPE || err == -ECANCELED)
		return EXIT_FINE;
	if (err) {
		fprintf(stderr, "jankscope: error: %s: %s\n", file,
			err == -EBADMSG ? "not a recording" : strerror(-err));
		return err == -EBADMSG ? EXIT_USAGE : EXIT_INTERNAL;
	}
	if (report_selection_any(to->selection) && report_selection_end(to->selection, file))
		return EXIT_NO_TARGET;
	return counts.damages ? EXIT_INCOMPLETE : EXIT_FINE;
}

enum exit_code verb_report(const struct options *options)
{
	const struct table_options table_options = {
		.width = terminal_width(STDOUT_FILENO),
		.colour =
			terminal_has_colours(STDOUT_FILENO, (enum terminal_colour)options->colour),
		.ascii = isatty(STDOUT_FILENO) && !terminal_has_utf8(),
		.wall_clock = true,
		.verbose = options->verbose,
		.top = 15,
	};
	enum exit_code code = EXIT_FINE, one;
	struct report_outputs *outputs = NULL;
	struct report_rules *rules = NULL;
	struct report_compare *compare = NULL;
	struct report_selection *selection = NULL;
	struct report_activity *activity = NULL;
	struct report_stacks *stacks;
	struct sink *table = NULL;
	struct paths *paths = NULL, *old_paths = NULL;
	struct reading to;

	if (!options->argument_count) {
		fprintf(stderr, "jankscope: error: report: name a recording; see jankscope report "
				"--help\n");
		return EXIT_USAGE;
	}
	stacks = report_stacks_new(options, &code);
	if (!stacks)
		return code;
	rules = report_rules_new(options, &code);
	if (!rules)
		goto out;
	compare = report_compare_new(options, report_rules_compare(rules), &code);
	if (!compare)
		goto out;
	selection = report_selection_new(options, &code);
	if (!selection)
		goto out;
	outputs = report_outputs_new(options, &code);
	if (!outputs)
		goto out;
	if (options->by_activity) {
		activity = report_activity_new();
		if (!activity) {
			fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
			code = EXIT_INTERNAL;
			goto out;
		}
	}
	/* With an output that is named the summary is not asked for, nor beside a comparison. */
	if (!options->folded && !report_outputs_any(outputs) && !report_compare_any(compare)) {
		table = table_sink_new(stdout, &table_options);
		if (!table) {
			fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
			code = EXIT_INTERNAL;
			goto out;
		}
	}
	paths = paths_new();
	old_paths = paths ? paths_new() : NULL;
	if (!old_paths) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
		code = EXIT_INTERNAL;
		goto out;
	}
	paths_limit(paths, PATHS_BYTES);
	paths_limit(old_paths, PATHS_BYTES);
	to = (struct reading){.paths = options->folded && report_compare_any(compare) ? old_paths
										      : NULL,
			      .stacks = stacks,
			      .rules = rules,
			      .compare = compare,
			      .selection = selection,
			      .activity = activity,
			      .is_base = true};
	for (size_t i = 0; i < options->baselines.count; i++) {
		one = read_recording(options->baselines.items[i], &to);
		if (one && one != EXIT_INCOMPLETE) {
			code = one;
			goto out;
		}
		if (one)
			code = one;
	}
	to = (struct reading){.paths = paths,
			      .stacks = stacks,
			      .table = table,
			      .outputs = outputs,
			      .rules = rules,
			      .compare = compare,
			      .selection = selection,
			      .activity = activity};
	for (int i = 0; i < options->argument_count; i++) {
		if (i && table)
			putchar('\n');
		one = read_recording(options->arguments[i], &to);
		if (one && one != EXIT_INCOMPLETE) {
			code = one;
			goto out;
		}
		if (one)
			code = one;
	}
	if (paths_dropped_ns(paths))
		fprintf(stderr,
			"jankscope: warn: report: too many paths; %" PRIu64 " ms are left out\n",
			paths_dropped_ns(paths) / 1000000);
	report_stacks_tell(stacks, options);
	one = options->folded ? report_folded_write(report_compare_any(compare) ? old_paths : NULL,
						    paths, options->folded)
			      : EXIT_FINE;
	code = one ? one : code;
	one = report_outputs_end(outputs);
	code = one ? one : code;
	/* Where a file was asked for the table is not. */
	if (!one && !options->folded && !report_outputs_any(outputs))
		one = report_compare_end(compare, stdout);
	code = one ? one : code;
	if (report_rules_judge_compare(rules, compare, options)) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
		code = EXIT_INTERNAL;
		goto out;
	}
	one = report_rules_end(rules);
	/* What a rule says counts for more than that something is missing. */
	code = one == EXIT_RULE || !code ? one : code;
out:
	if (table)
		table->ops->close(table);
	report_outputs_free(outputs);
	report_rules_free(rules);
	report_compare_free(compare);
	report_selection_free(selection);
	report_activity_free(activity);
	paths_free(paths);
	paths_free(old_paths);
	report_stacks_free(stacks);
	return code;
}
