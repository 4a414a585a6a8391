/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_read.h"
#include "record/json_write.h"
#include "sink/text.h"
#include "summary/scenes.h"
#include "verb/report_target.h"
#include "verb/report_time.h"

/* Scenes that are followed; later ones that are open at the begin of the selection begin nowhere
 * in it. */
#define OPEN_SCENES 1024

struct period {
	uint64_t begin_ns, end_ns; /* the newest has no end while it is open */
};

struct open_scene {
	char name[SCENE_NAME + 1];
	uint64_t begin_ns;
	bool told; /* its begin was handed on */
};

/* What was in, in part in, and out. */
struct count {
	uint64_t in, part, out;
};

struct report_selection {
	struct moment since, until;
	const char *scene; /* NULL: all */
	struct report_target *target;
	struct header_target *shown_targets;
	size_t target_count;
	bool time;   /* since, until or scene */
	bool remade; /* all is in, and the summary is made anew */
	/* of the recording */
	bool has_origin;
	struct moment_origin origin;
	uint64_t from_unix_ns; /* where --since has been found: --until is looked for behind it */
	struct count intervals, blocks;
	uint64_t first_boot_ns, last_boot_ns; /* of the last run's intervals */
	uint64_t scene_times;
	bool target_seen;
	/* of the run */
	struct parsed_record *header; /* NULL: it was handed on, or there is none */
	uint64_t since_ns, until_ns;
	uint64_t end_ns; /* of the interval before; 0: there was none */
	struct period *periods;
	size_t period_count, period_room;
	struct open_scene *open;
	size_t open_count;
};

static enum exit_code parse(const char *flag, const char *text, struct moment *moment)
{
	if (!text || !moment_parse(text, moment))
		return EXIT_FINE;
	fprintf(stderr,
		"jankscope: error: %s %s: no moment; use " MOMENT_FORMS
		"; see jankscope report --help\n",
		flag, text);
	return EXIT_USAGE;
}

static void show_target(struct header_target *shown, const struct target_spec *spec)
{
	if (spec->kind == TARGET_PID)
		shown->pid = SOME_U64((uint64_t)spec->pid);
	else
		shown->package = spec->name;
}

struct report_selection *report_selection_new(const struct options *options, enum exit_code *code)
{
	struct report_selection *selection = calloc(1, sizeof(*selection));

	*code = EXIT_FINE;
	if (selection) {
		selection->scene = options->scene;
		selection->open = calloc(OPEN_SCENES, sizeof(*selection->open));
		selection->target_count = options->target_count;
		selection->shown_targets =
			calloc(options->target_count + 1, sizeof(*selection->shown_targets));
		if (options->target_count && selection->shown_targets)
			selection->target =
				report_target_new(options->targets, options->target_count);
	}
	if (!selection || !selection->open || (options->target_count && !selection->target)) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
		*code = EXIT_INTERNAL;
	} else {
		*code = parse("--since", options->since, &selection->since);
		if (!*code)
			*code = parse("--until", options->until, &selection->until);
		for (size_t i = 0; i < options->target_count; i++)
			show_target(&selection->shown_targets[i], &options->targets[i]);
		selection->time = options->since || options->until || options->scene;
		selection->remade = options->by_activity;
	}
	if (!*code)
		return selection;
	report_selection_free(selection);
	return NULL;
}

void report_selection_free(struct report_selection *selection)
{
	if (!selection)
		return;
	report_target_free(selection->target);
	parsed_record_free(selection->header);
	free(selection->periods);
	free(selection->open);
	free(selection->shown_targets);
	free(selection);
}

bool report_selection_any(const struct report_selection *selection)
{
	return selection->time || selection->target || selection->remade;
}

void report_selection_begin(struct report_selection *selection)
{
	parsed_record_free(selection->header);
	selection->header = NULL;
	selection->has_origin = false;
	selection->intervals = selection->blocks = (struct count){0};
	selection->since_ns = selection->end_ns = 0;
	selection->until_ns = UINT64_MAX;
	selection->period_count = selection->open_count = 0;
	selection->first_boot_ns = selection->last_boot_ns = selection->scene_times = 0;
	selection->target_seen = false;
}

/* ---- what is in ---- */

