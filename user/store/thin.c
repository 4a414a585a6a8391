/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/thin.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/merge.h"
#include "store/line.h"

/* Lines are held back until the interval that they belong to is merged, so that they stand as
 * before if it cannot be. More than this is not: then the window has two merged intervals. */
#define MAX_HELD_BYTES (8u << 20)

struct held {
	char *line;
	size_t length;
	bool merged; /* it is in the merge */
};

struct thinner {
	uint64_t resolution_ns;
	int (*put)(void *ctx, const char *line, size_t length);
	void *ctx;
	struct interval_merge *merge; /* NULL: no window is open */
	uint64_t window, merged;
	struct held *held;
	size_t held_count, held_room, held_bytes;
};

struct thinner *thinner_new(uint64_t resolution_ns,
			    int (*put)(void *ctx, const char *line, size_t length), void *ctx)
{
	struct thinner *thinner = calloc(1, sizeof(*thinner));

	if (!thinner)
		return NULL;
	thinner->resolution_ns = resolution_ns;
	thinner->put = put;
	thinner->ctx = ctx;
	return thinner;
}

static void drop_window(struct thinner *thinner)
{
	for (size_t i = 0; i < thinner->held_count; i++)
		free(thinner->held[i].line);
	thinner->held_count = thinner->held_bytes = 0;
	interval_merge_free(thinner->merge);
	thinner->merge = NULL;
}

void thinner_free(struct thinner *thinner)
{
	if (!thinner)
		return;
	drop_window(thinner);
	free(thinner->held);
	free(thinner);
}

uint64_t thinner_merged(const struct thinner *thinner)
{
	return thinner->merged;
}

