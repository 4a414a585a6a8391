/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_activity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/recording.h"
#include "summary/scenes.h"

#define MAX_CHANGES (1u << 20) /* of a recording */
#define HEAD_BYTES  24         /* that stay of a name that is longer than a scene's may be */

/* From at_ns on the activity had the focus; "": nobody knows who had it. */
struct change {
	uint64_t at_ns, run, order; /* order: as they were read */
	char activity[SCENE_NAME + 1];
};

struct report_activity {
	struct change *changes;
	size_t count, room, next;
	uint64_t run;              /* headers so far */
	char open[SCENE_NAME + 1]; /* "": no scene is */
};

struct report_activity *report_activity_new(void)
{
	return calloc(1, sizeof(struct report_activity));
}

void report_activity_free(struct report_activity *activity)
{
	if (!activity)
		return;
	free(activity->changes);
	free(activity);
}

/* Of a long name the package's begin and the activity's end stay. */
static void name_scene(char *name, const char *text)
{
	size_t length = strlen(text), head = HEAD_BYTES, tail = length;

	if (length <= SCENE_NAME) {
		strcpy(name, text);
	} else {
		/* No character of UTF-8 is cut. */
		while (head && ((unsigned char)text[head] & 0xc0) == 0x80)
			head--;
		tail -= SCENE_NAME - 2 - head;
		while (((unsigned char)text[tail] & 0xc0) == 0x80)
			tail++;
		memcpy(name, text, head);
		memcpy(name + head, "..", 2);
		strcpy(name + head + 2, text + tail);
	}
	if (!scene_name_is_good(name))
		*name = 0;
}

static int add(struct report_activity *activity, uint64_t at_ns, const char *text)
{
	struct change *change;

	if (activity->count == MAX_CHANGES)
		return -E2BIG;
	if (activity->count == activity->room) {
		size_t room = activity->room ? 2 * activity->room : 64;
		struct change *more = reallocarray(activity->changes, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		activity->changes = more;
		activity->room = room;
	}
	change = &activity->changes[activity->count];
	*change = (struct change){.at_ns = at_ns, .run = activity->run, .order = activity->count};
	activity->count++;
	name_scene(change->activity, text);
	return 0;
}

static int note(void *ctx, const struct record *record)
{
	struct report_activity *activity = ctx;
	const struct record_event *event = record->event;
	const char *text = NULL, *source = "";
	uint64_t at_ns = 0;
	bool is_focus;

	activity->run += record->type == RECORD_HEADER;
	if (record->type != RECORD_EVENT)
		return 0;
	is_focus = !strcmp(event->event, "focus");
	/* What happened while there was no trace is not known. */
	if (!is_focus && strcmp(event->event, "gap") && strcmp(event->event, "degraded"))
		return 0;
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (!strcmp(key->name, "activity"))
			text = key->text;
		else if (!strcmp(key->name, "source") && key->text)
			source = key->text;
		else if (!strcmp(key->name, is_focus ? "since_boot_ns" : "from_boot_ns") &&
			 key->value > 0)
			at_ns = (uint64_t)key->value;
	}
	if (is_focus)
		return text && at_ns ? add(activity, at_ns, text) : 0;
	return strcmp(source, "frames") ? 0 : add(activity, at_ns ? at_ns : record->t_boot_ns, "");
}

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

int report_activity_begin(struct report_activity *activity, const char *file)
{
	const struct recording_reader reader = {.record = note, .ctx = activity};
	struct recording_counts counts = {0};
	int err;

	activity->count = activity->next = activity->run = 0;
	*activity->open = 0;
	err = recording_read(file, &reader, &counts);
	activity->run = 0;
	qsort(activity->changes, activity->count, sizeof(*activity->changes), by_time);
	if (err == -ENOMEM || err == -E2BIG)
		return err;
	return err || activity->count ? 0 : -ENODATA;
}

static int put_mark(struct report_activity *activity, uint64_t at_ns, const char *state,
		    int (*put)(void *ctx, const struct record *record), void *ctx)
{
	struct record_event event = {
		.event = "mark",
		.keys = {{.name = "name", .text = activity->open},
			 {.name = "state", .text = state}},
		.key_count = 2,
	};
	const struct record record = {.type = RECORD_EVENT, .t_boot_ns = at_ns, .event = &event};

	return put(ctx, &record);
}

int report_activity_take(struct report_activity *activity, const struct record *record,
			 int (*put)(void *ctx, const struct record *record), void *ctx)
{
	int err = 0;

	if (record->type == RECORD_HEADER) {
		activity->run++;
		*activity->open = 0;
		return 0;
	}
	for (; !err && activity->next < activity->count; activity->next++) {
		const struct change *change = &activity->changes[activity->next];

		if (change->run > activity->run ||
		    (change->run == activity->run && change->at_ns > record->t_boot_ns))
			break;
		if (change->run < activity->run || !strcmp(change->activity, activity->open))
			continue;
		if (*activity->open)
			err = put_mark(activity, change->at_ns, "end", put, ctx);
		strcpy(activity->open, change->activity);
		if (!err && *activity->open)
			err = put_mark(activity, change->at_ns, "begin", put, ctx);
	}
	return err;
}