/* How much of [begin, end] is in: 0 nothing, 1 a part, 2 all. */
static int share_in(const struct report_selection *selection, uint64_t begin_ns, uint64_t end_ns)
{
	bool part = false, whole = begin_ns >= selection->since_ns && end_ns <= selection->until_ns;

	if (!whole)
		return begin_ns < selection->until_ns && end_ns > selection->since_ns;
	if (!selection->scene)
		return 2;
	/* The newest first: that is where a record mostly is. */
	for (size_t i = selection->period_count; i--;) {
		const struct period *period = &selection->periods[i];

		if (period->begin_ns <= begin_ns && period->end_ns >= end_ns)
			return 2;
		part |= period->begin_ns < end_ns && period->end_ns > begin_ns;
		if (period->end_ns < begin_ns)
			break;
	}
	return part;
}

static bool count(struct count *count, int share)
{
	count->in += share == 2;
	count->part += share == 1;
	count->out += share == 0;
	return share == 2;
}

/* ---- scenes ---- */

static struct open_scene *find_open(struct report_selection *selection, const char *name)
{
	for (size_t i = 0; i < selection->open_count; i++)
		if (!strcmp(selection->open[i].name, name))
			return &selection->open[i];
	return NULL;
}

static int begin_period(struct report_selection *selection, uint64_t at_ns)
{
	size_t room = selection->period_room ? 2 * selection->period_room : 64;
	struct period *more;

	if (selection->period_count == selection->period_room) {
		more = reallocarray(selection->periods, room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		selection->periods = more;
		selection->period_room = room;
	}
	selection->periods[selection->period_count++] = (struct period){at_ns, UINT64_MAX};
	selection->scene_times++;
	return 0;
}

struct mark {
	const char *name;
	bool end;
	uint64_t at_ns;
};

/* As the summary reads it: a mark that an interval was cut for is at the end of that. */
static bool read_mark(const struct report_selection *selection, const struct record *record,
		      struct mark *mark)
{
	const struct record_event *event = record->event;

	if (record->type != RECORD_EVENT || strcmp(event->event, "mark"))
		return false;
	*mark = (struct mark){.at_ns = record->t_boot_ns};
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (!strcmp(key->name, "name"))
			mark->name = key->text;
		else if (!strcmp(key->name, "state"))
			mark->end = key->text && !strcmp(key->text, "end");
		else if (!strcmp(key->name, "exact") && key->value == 1 && selection->end_ns)
			mark->at_ns = selection->end_ns;
	}
	return mark->name && scene_name_is_good(mark->name);
}

/* What the mark changes. *was_told: of an end, whether its begin was handed on. */
static int follow_mark(struct report_selection *selection, const struct mark *mark, bool *was_told)
{
	struct open_scene *open = find_open(selection, mark->name);
	bool is_ours = selection->scene && !strcmp(selection->scene, mark->name);

	*was_told = open && open->told;
	if (!mark->end == (open != NULL))
		return 0; /* it is open already, or is not */
	if (mark->end) {
		*open = selection->open[--selection->open_count];
		if (is_ours && selection->period_count)
			selection->periods[selection->period_count - 1].end_ns = mark->at_ns;
		return 0;
	}
	if (selection->open_count < OPEN_SCENES) {
		open = &selection->open[selection->open_count++];
		*open = (struct open_scene){.begin_ns = mark->at_ns};
		snprintf(open->name, sizeof(open->name), "%s", mark->name);
	}
	return is_ours ? begin_period(selection, mark->at_ns) : 0;
}

/* ---- what is handed on before a record ---- */

static int put_header(struct report_selection *selection, const struct selection_output *output)
{
	struct parsed_record *held = selection->header;
	struct record_header header;
	struct record record;
	int err;

	selection->header = NULL;
	if (!held)
		return 0;
	record = held->record;
	header = *record.header;
	if (selection->target) {
		header.targets = selection->shown_targets;
		header.target_count = selection->target_count;
	}
	record.header = &header;
	err = output->record(output->ctx, &record);
	parsed_record_free(held);
	return err || !selection->end_ns ? err : output->skip(output->ctx, selection->end_ns);
}

static int put_mark(const struct record *like, const char *name, const char *state, uint64_t at_ns,
		    const struct selection_output *output)
{
	struct record_event event = {
		.event = "mark", .keys = {{"name", name, 0}, {"state", state, 0}}, .key_count = 2};
	const struct record record = {
		.type = RECORD_EVENT, .seq = like->seq, .t_boot_ns = at_ns, .event = &event};

	return output->record(output->ctx, &record);
}

