/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/screen/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink/table_private.h"
#include "sink/text.h"
#include "util/clock.h"

/* A layer without frames for so many intervals makes room for another one. */
#define QUIET_INTERVALS 30

const char *screen_time(const struct screen_model *model, uint64_t boot_ns, char text[SCREEN_TIME])
{
	time_t seconds = (time_t)((boot_ns + model->unix_minus_boot_ns) / NSEC_PER_SEC);
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		snprintf(text, SCREEN_TIME, "%02u:%02u:%02uZ", (unsigned)tm.tm_hour % 24,
			 (unsigned)tm.tm_min % 60, (unsigned)tm.tm_sec % 61);
	else
		text[0] = 0;
	return text;
}

static void put_part(char text[SCREEN_TEXT], const char *part)
{
	strncat(text, part, SCREEN_TEXT - 1 - strlen(text));
}

/* `before` only where something stands in front of it. */
static void put(char text[SCREEN_TEXT], const char *before, const char *more)
{
	if (text[0])
		put_part(text, before);
	put_part(text, more);
}

static void take_header(struct screen_model *model, const struct record_header *header)
{
	char name[96], text[128];

	model->unix_minus_boot_ns = header->clock.unix_ns - header->clock.boot_ns;
	model->interval_ns = header->interval_ns;
	model->has_targets = header->target_count > 0;
	model->title[0] = model->absent[0] = 0;
	for (size_t i = 0; i < header->target_count; i++) {
		const struct header_target *target = &header->targets[i];

		if (target->package)
			text_tail(name, sizeof(name), target->package, 70);
		else if (target->pid.present)
			snprintf(name, sizeof(name), "pid %u", (unsigned)target->pid.value);
		else
			snprintf(name, sizeof(name), "uid %u", (unsigned)target->uid.value);
		put(model->title, " ", name);
	}
	if (!header->target_count)
		put(model->title, "", "whole device");
	for (size_t i = 0; i < header->source_count; i++) {
		const struct header_source *source = &header->sources[i];

		if (!strcmp(source->state, "ok"))
			continue;
		snprintf(text, sizeof(text), "%s (%s)", source->name, source->state);
		put(model->absent, ", ", text_clean(name, sizeof(name), text));
	}
}

/* ---- frames ---- */

static struct screen_layer *find_layer(struct screen_model *model, pid_t pid, const char *name)
{
	struct screen_layer *quiet = NULL;

	for (size_t i = 0; i < model->layer_count; i++) {
		struct screen_layer *layer = &model->layers[i];

		if (layer->pid == pid && !strcmp(layer->name, name))
			return layer;
		if (!quiet || layer->quiet > quiet->quiet)
			quiet = layer;
	}
	if (model->layer_count < SCREEN_LAYERS)
		quiet = &model->layers[model->layer_count++];
	else if (quiet->quiet < QUIET_INTERVALS)
		return NULL;
	memset(quiet, 0, sizeof(*quiet));
	quiet->pid = pid;
	snprintf(quiet->name, sizeof(quiet->name), "%s", name);
	return quiet;
}

/* Of each layer an interval with no frame, which take_layer() fills. */
static void push_quiet(struct screen_layer *layer)
{
	if (layer->count == SCREEN_HISTORY) {
		memmove(layer->rate, layer->rate + 1, sizeof(layer->rate) - sizeof(*layer->rate));
		memmove(layer->late, layer->late + 1, sizeof(layer->late) - sizeof(*layer->late));
		layer->count--;
	}
	layer->rate[layer->count] = 0;
	layer->late[layer->count++] = false;
	layer->shown = layer->janky = layer->dropped = 0;
	layer->fps_active = 0;
	layer->quiet++;
}

static void take_layer(struct screen_layer *layer, const struct record_layer *from, uint64_t dur_ns)
{
	if (!layer->count)
		push_quiet(layer);
	layer->shown += from->shown;
	layer->janky += from->janky;
	layer->dropped += from->dropped;
	layer->fps_active = from->fps_active;
	layer->period_ns = from->period_ns;
	layer->rate[layer->count - 1] =
		dur_ns ? (float)((double)layer->shown * 1e9 / (double)dur_ns) : 0;
	layer->late[layer->count - 1] = layer->janky || layer->dropped;
	if (from->shown || from->dropped)
		layer->quiet = 0;
}

