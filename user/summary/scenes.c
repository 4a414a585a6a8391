/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/summary_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/histogram.h"
#include "summary/percentages.h"
#include "util/json_text.h"

enum { UNKNOWN, MIXED, OTHER, NAMED };

/* A block is told up to 0.2 s after its end: its scene may have ended, and begun again, by then. */
#define PERIODS 8

struct row {
	char name[SCENE_NAME + 1];
	/* The last times that it was open, by `times`; the newest has no end while it is open. What
	 * began before kept_ns may have met an older one. */
	struct {
		uint64_t begin_ns, end_ns;
	} periods[PERIODS];
	uint64_t kept_ns;
	unsigned open;          /* of `other`: how many scenes of it are */
	uint64_t times, opened; /* with `other`, several may begin before the first one ends */
	bool selected, any;
	struct summary_total *totals;
	size_t total_count, last_total; /* the one that was added to last */
	struct histogram *histograms[SCENE_DISTRIBUTIONS];
	struct record_distribution distributions[SCENE_DISTRIBUTIONS];
};

/* The scenes that are open and have no row: their names only. */
#define OTHERS_OPEN 1024

struct scenes {
	struct row *rows[NAMED + SCENES];
	size_t count;
	bool any; /* somebody marked */
	char *others[OTHERS_OPEN];
	size_t other_count;
	struct footer_scene *result;
};

static struct row *add_row(struct scenes *scenes, const char *name)
{
	struct row *row = calloc(1, sizeof(*row));

	if (row) {
		strcpy(row->name, name);
		scenes->rows[scenes->count++] = row;
	}
	return row;
}

struct scenes *scenes_new(void)
{
	struct scenes *scenes = calloc(1, sizeof(*scenes));

	if (scenes && add_row(scenes, "unknown") && add_row(scenes, "mixed") &&
	    add_row(scenes, "other")) {
		scenes->rows[UNKNOWN]->selected = true;
		return scenes;
	}
	scenes_free(scenes);
	return NULL;
}

static void free_row(struct row *row)
{
	for (size_t i = 0; i < row->total_count; i++)
		free(row->totals[i].key);
	free(row->totals);
	for (size_t i = 0; i < SCENE_DISTRIBUTIONS; i++)
		histogram_free(row->histograms[i]);
	free(row);
}

void scenes_free(struct scenes *scenes)
{
	if (!scenes)
		return;
	for (size_t i = 0; i < scenes->count; i++)
		free_row(scenes->rows[i]);
	for (size_t i = 0; i < scenes->other_count; i++)
		free(scenes->others[i]);
	free(scenes->result);
	free(scenes);
}

bool scene_name_is_good(const char *name)
{
	static const char *const words[] = {"unknown", "mixed", "other"};
	size_t length = strlen(name);

	/* The protocol of `mark` cuts blanks at the begin. */
	if (!length || length > SCENE_NAME || *name == ' ' || !json_text_is_clean(name, length))
		return false;
	for (size_t i = 0; i < length; i++) {
		const unsigned char *c = (const unsigned char *)name + i;

		/* C1 controls are 0xc2 0x80 to 0x9f */
		if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
			return false;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(name, words[i]))
			return false;
	return true;
}

static struct row *find(const struct scenes *scenes, const char *name)
{
	for (size_t i = NAMED; i < scenes->count; i++)
		if (!strcmp(scenes->rows[i]->name, name))
			return scenes->rows[i];
	return NULL;
}

static char **find_other(struct scenes *scenes, const char *name)
{
	for (size_t i = 0; i < scenes->other_count; i++)
		if (!strcmp(scenes->others[i], name))
			return &scenes->others[i];
	return NULL;
}

bool scenes_is_open(const struct scenes *scenes, const char *name)
{
	const struct row *row = find(scenes, name);

	return row ? row->open > 0 : find_other((struct scenes *)scenes, name) != NULL;
}

static void open_row(struct row *row, uint64_t at_ns)
{
	if (!row->open++) {
		size_t place = row->opened++ % PERIODS;

		row->kept_ns = row->periods[place].end_ns;
		row->periods[place].begin_ns = at_ns;
		row->periods[place].end_ns = UINT64_MAX;
	}
	row->times++;
}

static void close_row(struct row *row, uint64_t at_ns)
{
	if (!--row->open)
		row->periods[(row->opened - 1) % PERIODS].end_ns = at_ns;
}

/* A scene that has no row of its own. */
static int mark_other(struct scenes *scenes, const char *name, bool end, uint64_t at_ns)
{
	char **place = find_other(scenes, name);

	if (end) {
		free(*place);
		*place = scenes->others[--scenes->other_count];
		close_row(scenes->rows[OTHER], at_ns);
		return 0;
	}
	if (scenes->other_count == OTHERS_OPEN)
		return -ENOSPC;
	scenes->others[scenes->other_count] = strdup(name);
	if (!scenes->others[scenes->other_count])
		return -ENOMEM;
	scenes->other_count++;
	open_row(scenes->rows[OTHER], at_ns);
	return 0;
}