/* A scene that was open already begins where the selection does. */
static int put_before(struct report_selection *selection, const struct record *record,
		      const char *except, const struct selection_output *output)
{
	uint64_t from_ns = selection->since_ns;
	int err = put_header(selection, output);

	if (selection->scene && selection->period_count &&
	    selection->periods[selection->period_count - 1].begin_ns > from_ns)
		from_ns = selection->periods[selection->period_count - 1].begin_ns;
	for (size_t i = 0; i < selection->open_count && !err; i++) {
		struct open_scene *open = &selection->open[i];

		if (open->told || (except && !strcmp(except, open->name)))
			continue;
		open->told = true;
		err = put_mark(record, open->name, "begin",
			       open->begin_ns > from_ns ? open->begin_ns : from_ns, output);
	}
	return err;
}

/* ---- records ---- */

static int hold_header(struct report_selection *selection, const struct record *record)
{
	const struct record_header *header = record->header;
	uint64_t since_ns = 0, until_ns = UINT64_MAX;
	char why[160], *line;
	size_t length;
	int err = 0;

	if (!selection->has_origin) {
		selection->origin.boot_ns = header->clock.boot_ns;
		selection->origin.unix_ns = header->clock.unix_ns;
		memcpy(selection->origin.boot_id, header->boot_id,
		       sizeof(selection->origin.boot_id));
		selection->has_origin = true;
	}
	if (selection->since.kind)
		err = moment_resolve(&selection->since, &selection->origin, header,
				     selection->origin.unix_ns, &since_ns);
	if (!err && selection->until.kind)
		err = moment_resolve(&selection->until, &selection->origin, header,
				     selection->since.kind ? moment_unix_ns(header, since_ns)
							   : selection->origin.unix_ns,
				     &until_ns);
	if (err)
		return err;
	selection->since_ns = since_ns;
	selection->until_ns = until_ns;
	selection->end_ns = 0;
	selection->period_count = selection->open_count = 0;
	line = record_to_line(record, &length);
	if (!line)
		return -ENOMEM;
	parsed_record_free(selection->header);
	selection->header = NULL;
	err = record_parse(line, length - 1, &selection->header, why, sizeof(why));
	free(line);
	return err;
}

/* Whether there is any row of the target. */
static bool has_rows(const struct record_interval *interval)
{
	return interval->cpu.process_count || interval->cpu.task_count || interval->net.uid_count ||
	       interval->frames.layer_count || interval->memory.process_count;
}

static int take_interval(struct report_selection *selection, const struct record *record,
			 const struct selection_output *output)
{
	const struct record_interval *interval = record->interval;
	uint64_t end_ns = record->t_boot_ns;
	uint64_t begin_ns = interval->merged.present    ? interval->merged.begin_boot_ns
			    : selection->end_ns         ? selection->end_ns
			    : end_ns > interval->dur_ns ? end_ns - interval->dur_ns
							: 0;
	struct record shown = *record;
	int err;

	selection->end_ns = end_ns;
	if (!selection->first_boot_ns)
		selection->first_boot_ns = begin_ns;
	selection->last_boot_ns = end_ns;
	if (!count(&selection->intervals, share_in(selection, begin_ns, end_ns)))
		return output->skip(output->ctx, end_ns);
	err = put_before(selection, record, NULL, output);
	if (!err)
		err = output->skip(output->ctx, begin_ns);
	if (!err && selection->target) {
		shown.interval = report_target_interval(selection->target, interval);
		if (!shown.interval)
			return -errno;
		selection->target_seen |= has_rows(shown.interval);
	}
	return err ? err : output->record(output->ctx, &shown);
}

static int take_mark(struct report_selection *selection, const struct record *record,
		     const struct mark *mark, const struct selection_output *output)
{
	struct open_scene *open;
	bool was_told, in;
	int err = follow_mark(selection, mark, &was_told);

	if (err)
		return err;
	in = share_in(selection, mark->at_ns, mark->at_ns) == 2;
	if (mark->end) {
		if (!was_told)
			return 0;
		/* It ended while nothing was in. */
		return in ? output->record(output->ctx, record)
			  : put_mark(record, mark->name, "end", selection->end_ns, output);
	}
	open = find_open(selection, mark->name);
	if (!in || !open || open->told)
		return 0;
	open->told = true;
	err = put_before(selection, record, mark->name, output);
	return err ? err : output->record(output->ctx, record);
}

/* An event of a process that is not the target's. */
static bool is_of_others(const struct report_selection *selection, const struct record_event *event)
{
	const char *package = NULL, *process = NULL;
	pid_t pid = 0;

	for (size_t i = 0; i < event->key_count; i++) {
		if (!strcmp(event->keys[i].name, "package"))
			package = event->keys[i].text;
		else if (!strcmp(event->keys[i].name, "process"))
			process = event->keys[i].text;
		else if (!strcmp(event->keys[i].name, "pid"))
			pid = (pid_t)event->keys[i].value;
	}
	return (package || process) && !report_target_is(selection->target, pid, package, process);
}

