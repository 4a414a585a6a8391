/* SPDX-License-Identifier: BSD-2-Clause */
#include "alert/metric.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "record/fields.h"
#include "util/hash.h"

#define BLOCK_PREFIX "block."

/* ---- names ---- */

static bool is_number(const struct field *field)
{
	switch ((enum field_kind)field->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_DOUBLE:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
		return field->unit != UNIT_ID && strcmp(field->key, "t_boot_ns") &&
		       strcmp(field->key, "start_boot_ns");
	default:
		return false;
	}
}

/* What the walk over the table looks for: the metric of that name, or, where there is none, the
 * names nearest to it. */
#define NEAREST 3

struct search {
	const char *wanted, *prefix;
	size_t lists[8]; /* where the names of the lists on the way end in the path */
	size_t list_count;
	char found[METRIC_PATH], other[METRIC_PATH];
	bool exact, suggests;
	size_t matches, match_lists; /* in the fewest lists, and how many these are */
	struct {
		size_t distance;
		char path[METRIC_PATH];
	} near[NEAREST];
};

/* Levenshtein's, of two short names; of names that are at least so far apart: that. */
static size_t distance(const char *a, const char *b, size_t most)
{
	size_t row[METRIC_PATH + 1], width = strnlen(b, METRIC_PATH);
	size_t height = strnlen(a, METRIC_PATH), least;

	if ((width > height ? width - height : height - width) >= most)
		return most;
	for (size_t k = 0; k <= width; k++)
		row[k] = k;
	for (size_t i = 0; i < height; i++) {
		size_t diagonal = row[0];

		least = row[0] = i + 1;
		for (size_t k = 0; k < width; k++) {
			size_t best = diagonal + (a[i] != b[k]);

			diagonal = row[k + 1];
			if (row[k] + 1 < best)
				best = row[k] + 1;
			if (row[k + 1] + 1 < best)
				best = row[k + 1] + 1;
			row[k + 1] = best;
			if (best < least)
				least = best;
		}
		if (least >= most)
			return most;
	}
	return row[width];
}

/* The path without the keys of lists: "memory.processes.pss_bytes" is "memory.pss_bytes". */
static void shorten(const struct search *search, const char *path, char *out)
{
	size_t from = 0;

	*out = 0;
	for (size_t i = 0; i < search->list_count; i++) {
		size_t end = search->lists[i], begin = end;

		while (begin > from && path[begin - 1] != '.')
			begin--;
		strncat(out, path + from, begin - from);
		from = end + 1;
	}
	strcat(out, path + from);
}

static void keep_near(struct search *search, const char *full, const char *less)
{
	size_t at = NEAREST, most = SIZE_MAX, far, far_less;

	if (search->near[NEAREST - 1].path[0])
		most = search->near[NEAREST - 1].distance;
	far = distance(search->wanted, full, most);
	far_less = strcmp(full, less) ? distance(search->wanted, less, most) : far;
	if (far_less < far)
		far = far_less;
	while (at && (!search->near[at - 1].path[0] || search->near[at - 1].distance > far))
		at--;
	if (at == NEAREST)
		return;
	memmove(&search->near[at + 1], &search->near[at],
		(NEAREST - 1 - at) * sizeof(search->near[0]));
	search->near[at].distance = far;
	strcpy(search->near[at].path, full);
}

static bool same_end(const char *wanted, const char *path)
{
	size_t length = strlen(wanted), end = strlen(path) - 1;

	return length && wanted[length - 1] == path[end];
}

/* To find a name only those are put together that end with the same character: of thousands of
 * rules a second, which a fuzzer tries, the copies took the most time. */