static int livelier(const void *a, const void *b)
{
	const struct screen_layer *x = a, *y = b;

	if (x->shown != y->shown)
		return x->shown < y->shown ? 1 : -1;
	if (x->quiet != y->quiet)
		return x->quiet < y->quiet ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void take_frames(struct screen_model *model, const struct record_interval *interval)
{
	const struct record_frames *frames = &interval->frames;
	char name[SCREEN_TEXT];

	model->has_frames |= frames->present;
	for (size_t i = 0; i < model->layer_count; i++)
		push_quiet(&model->layers[i]);
	for (size_t i = 0; frames->present && !frames->history && i < frames->layer_count; i++) {
		const struct record_layer *from = &frames->layers[i];
		struct screen_layer *layer;

		text_tail(name, sizeof(name),
			  from->layer     ? from->layer
			  : from->package ? from->package
					  : "-",
			  120);
		layer = find_layer(model, from->pid, name);
		if (layer)
			take_layer(layer, from, interval->dur_ns);
	}
	qsort(model->layers, model->layer_count, sizeof(*model->layers), livelier);
}

/* ---- events ---- */

void screen_model_say(struct screen_model *model, const char *text, bool bad)
{
	struct screen_event event = {.bad = bad};

	text_clean(event.text, sizeof(event.text), text);
	memmove(model->events + 1, model->events, sizeof(model->events) - sizeof(*model->events));
	model->events[0] = event;
	if (model->event_count < SCREEN_EVENTS)
		model->event_count++;
}

static void take_event(struct screen_model *model, const struct record *record)
{
	static const char *const bad[] = {"alert", "gap", "degraded", "thermal_cap"};
	const struct record_event *event = record->event;
	char time[SCREEN_TIME], text[SCREEN_TEXT] = "", more[TABLE_NAME];
	bool is_bad = false;

	snprintf(text, sizeof(text), "%s %s", screen_time(model, record->t_boot_ns, time),
		 event->event);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		is_bad |= !strcmp(event->event, bad[i]);
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];
		char name[96];

		if (!strcmp(key->name, "start_boot_ns") || !strcmp(key->name, "uid"))
			continue;
		if (!strcmp(key->name, "process") && key->text)
			table_process(more, key->text, NULL, NULL);
		else if (key->text)
			snprintf(more, sizeof(more), "%s",
				 text_tail(name, sizeof(name), key->text, 60));
		else if (key->real)
			snprintf(more, sizeof(more), "%.40s=%.4g", key->name, key->number);
		else
			snprintf(more, sizeof(more), "%.40s=%lld", key->name,
				 (long long)key->value);
		put(text, " ", more);
	}
	screen_model_say(model, text, is_bad);
}

/* ---- blocks ---- */

static bool same_block(const struct screen_block *x, const struct screen_block *y)
{
	return x->pid == y->pid && x->tid == y->tid && x->start_boot_ns == y->start_boot_ns;
}

static int take_block(struct screen_model *model, const struct record *record)
{
	struct screen_block *block = screen_block_new(model, record);

	if (!block)
		return -ENOMEM;
	for (size_t i = 0; i < model->block_count; i++) {
		struct screen_block *old = model->blocks[i];

		if (!same_block(block, old))
			continue;
		memcpy(block->seqs + 1, old->seqs, sizeof(block->seqs) - sizeof(*block->seqs));
		screen_block_drop(old);
		model->blocks[i] = block;
		return 0;
	}
	if (model->block_count == SCREEN_BLOCKS)
		screen_block_drop(model->blocks[--model->block_count]);
	memmove(model->blocks + 1, model->blocks, model->block_count * sizeof(*model->blocks));
	model->blocks[0] = block;
	model->block_count++;
	model->blocks_seen++;
	return 0;
}

static int take_addition(struct screen_model *model, const struct record_addition *addition)
{
	for (size_t i = 0; i < model->block_count; i++)
		for (size_t s = 0; s < 4; s++)
			if (model->blocks[i]->seqs[s] == addition->of + 1)
				return screen_block_add(model->blocks[i], &addition->stack);
	return 0;
}

/* ---- late frames ---- */

static void take_jank(struct screen_model *model, const struct record_jank *jank)
{
	struct screen_late late;
	char why[512], process[TABLE_NAME];

	why_totals_add(&model->late_totals, jank);
	screen_time(model, jank->window_end_ns, late.time);
	table_process(process, jank->process, jank->package, NULL);
	text_tail(late.process, sizeof(late.process), process, 100);
	text_clean(late.text, sizeof(late.text), why_line(jank, why, sizeof(why)));
	memmove(model->late + 1, model->late, sizeof(model->late) - sizeof(*model->late));
	model->late[0] = late;
	if (model->late_count < SCREEN_LATE)
		model->late_count++;
}

/* ---- the model ---- */

int screen_model_take(struct screen_model *model, const struct record *record)
{
	struct screen_interval *interval;

	switch (record->type) {
	case RECORD_HEADER:
		take_header(model, record->header);
		break;
	case RECORD_INTERVAL:
		interval = screen_interval_new(model, record);
		if (!interval)
			return -ENOMEM;
		screen_interval_drop(model->now);
		model->now = interval;
		take_frames(model, record->interval);
		break;
	case RECORD_BLOCK:
		return take_block(model, record);
	case RECORD_STACK:
		return take_addition(model, record->addition);
	case RECORD_EVENT:
		take_event(model, record);
		break;
	case RECORD_JANK:
		take_jank(model, record->jank);
		break;
	case RECORD_FOOTER:
		break;
	}
	return 0;
}

void screen_model_copy(struct screen_model *to, const struct screen_model *from)
{
	*to = *from;
	if (to->now)
		to->now->refs++;
	for (size_t i = 0; i < to->block_count; i++)
		screen_block_hold(to->blocks[i]);
}

void screen_model_clear(struct screen_model *model)
{
	screen_interval_drop(model->now);
	for (size_t i = 0; i < model->block_count; i++)
		screen_block_drop(model->blocks[i]);
	memset(model, 0, sizeof(*model));
}