static int hold(struct thinner *thinner, const char *line, size_t length, bool merged)
{
	struct held *more;
	struct held *held;

	if (thinner->held_count == thinner->held_room) {
		thinner->held_room = thinner->held_room ? 2 * thinner->held_room : 64;
		more = realloc(thinner->held, thinner->held_room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		thinner->held = more;
	}
	held = &thinner->held[thinner->held_count];
	held->line = malloc(length);
	if (!held->line)
		return -ENOMEM;
	memcpy(held->line, line, length);
	held->length = length;
	held->merged = merged;
	thinner->held_count++;
	thinner->held_bytes += length;
	return 0;
}

/* What stood between the intervals keeps its place, and the merged interval has that of the newest
 * one. Without a merge each line stands as it did. */
static int end_window(struct thinner *thinner)
{
	size_t count = thinner->merge ? interval_merge_count(thinner->merge) : 0, length = 0;
	char *line = count > 1 ? interval_merge_line(thinner->merge, &length) : NULL;
	size_t left = count;
	int err = 0;

	for (size_t i = 0; i < thinner->held_count && !err; i++) {
		const struct held *held = &thinner->held[i];

		if (!line || !held->merged)
			err = thinner->put(thinner->ctx, held->line, held->length);
		else if (!--left)
			err = thinner->put(thinner->ctx, line, length);
	}
	if (line)
		thinner->merged += count - 1;
	free(line);
	drop_window(thinner);
	return err;
}

/* It is written as it is, behind what is held back. */
static int pass(struct thinner *thinner, const char *line, size_t length)
{
	int err = thinner->merge ? end_window(thinner) : 0;

	return err ? err : thinner->put(thinner->ctx, line, length);
}

/* Frames of a time before the run, an interval that is as long as the window, a damaged one. */
static bool stays_alone(const struct thinner *thinner, const json_t *interval)
{
	const json_t *dur = json_object_get(interval, "dur_ns");
	const json_t *frames = json_object_get(interval, "frames");

	return !json_is_integer(dur) || json_integer_value(dur) < 0 ||
	       (uint64_t)json_integer_value(dur) >= thinner->resolution_ns ||
	       json_is_true(json_object_get(frames, "history"));
}

/* Windows lie at multiples of the resolution, so that those of a coarser one hold whole windows of
 * a finer one. An interval belongs to the window in which it ends. */
static int take_interval(struct thinner *thinner, const char *line, size_t length,
			 const struct line_look *look)
{
	uint64_t window = (look->t_boot_ns - 1) / thinner->resolution_ns;
	json_t *interval = json_loadb(line, length - 1, 0, NULL);
	bool last;
	int err = 0;

	if (!interval)
		return -EBADMSG;
	if (stays_alone(thinner, interval)) {
		json_decref(interval);
		return pass(thinner, line, length);
	}
	if (thinner->merge && (thinner->window != window || thinner->held_bytes > MAX_HELD_BYTES))
		err = end_window(thinner);
	if (!err && !thinner->merge) {
		thinner->merge = interval_merge_new();
		thinner->window = window;
		err = thinner->merge ? 0 : -ENOMEM;
	}
	/* A scene begins or ends with it. */
	last = json_is_true(json_object_get(interval, "marked"));
	if (!err)
		err = hold(thinner, line, length, true);
	if (!err)
		err = interval_merge_add(thinner->merge, interval);
	json_decref(interval);
	if (err == -ENOTSUP) {
		/* Of a newer version, or with sums that fit into no number: all stay. */
		interval_merge_free(thinner->merge);
		thinner->merge = NULL;
		return end_window(thinner);
	}
	return !err && last ? end_window(thinner) : err;
}

/* Whether the time before and behind an event is to be kept apart. */
static bool parts_time(const char *line, size_t length)
{
	static const char *const events[] = {"mark",       "gap",   "suspend",
					     "clock_jump", "start", "records_dropped"};
	json_t *object = json_loadb(line, length - 1, 0, NULL);
	const char *event = json_string_value(json_object_get(object, "event"));
	bool found = false;

	for (size_t i = 0; event && i < sizeof(events) / sizeof(*events); i++)
		found |= !strcmp(event, events[i]);
	json_decref(object);
	return found;
}

/* The header of the segment says what was done to it. */
static int put_header(struct thinner *thinner, const char *line, size_t length)
{
	static const char key[] = ",\"segment\":{";
	const char *at = NULL, *end = line + length, *brace, *old;
	char *text;
	int n, err;

	for (const char *p = line; (p = memmem(p, (size_t)(end - p), key, sizeof(key) - 1)); p++)
		at = p;
	brace = at ? memchr(at, '}', (size_t)(end - at)) : NULL;
	if (!brace || brace + 1 + LINE_CRC_BYTES + 1 != end)
		return -EBADMSG;
	old = memmem(at, (size_t)(brace - at), ",\"resolution_ns\":", 17);
	brace = old ? old : brace;
	text = malloc(length + 64);
	if (!text)
		return -ENOMEM;
	memcpy(text, line, (size_t)(brace - line));
	n = (int)(brace - line) + snprintf(text + (brace - line), 48,
					   ",\"resolution_ns\":%" PRIu64 "}",
					   thinner->resolution_ns);
	line_put_crc(text + n, text, (size_t)n);
	err = thinner->put(thinner->ctx, text, (size_t)n + LINE_CRC_BYTES + 1);
	free(text);
	return err;
}

int thinner_line(struct thinner *thinner, const char *line, size_t length)
{
	struct line_look look;

	if (!length || line[length - 1] != '\n' || !line_is_whole(line, length - 1) ||
	    !line_look(line, length, &look))
		return -EBADMSG;
	if (!strcmp(look.type, "header"))
		return thinner->merge ? -EBADMSG : put_header(thinner, line, length);
	if (!strcmp(look.type, "interval"))
		return take_interval(thinner, line, length, &look);
	if (!strcmp(look.type, "event") && parts_time(line, length))
		return pass(thinner, line, length);
	return thinner->merge ? hold(thinner, line, length, false)
			      : thinner->put(thinner->ctx, line, length);
}

int thinner_end(struct thinner *thinner)
{
	return thinner->merge ? end_window(thinner) : 0;
}