static bool block_is_in(const struct report_selection *selection, const struct record_block *block,
			int *share)
{
	*share = share_in(selection, block->start_boot_ns, block->start_boot_ns + block->wall_ns);
	if (selection->target &&
	    !report_target_is(selection->target, block->pid, block->package, block->process))
		*share = 0;
	return *share == 2;
}

static bool jank_is_in(const struct report_selection *selection, const struct record_jank *jank)
{
	return share_in(selection, jank->window_start_ns, jank->window_end_ns) == 2 &&
	       (!selection->target ||
		report_target_is(selection->target, jank->pid, jank->package, jank->process));
}

int report_selection_take(struct report_selection *selection, const struct record *record,
			  const struct selection_output *output)
{
	uint64_t t_boot_ns = record->t_boot_ns;
	struct mark mark;
	bool in = true;
	int err, share;

	switch (record->type) {
	case RECORD_HEADER:
		return hold_header(selection, record);
	case RECORD_INTERVAL:
		return take_interval(selection, record, output);
	case RECORD_FOOTER:
		return 0;
	case RECORD_BLOCK:
		in = block_is_in(selection, record->block, &share);
		break;
	case RECORD_JANK:
		in = jank_is_in(selection, record->jank);
		break;
	case RECORD_EVENT:
		if (read_mark(selection, record, &mark))
			return take_mark(selection, record, &mark, output);
		in = share_in(selection, t_boot_ns, t_boot_ns) == 2 &&
		     !(selection->target && is_of_others(selection, record->event));
		break;
	case RECORD_STACK:
		t_boot_ns = record->addition->stack.t_boot_ns;
		in = share_in(selection, t_boot_ns, t_boot_ns) == 2;
		break;
	}
	/* An event alone is no reason to show a run. */
	if (!in ||
	    (record->type != RECORD_BLOCK && record->type != RECORD_JANK && selection->header))
		return 0;
	err = put_before(selection, record, NULL, output);
	return err ? err : output->record(output->ctx, record);
}

int report_selection_take_block(struct report_selection *selection,
				const struct record_block *block, bool *in,
				const struct selection_output *output)
{
	int share;

	*in = block_is_in(selection, block, &share);
	count(&selection->blocks, share);
	selection->target_seen |= *in;
	return *in ? put_header(selection, output) : 0;
}

static void put_clock(char *text, size_t size, uint64_t ns)
{
	snprintf(text, size, "boot:%" PRIu64 ".%03us", ns / 1000000000u,
		 (unsigned)(ns % 1000000000u / 1000000u));
}

enum exit_code report_selection_end(struct report_selection *selection, const char *file)
{
	const struct count *intervals = &selection->intervals, *blocks = &selection->blocks;
	char name[4096], scene[256], first[40], last[40];

	text_clean(name, sizeof(name), file);
	if (selection->target && !selection->target_seen && (intervals->in || blocks->in)) {
		fprintf(stderr, "jankscope: error: %s: nothing of --target in it\n", name);
		return EXIT_NO_TARGET;
	}
	if (selection->remade && !selection->time && !selection->target)
		return EXIT_FINE;
	if (intervals->in || blocks->in) {
		fprintf(stderr,
			"jankscope: info: %s: selected are %" PRIu64 " of %" PRIu64
			" intervals and %" PRIu64 " of %" PRIu64
			" blocks; left out are also %" PRIu64 " and %" PRIu64
			" that are in only in part\n",
			name, intervals->in, intervals->in + intervals->part + intervals->out,
			blocks->in, blocks->in + blocks->part + blocks->out, intervals->part,
			blocks->part);
		return EXIT_FINE;
	}
	put_clock(first, sizeof(first), selection->first_boot_ns);
	put_clock(last, sizeof(last), selection->last_boot_ns);
	if (selection->scene && !selection->scene_times)
		fprintf(stderr, "jankscope: error: %s: no scene --scene %s in it\n", name,
			text_clean(scene, sizeof(scene), selection->scene));
	else
		fprintf(stderr,
			"jankscope: error: %s: no interval and no block is wholly in what is "
			"selected; its intervals are from %s to %s\n",
			name, first, last);
	return EXIT_NO_TARGET;
}