static void compare(struct search *search, const char *path)
{
	char full[METRIC_PATH], less[METRIC_PATH];
	size_t prefix = strlen(search->prefix);

	if (prefix + strlen(path) >= sizeof(full) ||
	    (!search->suggests && !same_end(search->wanted, path)))
		return;
	memcpy(full, search->prefix, prefix);
	memcpy(less, search->prefix, prefix);
	strcpy(full + prefix, path);
	shorten(search, path, less + prefix);
	if (search->suggests) {
		keep_near(search, full, less);
	} else if (!strcmp(full, search->wanted)) {
		strcpy(search->found, full);
		search->exact = true;
	} else if (!search->exact && !strcmp(less, search->wanted) &&
		   (!search->matches || search->list_count <= search->match_lists)) {
		/* Of a process and of each part of it the process is meant. */
		search->matches = search->list_count == search->match_lists ? search->matches : 0;
		search->match_lists = search->list_count;
		strcpy(search->matches++ ? search->other : search->found, full);
	}
}

static int visit(void *ctx, const struct field_visit *visit)
{
	struct search *search = ctx;
	size_t length = strlen(visit->path);

	/* The lists that the walk has left. */
	while (search->list_count && search->lists[search->list_count - 1] >= length)
		search->list_count--;
	while (search->list_count && visit->path[search->lists[search->list_count - 1]] != '.')
		search->list_count--;
	if (visit->field->kind == FIELD_LIST &&
	    search->list_count < sizeof(search->lists) / sizeof(*search->lists))
		search->lists[search->list_count++] = length;
	if (is_number(visit->field))
		compare(search, visit->path);
	return 0;
}

/* ---- the way to the number ---- */

static bool find_steps(struct metric *metric, const struct field_type *type, const char *path);

static bool find_step(struct metric *metric, const struct field *row, const char *path)
{
	size_t length = strcspn(path, ".");

	if (metric->depth == METRIC_DEPTH)
		return false;
	metric->steps[metric->depth++] = row;
	if (row->kind == FIELD_INLINE) {
		if (find_steps(metric, row->of, path))
			return true;
	} else if (row->key && strlen(row->key) == length && !strncmp(row->key, path, length)) {
		if (!path[length])
			return is_number(row);
		if ((row->kind == FIELD_OBJECT || row->kind == FIELD_POINTER ||
		     row->kind == FIELD_LIST) &&
		    find_steps(metric, row->of, path + length + 1))
			return true;
	}
	metric->depth--;
	return false;
}

static bool find_steps(struct metric *metric, const struct field_type *type, const char *path)
{
	for (size_t i = 0; i < type->count; i++) {
		const struct field *row = &type->fields[i], *part;

		for (size_t k = 0; row->kind == FIELD_PARTS && (part = record_next_part(&k));)
			if (find_step(metric, part, path))
				return true;
		if (row->kind != FIELD_PARTS && find_step(metric, row, path))
			return true;
	}
	return false;
}

/* Sources that list who did something; whoever is in no row did nothing. */
static bool lists_sums(const struct metric *metric)
{
	static const char *const parts[] = {"cpu", "net", "disk"};
	const struct field *leaf = metric->leaf;

	if (leaf->need != FIELD_REQUIRED ||
	    (leaf->unit != UNIT_NS && leaf->unit != UNIT_BYTES && leaf->unit != UNIT_COUNT))
		return false;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (metric->steps[0]->key && !strcmp(metric->steps[0]->key, parts[i]))
			return true;
	return false;
}

static void look_through(struct search *search)
{
	search->prefix = "";
	search->list_count = 0;
	field_each(RECORD_INTERVAL, visit, search);
	search->prefix = BLOCK_PREFIX;
	search->list_count = 0;
	field_each(RECORD_BLOCK, visit, search);
}

static int refuse(struct search *search, char *why, size_t size)
{
	search->suggests = true;
	look_through(search);
	if (search->matches > 1)
		snprintf(why, size, "%.60s is %s and %s: say which", search->wanted, search->found,
			 search->other);
	else
		snprintf(why, size, "there is no metric %.60s; near it: %s, %s, %s", search->wanted,
			 search->near[0].path, search->near[1].path, search->near[2].path);
	return -EINVAL;
}