int scenes_mark(struct scenes *scenes, const char *name, bool end, uint64_t at_boot_ns)
{
	struct row *row = find(scenes, name);

	if (!scene_name_is_good(name))
		return -EINVAL;
	if (scenes_is_open(scenes, name) != end)
		return end ? -ENOENT : -EALREADY;
	if (!row && !end && scenes->count < NAMED + SCENES) {
		row = add_row(scenes, name);
		if (!row)
			return -ENOMEM;
	}
	scenes->any = true;
	if (!row)
		return mark_other(scenes, name, end, at_boot_ns);
	if (end)
		close_row(row, at_boot_ns);
	else
		open_row(row, at_boot_ns);
	return 0;
}

/* Whether it was open all the time, or *part of it. */
static bool was_open(const struct row *row, uint64_t begin_ns, uint64_t end_ns, bool *part)
{
	size_t count = row->opened < PERIODS ? (size_t)row->opened : PERIODS;

	for (size_t i = 0; i < count; i++) {
		uint64_t from_ns = row->periods[i].begin_ns, until_ns = row->periods[i].end_ns;

		if (from_ns <= begin_ns && until_ns >= end_ns)
			return true;
		*part |= from_ns < end_ns && until_ns > begin_ns;
	}
	*part |= begin_ns < row->kept_ns;
	return false;
}

void scenes_select(struct scenes *scenes, uint64_t begin_boot_ns, uint64_t end_boot_ns)
{
	bool whole = false, part = false;

	for (size_t i = OTHER; i < scenes->count; i++) {
		struct row *row = scenes->rows[i];

		row->selected = was_open(row, begin_boot_ns, end_boot_ns, &part);
		whole |= row->selected;
	}
	scenes->rows[MIXED]->selected = part;
	scenes->rows[UNKNOWN]->selected = !whole && !part;
}

static double *total(struct row *row, const char *key)
{
	struct summary_total *more;
	size_t at = row->last_total;

	/* They come in the order in which they came before. */
	for (size_t i = 0; i < row->total_count; i++) {
		at = at + 1 < row->total_count ? at + 1 : 0;
		if (!strcmp(row->totals[at].key, key)) {
			row->last_total = at;
			return &row->totals[at].value;
		}
	}
	more = realloc(row->totals, (row->total_count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	row->totals = more;
	more[row->total_count] = (struct summary_total){strdup(key), 0};
	return more[row->total_count].key ? &more[row->total_count++].value : NULL;
}

static int add_to(struct row *row, const char *key, double value)
{
	double *place = total(row, key);

	row->any = true;
	if (!place)
		return -ENOMEM;
	*place += value;
	return 0;
}

static int set_of_row(void *row, const char *key, double value)
{
	double *place = total(row, key);

	if (!place)
		return -ENOMEM;
	*place = value;
	return 0;
}

int scenes_add(struct scenes *scenes, const char *key, double value)
{
	int err = 0;

	for (size_t i = 0; i < scenes->count && !err; i++)
		if (scenes->rows[i]->selected)
			err = add_to(scenes->rows[i], key, value);
	return err;
}

int scenes_add_value(struct scenes *scenes, unsigned distribution, uint64_t value)
{
	return scenes_add_bucket(scenes, distribution, value, value, 1);
}

int scenes_add_bucket(struct scenes *scenes, unsigned distribution, uint64_t low, uint64_t high,
		      uint64_t count)
{
	int err = 0;

	for (size_t i = 0; i < scenes->count && i < SCENES_IN_DEPTH && !err; i++) {
		struct histogram **histogram = &scenes->rows[i]->histograms[distribution];

		if (!scenes->rows[i]->selected)
			continue;
		if (!*histogram)
			*histogram = histogram_new();
		err = *histogram ? histogram_add_bucket(*histogram, low, high, count) : -ENOMEM;
	}
	return err;
}

static int take_row(struct row *row, const char *const *names, size_t count,
		    struct footer_scene *scene)
{
	int err = percentages_set(row->totals, row->total_count, set_of_row, row);

	*scene = (struct footer_scene){
		.name = row->name, .times = row->times, .open_at_end = row->open > 0};
	scene->sums.totals = row->totals;
	scene->sums.total_count = row->total_count;
	scene->sums.distributions = row->distributions;
	for (size_t i = 0; i < count; i++)
		if (row->histograms[i] && histogram_count(row->histograms[i]))
			row->distributions[scene->sums.distribution_count++] =
				summary_describe(row->histograms[i], names[i]);
	return err;
}

int scenes_take(struct scenes *scenes, const char *const *names, size_t count,
		struct record_footer *footer)
{
	int err = 0;

	free(scenes->result);
	scenes->result = NULL;
	footer->scenes = NULL;
	footer->scene_count = 0;
	if (!scenes->any)
		return 0;
	scenes->result = calloc(scenes->count, sizeof(*scenes->result));
	if (!scenes->result)
		return -ENOMEM;
	footer->scenes = scenes->result;
	for (size_t i = 0; i < scenes->count && !err; i++)
		/* A scene without any time is told, too; buckets that are empty are not. */
		if (i >= NAMED || scenes->rows[i]->any)
			err = take_row(scenes->rows[i], names, count,
				       &scenes->result[footer->scene_count++]);
	if (err)
		return err;
	if (scenes->count > SCENES_IN_DEPTH)
		return missing_list_set(&footer->missing, "scenes.*.blocks.wall_ns",
					"distributions are kept of the first 13 scenes");
	return 0;
}
