/* SPDX-License-Identifier: BSD-2-Clause */
/* What an event adds to the summary. */
#include <errno.h>
#include <string.h>

#include "summary/summary_private.h"

static const struct event_key *find(const struct record_event *event, const char *name)
{
	for (size_t i = 0; i < event->key_count; i++)
		if (!strcmp(event->keys[i].name, name))
			return &event->keys[i];
	return NULL;
}

static const char *text_of(const struct record_event *event, const char *name)
{
	const struct event_key *key = find(event, name);

	return key && key->text ? key->text : "";
}

/* A scene begins where the interval before it was cut for it, else at the event's own time. */
static int add_mark(struct summary *summary, const struct record *record)
{
	const struct event_key *exact = find(record->event, "exact");
	const char *name = text_of(record->event, "name");
	uint64_t at_boot_ns = exact && exact->value == 1 ? summary->end_boot_ns : record->t_boot_ns;
	int err = scenes_mark(summary->scenes, name,
			      !strcmp(text_of(record->event, "state"), "end"), at_boot_ns);

	return err == -ENOMEM ? err : 0;
}

/* A time that was measured from the start on; for the scenes it is that of its own window, because
 * it is told seconds later. */
static int add_time(struct summary *summary, const struct record_event *event, const char *name,
		    unsigned distribution)
{
	const struct event_key *start = find(event, "start_boot_ns"), *time = find(event, name);

	if (!start || !time || start->text || time->text || start->value < 0 || time->value < 0)
		return 0;
	scenes_select(summary->scenes, (uint64_t)start->value,
		      (uint64_t)start->value + (uint64_t)time->value);
	return summary_add_value(summary, distribution, (uint64_t)time->value);
}

static int add_start(struct summary *summary, const struct record_event *event)
{
	static const char *const kinds[] = {"cold", "warm", "hot"};
	int err;

	if (!strcmp(event->event, "startup")) {
		err = add_time(summary, event, "first_frame_ns", DISTRIBUTION_STARTUP_FRAME);
		return err ? err
			   : add_time(summary, event, "first_idle_ns", DISTRIBUTION_STARTUP_IDLE);
	}
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(event->event, "launch") && !strcmp(text_of(event, "kind"), kinds[i]))
			return add_time(summary, event, "first_frame_ns", DISTRIBUTION_LAUNCH + i);
	return 0;
}

int summary_add_event(struct summary *summary, const struct record *record)
{
	double *events;
	int err;

	if (strcmp(record->event->event, "mark")) {
		err = add_start(summary, record->event);
		scenes_select(summary->scenes, record->t_boot_ns, record->t_boot_ns);
		return err ? err : summary_add_to(summary, "events", 1);
	}
	/* It is between scenes, and in none. */
	events = summary_total(summary, "events");
	if (!events)
		return -ENOMEM;
	++*events;
	return add_mark(summary, record);
}
