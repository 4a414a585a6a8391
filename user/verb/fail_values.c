/* SPDX-License-Identifier: BSD-2-Clause */
/* The values that a summary has of a metric. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verb/fail_rule.h"

#define DEPTH 12 /* of keys in a summary */

struct walk {
	struct fail_values *values;
	char path[FAIL_METRIC];
	char subject[FAIL_SUBJECT];
	const char *metric;
	char *why;
	size_t size;
	int err;
	bool skips;     /* keys of lists may be left out */
	bool no_number; /* something of that name is none */
};

static void add_value(struct walk *walk, double number)
{
	struct fail_values *values = walk->values;
	struct fail_value *more;

	if (values->count && strcmp(values->items[0].path, walk->path)) {
		snprintf(walk->why, walk->size, "%.60s is %.60s and %.60s: say which", walk->metric,
			 values->items[0].path, walk->path);
		walk->err = -EINVAL;
		return;
	}
	more = realloc(values->items, (values->count + 1) * sizeof(*more));
	if (!more) {
		walk->err = -ENOMEM;
		return;
	}
	values->items = more;
	more[values->count].value = number;
	strcpy(more[values->count].subject, walk->subject);
	strcpy(more[values->count++].path, walk->path);
}

/* A process has another pid in the next run: its name says whose the row is. */
static void name_row(const json_t *row, char subject[FAIL_SUBJECT])
{
	static const char *const names[] = {"package", "process", "thread", "name", "path"};
	const json_t *uid = json_object_get(row, "uid");

	*subject = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *text = json_string_value(json_object_get(row, names[i]));

		if (text && *text && !*subject)
			snprintf(subject, FAIL_SUBJECT, "%s", text);
	}
	if (!*subject && json_is_integer(uid))
		snprintf(subject, FAIL_SUBJECT, "uid %lld", (long long)json_integer_value(uid));
	/* A name is its owner's: it goes to a terminal. */
	for (char *c = subject; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f)
			*c = '?';
}

static void walk_value(struct walk *walk, const json_t *value, const char *rest, int depth);

static void walk_rows(struct walk *walk, const json_t *list, const char *rest, int depth)
{
	char outer[FAIL_SUBJECT];

	strcpy(outer, walk->subject);
	for (size_t i = 0; i < json_array_size(list) && !walk->err; i++) {
		const json_t *row = json_array_get(list, i);

		if (!json_is_object(row))
			continue;
		name_row(row, walk->subject);
		if (!*walk->subject)
			strcpy(walk->subject, outer);
		walk_value(walk, row, rest, depth);
	}
	strcpy(walk->subject, outer);
}

/* Go on below a key, which the path gets. */
static void walk_key(struct walk *walk, const char *key, const json_t *value, const char *rest,
		     int depth)
{
	size_t length = strlen(walk->path);

	if (length + strlen(key) + 2 > sizeof(walk->path))
		return;
	sprintf(walk->path + length, "%s%s", length ? "." : "", key);
	if (json_is_array(value) && *rest)
		walk_rows(walk, value, rest, depth);
	else
		walk_value(walk, value, rest, depth);
	walk->path[length] = 0;
}

static void walk_value(struct walk *walk, const json_t *value, const char *rest, int depth)
{
	const char *key;
	json_t *below;

	if (!*rest) {
		if (json_is_number(value))
			add_value(walk, json_number_value(value));
		else
			walk->no_number = true;
		return;
	}
	if (!json_is_object(value) || depth == DEPTH)
		return;
	json_object_foreach ((json_t *)value, key, below) {
		size_t length = strlen(key);

		if (walk->err)
			return;
		/* A scene's name is a key, and may have dots. */
		if (length && !strncmp(rest, key, length) && (!rest[length] || rest[length] == '.'))
			walk_key(walk, key, below, rest + length + (rest[length] == '.'),
				 depth + 1);
		else if (walk->skips && json_is_array(below))
			walk_key(walk, key, below, rest, depth + 1);
	}
}

int fail_values_of(const json_t *summary, const char *metric, struct fail_values *values, char *why,
		   size_t size)
{
	struct walk walk = {.values = values, .metric = metric, .why = why, .size = size};

	*values = (struct fail_values){0};
	walk_value(&walk, summary, metric, 0);
	if (!walk.err && !values->count && !walk.no_number) {
		walk.skips = true;
		walk_value(&walk, summary, metric, 0);
	}
	if (!walk.err && !values->count && walk.no_number) {
		snprintf(why, size,
			 "%.60s is no number: name one of it, like %.60s.p99 of a distribution",
			 metric, metric);
		walk.err = -EINVAL;
	}
	if (walk.err)
		fail_values_free(values);
	return walk.err;
}

void fail_values_free(struct fail_values *values)
{
	free(values->items);
	*values = (struct fail_values){0};
}