int metric_find(const char *path, struct metric *metric, char *why, size_t size)
{
	struct search search = {.wanted = path};
	size_t prefix = strlen(BLOCK_PREFIX);

	*metric = (struct metric){.type = RECORD_INTERVAL};
	if (strlen(path) >= METRIC_PATH) {
		snprintf(why, size, "no metric has so long a name");
		return -EINVAL;
	}
	look_through(&search);
	if (!search.exact && search.matches != 1)
		return refuse(&search, why, size);
	strcpy(metric->path, search.found);
	if (!strncmp(search.found, BLOCK_PREFIX, prefix))
		metric->type = RECORD_BLOCK;
	if (!find_steps(metric, record_types[metric->type],
			search.found + (metric->type == RECORD_BLOCK ? prefix : 0)))
		return refuse(&search, why, size);
	metric->leaf = metric->steps[metric->depth - 1];
	metric->sums = lists_sums(metric);
	return 0;
}

/* ---- values ---- */

struct reading {
	const struct metric *metric;
	metric_value_fn fn;
	void *ctx;
	bool known;
};

/* Rows on the way to a value, outermost first. */
struct rows {
	const struct rows *outer;
	const struct field_type *type;
	const void *row;
};

static bool number_of(const struct field *field, const void *object, double *value)
{
	const void *place = (const char *)object + field->offset;

	switch ((enum field_kind)field->kind) {
	case FIELD_U64:
		*value = (double)*(const uint64_t *)place;
		break;
	case FIELD_U32:
		*value = *(const uint32_t *)place;
		break;
	case FIELD_I32:
		*value = *(const int32_t *)place;
		break;
	case FIELD_I64:
		*value = (double)*(const int64_t *)place;
		break;
	case FIELD_DOUBLE:
		*value = *(const double *)place;
		return *value == *value;
	case FIELD_OPT_U64:
		*value = (double)((const struct opt_u64 *)place)->value;
		return ((const struct opt_u64 *)place)->present;
	case FIELD_OPT_I64:
		*value = (double)((const struct opt_i64 *)place)->value;
		return ((const struct opt_i64 *)place)->present;
	default:
		return false;
	}
	/* Of a number whose 0 has no key in the record 0 is the value: it is known. */
	return true;
}

static const char *text_of(const struct field *field, const void *object, char copy[128])
{
	const char *place = (const char *)object + field->offset;

	*copy = 0;
	if (field->kind == FIELD_TEXT)
		snprintf(copy, 128, "%s",
			 *(const char *const *)place ? *(const char *const *)place : "");
	else if (field->kind == FIELD_CHARS)
		snprintf(copy, 128, "%.*s", field->size, place);
	return copy;
}

struct naming {
	struct metric_subject *subject;
	char thread[128], process[128], package[128], other[128];
	int64_t tid, uid;
};

/* Names change while a thread or process stays the same: its ids and its start make it. */
static char *name_place(struct naming *naming, const char *key)
{
	return !strcmp(key, "thread")    ? naming->thread
	       : !strcmp(key, "process") ? naming->process
	       : !strcmp(key, "package") ? naming->package
					 : NULL;
}

static void name_row(struct naming *naming, const struct field_type *type, const void *row,
		     bool block)
{
	for (size_t i = 0; i < type->count; i++) {
		const struct field *field = &type->fields[i];
		char copy[128], *place;
		double value;
		int64_t id;

		if (field->kind == FIELD_INLINE)
			name_row(naming, field->of, (const char *)row + field->offset, block);
		if (!field->key)
			continue;
		if ((field->kind == FIELD_TEXT || field->kind == FIELD_CHARS) &&
		    field->unit == UNIT_NAME && !field->words) {
			text_of(field, row, copy);
			place = name_place(naming, field->key);
			if (!place && !block && strcmp(field->key, "status")) {
				place = naming->other;
				naming->subject->identity =
					hash_bytes(copy, strlen(copy), naming->subject->identity);
			}
			if (place && copy[0])
				strcpy(place, copy);
			continue;
		}
		if ((field->unit != UNIT_ID && (block || strcmp(field->key, "start_boot_ns"))) ||
		    !number_of(field, row, &value))
			continue;
		id = (int64_t)value;
		if (block && strcmp(field->key, "pid") && strcmp(field->key, "tid"))
			continue;
		naming->subject->identity = hash_bytes(&id, sizeof(id), naming->subject->identity);
		if (!strcmp(field->key, "pid"))
			naming->subject->pid = (pid_t)id;
		else if (!strcmp(field->key, "tid"))
			naming->tid = id;
		else if (!strcmp(field->key, "uid"))
			naming->uid = id;
	}
}

