/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint/series_set.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "util/clock.h"

/* What was used so long ago counts for a third. */
#define MEMORY_NS (600 * NSEC_PER_SEC)
#define CHANGE_NS (60 * NSEC_PER_SEC)
#define KEY_BYTES (SERIES_LABELS * METRICS_LABEL_BYTES)

struct name {
	UT_hash_handle hh;
	bool shown;
	uint64_t values[SERIES_VALUES]; /* since it is shown */
	double score;
	const char *labels[SERIES_LABELS]; /* in key */
	char key[];
};

struct series_set {
	size_t room; /* of names with a series */
	bool at_once;
	const char *const *rest_labels;
	struct name *names;
	size_t shown;
	char rest_key[KEY_BYTES];
	size_t rest_bytes;
	uint64_t rest[SERIES_VALUES];
	uint64_t since_change_ns;
};

/* The labels as they are shown, each with its NUL: names that differ in what is not shown are one.
 * A page with the same series twice is refused as a whole. */
static size_t make_key(char key[KEY_BYTES], const char *const labels[SERIES_LABELS])
{
	size_t bytes = 0;

	for (size_t i = 0; i < SERIES_LABELS; i++) {
		metrics_clean(key + bytes, labels[i] ? labels[i] : "");
		bytes += strlen(key + bytes) + 1;
	}
	return bytes;
}

struct series_set *series_set_new(size_t rows, const char *const rest[SERIES_LABELS], bool at_once)
{
	struct series_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->room = (rows < SERIES_ROOM ? rows : SERIES_ROOM) - 1;
	set->rest_labels = rest;
	set->at_once = at_once;
	set->rest_bytes = make_key(set->rest_key, rest);
	return set;
}

static void forget(struct series_set *set, struct name *name)
{
	HASH_DEL(set->names, name);
	free(name);
}

void series_set_free(struct series_set *set)
{
	struct name *name, *next;

	if (!set)
		return;
	HASH_ITER (hh, set->names, name, next) {
		forget(set, name);
	}
	free(set);
}

static void show(struct series_set *set, struct name *name)
{
	name->shown = true;
	memset(name->values, 0, sizeof(name->values));
	set->shown++;
}

/* NULL: it is a part of the rest, which has its name, or there is no room for it now. */
static struct name *find(struct series_set *set, const char *const labels[SERIES_LABELS])
{
	char key[KEY_BYTES];
	size_t bytes = make_key(key, labels);
	struct name *name;
	const char *at;

	/* Somebody calls itself as the rest is called. */
	if (bytes == set->rest_bytes && !memcmp(key, set->rest_key, bytes))
		return NULL;
	HASH_FIND(hh, set->names, key, bytes, name);
	if (name || HASH_COUNT(set->names) >= SERIES_NAMES)
		return name;
	name = calloc(1, sizeof(*name) + bytes);
	if (!name)
		return NULL;
	memcpy(name->key, key, bytes);
	at = name->key;
	for (size_t i = 0; i < SERIES_LABELS; i++) {
		name->labels[i] = *at ? at : NULL;
		at += strlen(at) + 1;
	}
	HASH_ADD_KEYPTR(hh, set->names, name->key, bytes, name);
	if (set->at_once && set->shown < set->room)
		show(set, name);
	return name;
}

void series_set_add_rest(struct series_set *set, const uint64_t values[SERIES_VALUES])
{
	for (size_t i = 0; i < SERIES_VALUES; i++)
		set->rest[i] += values[i];
}

void series_set_add(struct series_set *set, const char *const labels[SERIES_LABELS],
		    const uint64_t values[SERIES_VALUES], uint64_t weight)
{
	struct name *name = find(set, labels);

	if (name)
		name->score += (double)weight;
	if (!name || !name->shown) {
		series_set_add_rest(set, values);
		return;
	}
	for (size_t i = 0; i < SERIES_VALUES; i++)
		name->values[i] += values[i];
}

/* ---- which names have a series of their own ---- */

static int by_score(const struct name *a, const struct name *b)
{
	return a->score < b->score ? 1 : a->score > b->score ? -1 : 0;
}

static void choose(struct series_set *set)
{
	struct name *name, *heaviest = NULL, *lightest = NULL;

	for (name = set->names; name; name = name->hh.next) {
		if (!name->shown && name->score > 0 && set->shown < set->room)
			show(set, name);
		else if (!name->shown && !heaviest)
			heaviest = name;
		if (name->shown)
			lightest = name;
	}
	if (set->at_once || !heaviest || !lightest || set->since_change_ns < CHANGE_NS ||
	    heaviest->score <= 2 * lightest->score)
		return;
	lightest->shown = false;
	set->shown--;
	show(set, heaviest);
	set->since_change_ns = 0;
}

void series_set_settle(struct series_set *set, uint64_t dur_ns)
{
	double left = exp(-(double)dur_ns / (double)MEMORY_NS);
	struct name *name, *next;
	size_t kept = 0;

	set->since_change_ns += dur_ns;
	HASH_SORT(set->names, by_score);
	choose(set);
	HASH_ITER (hh, set->names, name, next) {
		name->score *= left;
		/* New ones are to find room. */
		if (!name->shown && (++kept > SERIES_NAMES / 2 || name->score < 1))
			forget(set, name);
	}
}

size_t series_set_rows(const struct series_set *set, double factor,
		       struct metrics_row rows[SERIES_ROOM])
{
	const struct name *name;
	size_t count = 0;

	for (name = set->names; name && count < SERIES_ROOM - 1; name = name->hh.next) {
		if (!name->shown)
			continue;
		rows[count] = (struct metrics_row){.present = {true, true, true}};
		for (size_t i = 0; i < SERIES_LABELS; i++)
			rows[count].labels[i] = name->labels[i];
		for (size_t i = 0; i < SERIES_VALUES; i++)
			rows[count].values[i] = (double)name->values[i] * factor;
		count++;
	}
	rows[count] = (struct metrics_row){.present = {true, true, true}};
	for (size_t i = 0; i < SERIES_LABELS; i++)
		rows[count].labels[i] = set->rest_labels[i];
	for (size_t i = 0; i < SERIES_VALUES; i++)
		rows[count].values[i] = (double)set->rest[i] * factor;
	return count + 1;
}