static void name_rows(struct naming *naming, const struct rows *rows, bool block)
{
	if (!rows)
		return;
	name_rows(naming, rows->outer, block);
	name_row(naming, rows->type, rows->row, block);
}

static void put_subject(const struct reading *reading, const struct rows *rows,
			struct metric_subject *subject)
{
	struct naming naming = {.subject = subject, .tid = -1, .uid = -1};
	const char *name;
	size_t n;

	*subject = (struct metric_subject){0};
	if (!rows)
		return;
	name_rows(&naming, rows, reading->metric->type == RECORD_BLOCK);
	if (!subject->identity)
		subject->identity = 1;
	name = naming.other[0]     ? naming.other
	       : naming.package[0] ? naming.package
	       : naming.process[0] ? naming.process
				   : naming.thread;
	n = (size_t)snprintf(subject->text, sizeof(subject->text), "%.56s%s", name,
			     *name ? " " : "");
	if (naming.tid > 0)
		snprintf(subject->text + n, sizeof(subject->text) - n, "(tid %" PRId64 ")",
			 naming.tid);
	else if (subject->pid > 0)
		snprintf(subject->text + n, sizeof(subject->text) - n, "(pid %d)", subject->pid);
	else if (naming.uid >= 0)
		snprintf(subject->text + n, sizeof(subject->text) - n, "(uid %" PRId64 ")",
			 naming.uid);
	else if (n && subject->text[n - 1] == ' ')
		subject->text[n - 1] = 0;
	/* A name is its owner's: it goes to a terminal and into an environment. */
	for (char *p = subject->text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f || (unsigned char)*p >= 0x80)
			*p = '?';
}

static void read_step(struct reading *reading, size_t step, const void *object,
		      const struct rows *rows)
{
	const struct field *field = reading->metric->steps[step];
	const char *place = (const char *)object + field->offset;
	const char *more = (const char *)object + field->more_offset;
	struct metric_subject subject;
	double value;

	if (step + 1 == reading->metric->depth) {
		reading->known = true;
		if (!number_of(field, object, &value))
			return;
		put_subject(reading, rows, &subject);
		reading->fn(reading->ctx, value, &subject);
		return;
	}
	switch ((enum field_kind)field->kind) {
	case FIELD_OBJECT:
		for (size_t i = 0; i < field->more_size; i++) {
			if (more[i])
				break;
			if (i + 1 == field->more_size)
				return;
		}
		read_step(reading, step + 1, place, rows);
		break;
	case FIELD_INLINE:
		read_step(reading, step + 1, place, rows);
		break;
	case FIELD_POINTER:
		if (*(const void *const *)(const void *)place)
			read_step(reading, step + 1, *(const void *const *)(const void *)place,
				  rows);
		break;
	case FIELD_LIST: {
		const char *list = *(const char *const *)(const void *)place;
		size_t count = *(const size_t *)(const void *)more;

		reading->known = true;
		for (size_t i = 0; i < count; i++) {
			struct rows row = {rows, field->of, list + i * field->of->size};

			read_step(reading, step + 1, row.row, &row);
		}
		break;
	}
	default:
		break;
	}
}

bool metric_read(const struct metric *metric, const struct record *record, metric_value_fn fn,
		 void *ctx)
{
	struct reading reading = {metric, fn, ctx, false};
	struct rows block = {NULL, record_types[RECORD_BLOCK], NULL};

	if (record->type != metric->type)
		return false;
	/* The union's members are all pointers. */
	block.row = record->header;
	read_step(&reading, 0, record->header, record->type == RECORD_BLOCK ? &block : NULL);
	return reading.known;
}
