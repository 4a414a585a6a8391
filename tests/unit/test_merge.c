/* SPDX-License-Identifier: BSD-2-Clause */
/* What --keep makes of intervals, against what the rules of the table say of every field. */
#include <errno.h>
#include <string.h>

#include "random_records.h"
#include "record/json_read.h"
#include "record/merge.h"
#include "store/line.h"
#include "store/thin.h"

/* ---- the table ---- */

static bool has_key(const struct field_type *type)
{
	bool found = false;

	for (size_t i = 0; i < type->count; i++)
		found |= type->fields[i].merge == MERGE_KEY ||
			 (type->fields[i].kind == FIELD_INLINE && has_key(type->fields[i].of));
	return found;
}

static int check_rule(void *ctx, const struct field_visit *visit)
{
	const struct field *field = visit->field;

	switch ((enum field_kind)field->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_DOUBLE:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
		cr_expect(field->merge != MERGE_DEFAULT || field->unit == UNIT_ID,
			  "interval field %s says not what it is in a merged interval: put "
			  "MERGED(SUM), MERGED(LAST) or another rule of field.h into its row",
			  visit->path);
		break;
	case FIELD_LIST:
		cr_expect(field->merge == MERGE_LAST || has_key(field->of),
			  "the rows of interval list %s have no MERGED(KEY)", visit->path);
		break;
	default:
		break;
	}
	++*(int *)ctx;
	return 0;
}

Test(merge, every_field_of_an_interval_has_a_rule)
{
	int count = 0;

	field_each(RECORD_INTERVAL, check_rule, &count);
	cr_expect_gt(count, 100);
}

/* ---- every field, against a second account ---- */

/* What is expected of each place: {rule, value, lists of it}, by its path with the keys of rows. */
struct account {
	json_t *places, *rows; /* rows: in how many intervals an object with MERGE_ABSENT is */
	size_t checked;
};

static void visit_object(const struct field_type *type, const json_t *object, const char *path,
			 void (*fn)(struct account *account, const char *path,
				    const struct field *row, const json_t *value),
			 struct account *account);

static void visit_row(const struct field *row, const json_t *object, const char *path,
		      void (*fn)(struct account *account, const char *path, const struct field *row,
				 const json_t *value),
		      struct account *account)
{
	const json_t *value = json_object_get(object, row->key);
	char place[512], key[64];
	const char *name;
	json_t *element;
	size_t i;

	snprintf(place, sizeof(place), "%s.%s", path, row->key);
	if (!value || !strcmp(row->key, "merged"))
		return;
	if (row->kind == FIELD_OBJECT || row->kind == FIELD_POINTER) {
		visit_object(row->of, value, place, fn, account);
	} else if (row->kind == FIELD_LIST && row->merge != MERGE_LAST) {
		json_array_foreach ((json_t *)value, i, element) {
			/* All keys of a thing are made of its number. */
			char *text = NULL;

			for (size_t k = 0; k < row->of->count && !text; k++)
				if (row->of->fields[k].merge == MERGE_KEY &&
				    row->of->fields[k].kind != FIELD_INLINE)
					text = json_dumps(
						json_object_get(element, row->of->fields[k].key),
						JSON_ENCODE_ANY);
			if (!text)
				text = json_dumps(json_object_get(element, "name"),
						  JSON_ENCODE_ANY);
			snprintf(place, sizeof(place), "%s.%s[%s]", path, row->key, text);
			free(text);
			visit_object(row->of, element, place, fn, account);
		}
	} else if (row->kind == FIELD_COUNTERS || row->kind == FIELD_MISSING) {
		json_object_foreach ((json_t *)value, name, element) {
			snprintf(place, sizeof(place), "%s.%s.%s", path, row->key, name);
			fn(account, place, row, element);
		}
	} else if (row->kind == FIELD_HISTOGRAM) {
		json_array_foreach ((json_t *)value, i, element) {
			snprintf(key, sizeof(key), "%lld-%lld",
				 json_integer_value(json_array_get(element, 0)),
				 json_integer_value(json_array_get(element, 1)));
			snprintf(place, sizeof(place), "%s.%s.%s", path, row->key, key);
			fn(account, place, row, json_array_get(element, 2));
		}
	} else {
		fn(account, place, row, value);
	}
}

static void visit_object(const struct field_type *type, const json_t *object, const char *path,
			 void (*fn)(struct account *account, const char *path,
				    const struct field *row, const json_t *value),
			 struct account *account)
{
	json_t *seen = json_object_get(account->rows, path);

	json_object_set_new(account->rows, path,
			    json_integer(1 + (seen ? json_integer_value(seen) : 0)));
	for (size_t i = 0; i < type->count; i++) {
		const struct field *row = &type->fields[i], *part;

		if (row->kind == FIELD_INLINE)
			for (size_t k = 0; k < row->of->count; k++)
				visit_row(&row->of->fields[k], object, path, fn, account);
		for (size_t k = 0; row->kind == FIELD_PARTS && (part = record_next_part(&k));)
			visit_row(part, object, path, fn, account);
		if (row->key && row->kind != FIELD_INLINE && row->kind != FIELD_PARTS)
			visit_row(row, object, path, fn, account);
	}
}

static void expect_value(struct account *account, const char *path, const struct field *row,
			 const json_t *value)
{
	json_t *before = json_object_get(account->places, path);
	double a = json_number_value(before), b = json_number_value(value);
	bool sum = row->merge == MERGE_SUM || row->kind == FIELD_COUNTERS ||
		   row->kind == FIELD_HISTOGRAM;

	/* Between the least and the most; a test of its own has its value. */
	if (row->merge == MERGE_MEAN) {
		double least = before ? json_real_value(json_array_get(before, 0)) : b;
		double most = before ? json_real_value(json_array_get(before, 1)) : b;

		json_object_set_new(account->places, path,
				    json_pack("[f,f]", b < least ? b : least, b > most ? b : most));
		return;
	}
	if (before && sum && json_is_integer(value))
		json_object_set_new(
			account->places, path,
			json_integer(json_integer_value(before) + json_integer_value(value)));
	else if (before && row->merge == MERGE_MIN)
		json_object_set_new(account->places, path, json_deep_copy(a < b ? before : value));
	else if (before && row->merge == MERGE_MAX)
		json_object_set_new(account->places, path, json_deep_copy(a > b ? before : value));
	else
		json_object_set_new(account->places, path, json_deep_copy(value));
}

static void check_value(struct account *account, const char *path, const struct field *row,
			const json_t *value)
{
	const json_t *expected = json_object_get(account->places, path);

	account->checked++;
	cr_assert_not_null(expected, "%s came from nowhere", path);
	if (row->merge == MERGE_MEAN) {
		cr_expect(json_number_value(value) >=
					  json_real_value(json_array_get(expected, 0)) &&
				  json_number_value(value) <=
					  json_real_value(json_array_get(expected, 1)),
			  "%s", path);
		return;
	}
	cr_expect(json_equal(expected, value), "%s: %s instead of %s", path,
		  json_dumps(value, JSON_ENCODE_ANY), json_dumps(expected, JSON_ENCODE_ANY));
}

static void fill_text(void *ctx, const struct field *row, char *to, size_t size)
{
	struct random_records *r = ctx;

	if (row->unit == UNIT_UUID)
		snprintf(to, size, "01234567-89ab-cdef-0123-456789abcdef");
	else
		snprintf(to, size, "t%u", random_below(r, 1000));
}

static json_t *random_interval(struct random_records *r, json_int_t seq)
{
	json_t *interval = random_object(r, record_types[RECORD_INTERVAL], 0);

	json_object_del(interval, "merged");
	json_object_del(interval, "marked");
	json_object_del(json_object_get(interval, "frames"), "history");
	json_object_set_new(interval, "type", json_string("interval"));
	json_object_set_new(interval, "seq", json_integer(seq));
	json_object_set_new(interval, "t_boot_ns", json_integer(seq * 1000000000));
	json_object_set_new(interval, "dur_ns", json_integer(900000000));
	return interval;
}

static json_t *merge_all(json_t **intervals, size_t count)
{
	struct interval_merge *merge = interval_merge_new();
	json_t *object;
	size_t length;
	char *line;

	for (size_t i = 0; i < count; i++) {
		json_t *copy = json_deep_copy(intervals[i]);

		cr_assert_eq(interval_merge_add(merge, copy), 0);
		json_decref(copy);
	}
	line = interval_merge_line(merge, &length);
	cr_assert_not_null(line);
	cr_expect(line_is_whole(line, length - 1));
	object = json_loadb(line, length - 1, 0, NULL);
	free(line);
	interval_merge_free(merge);
	return object;
}

/* A place that has to be absent is none of the expected ones. */
static void drop_absent(struct account *account)
{
	const char *path;
	json_t *value;
	void *next;

	json_object_foreach_safe(account->places, next, path, value)
	{
		const char *dot = strrchr(path, '.');
		char object[512];

		if (strcmp(dot, ".fps_active") && strcmp(dot, ".rtt_mean_ns"))
			continue;
		snprintf(object, sizeof(object), "%.*s", (int)(dot - path), path);
		if (json_integer_value(json_object_get(account->rows, object)) > 1)
			json_object_del(account->places, path);
	}
}

#define INTERVALS 9

static void check_merge(unsigned seed, bool in_two_steps)
{
	struct random_records r = {.seed = seed, .text = fill_text, .ctx = &r};
	struct account account = {.places = json_object(), .rows = json_object()};
	json_t *intervals[INTERVALS], *merged, *parts[2];
	const json_t *told;
	size_t places;

	for (int i = 0; i < INTERVALS; i++) {
		intervals[i] = random_interval(&r, 10 + 2 * i);
		visit_object(record_types[RECORD_INTERVAL], intervals[i], "", expect_value,
			     &account);
	}
	drop_absent(&account);
	if (in_two_steps) {
		parts[0] = merge_all(intervals, 4);
		parts[1] = merge_all(intervals + 4, INTERVALS - 4);
		merged = merge_all(parts, 2);
		json_decref(parts[0]);
		json_decref(parts[1]);
	} else {
		merged = merge_all(intervals, INTERVALS);
	}
	visit_object(record_types[RECORD_INTERVAL], merged, "", check_value, &account);
	places = json_object_size(account.places);
	cr_expect_eq(account.checked, places, "%zu of %zu places are there", account.checked,
		     places);
	told = json_object_get(merged, "merged");
	cr_expect_eq(json_integer_value(json_object_get(told, "intervals")), INTERVALS);
	cr_expect_eq(json_integer_value(json_object_get(told, "begin_boot_ns")), 9100000000);
	cr_expect_eq(json_integer_value(json_object_get(merged, "t_boot_ns")),
		     (10 + 2 * (INTERVALS - 1)) * 1000000000ll);
	cr_expect_eq(json_array_size(json_object_get(told, "seqs")), INTERVALS);
	for (int i = 0; i < INTERVALS; i++)
		json_decref(intervals[i]);
	json_decref(merged);
	json_decref(account.places);
	json_decref(account.rows);
}

Test(merge, sums_are_those_of_the_intervals_in_every_field)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		check_merge(seed, false);
		check_merge(seed, true);
	}
}

/* ---- a mean, reasons, what cannot be merged ---- */

static json_t *power_interval(int seq, int ua)
{
	struct random_records r = {
		.seed = (unsigned)seq, .all = true, .text = fill_text, .ctx = &r};
	json_t *interval = random_interval(&r, seq);

	json_object_set_new(json_object_get(interval, "power"), "current_ua", json_integer(ua));
	return interval;
}

Test(merge, a_mean_is_that_of_all_intervals)
{
	json_t *intervals[4] = {power_interval(1, -100), power_interval(2, -200),
				power_interval(3, -300), power_interval(4, -401)};
	json_t *three = merge_all(intervals, 3), *parts[2] = {three, intervals[3]}, *all;

	/* An interval without power weighs nothing. */
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(three, "power"), "current_ua")),
		-200);
	all = merge_all(parts, 2);
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(all, "power"), "current_ua")),
		-250);
	for (int i = 0; i < 4; i++)
		json_decref(intervals[i]);
	json_decref(three);
	json_decref(all);
}

Test(merge, what_no_row_declares_is_not_merged)
{
	struct random_records r = {.seed = 7, .all = true, .text = fill_text, .ctx = &r};
	static const char *const places[] = {NULL, "cpu", "self"};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct interval_merge *merge = interval_merge_new();
		json_t *interval = random_interval(&r, 5);
		json_t *at = places[i] ? json_object_get(interval, places[i]) : interval;

		json_object_set_new(at, "of_a_newer_version", json_integer(1));
		cr_expect_eq(interval_merge_add(merge, interval), -ENOTSUP);
		interval_merge_free(merge);
		json_decref(interval);
	}
}

Test(merge, sums_that_do_not_fit_are_not_merged)
{
	struct random_records r = {.seed = 8, .all = true, .text = fill_text, .ctx = &r};
	struct interval_merge *merge = interval_merge_new();
	json_t *a = random_interval(&r, 5), *b = random_interval(&r, 6);

	json_object_set_new(json_object_get(a, "cpu"), "busy_ns", json_integer(INT64_MAX - 5));
	json_object_set_new(json_object_get(b, "cpu"), "busy_ns", json_integer(6));
	cr_expect_eq(interval_merge_add(merge, a), 0);
	cr_expect_eq(interval_merge_add(merge, b), -ENOTSUP);
	interval_merge_free(merge);
	json_decref(a);
	json_decref(b);
}

/* ---- lines of a segment ---- */

struct lines {
	json_t *objects[64];
	char *texts[64];
	size_t count;
};

static int keep_line(void *ctx, const char *line, size_t length)
{
	struct lines *lines = ctx;

	cr_assert(length && line[length - 1] == '\n' && line_is_whole(line, length - 1));
	lines->texts[lines->count] = strndup(line, length);
	lines->objects[lines->count++] = json_loadb(line, length - 1, 0, NULL);
	return 0;
}

static char *end_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *end_line(const char *format, ...)
{
	char *line = malloc(1024);
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(line, 900, format, arguments);
	va_end(arguments);
	line_put_crc(line + n, line, (size_t)n);
	return line;
}

static char *interval_line(int seq, long ms, const char *more)
{
	return end_line(
		"{\"type\":\"interval\",\"seq\":%d,\"t_boot_ns\":%ld000000,\"dur_ns\":100000000"
		"%s,\"lost\":{\"x\":1},\"late\":{},\"repaired\":{},\"missing\":{},\"self\":{"
		"\"cpu_ns\":5,\"stops\":1,\"stop_max_ns\":%d}",
		seq, ms, more, seq);
}

static char *event_line(int seq, const char *event)
{
	return end_line("{\"type\":\"event\",\"seq\":%d,\"t_boot_ns\":%d,\"event\":\"%s\"", seq,
			seq, event);
}

static char *header_line(void)
{
	return end_line("{\"type\":\"header\",\"seq\":0,\"t_boot_ns\":1,\"schema\":1,\"segment\":{"
			"\"number\":3,\"first_seq\":10}");
}

static struct lines thin(char **lines, size_t count, uint64_t resolution_ns, uint64_t *merged)
{
	struct lines kept = {.count = 0};
	struct thinner *thinner = thinner_new(resolution_ns, keep_line, &kept);

	for (size_t i = 0; i < count; i++)
		cr_assert_eq(thinner_line(thinner, lines[i], strlen(lines[i])), 0, "%s", lines[i]);
	cr_assert_eq(thinner_end(thinner), 0);
	*merged = thinner_merged(thinner);
	thinner_free(thinner);
	return kept;
}

static json_int_t seq_of(const struct lines *lines, size_t i)
{
	return json_integer_value(json_object_get(lines->objects[i], "seq"));
}

Test(merge, windows_keep_the_order_of_what_stands_between)
{
	char *lines[] = {
		header_line(),
		interval_line(10, 100, ""),
		interval_line(11, 200, ""),
		event_line(12, "target_exit"),
		interval_line(13, 1000, ""), /* the last of the first second */
		event_line(14, "target_start"),
		interval_line(15, 1100, ""),
		interval_line(16, 1200, ""),
		event_line(17, "mark"), /* parts the time */
		interval_line(18, 1300, ""),
		interval_line(19, 1400, ",\"marked\":true"),
		interval_line(20, 1500, ""),
	};
	const json_int_t seqs[] = {0, 12, 13, 14, 16, 17, 19, 20};
	uint64_t merged;
	struct lines kept = thin(lines, sizeof(lines) / sizeof(*lines), 1000000000, &merged);
	const json_t *told;

	cr_assert_eq(kept.count, sizeof(seqs) / sizeof(*seqs));
	for (size_t i = 0; i < kept.count; i++)
		cr_expect_eq(seq_of(&kept, i), seqs[i], "line %zu", i);
	cr_expect_eq(merged, 4);
	cr_expect_str_eq(kept.texts[1], lines[3]);
	cr_expect_str_eq(kept.texts[7], lines[11], "an interval that is alone stays as it is");
	told = json_object_get(kept.objects[2], "merged");
	cr_expect_eq(json_integer_value(json_object_get(told, "intervals")), 3);
	cr_expect_eq(json_array_size(json_object_get(told, "seqs")), 2);
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(kept.objects[2], "lost"), "x")),
		3);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(kept.objects[0], "segment"),
							"resolution_ns")),
		     1000000000);
}

Test(merge, a_window_that_cannot_be_merged_stays_as_it_was)
{
	char *lines[] = {
		header_line(),
		interval_line(10, 100, ""),
		event_line(11, "target_exit"),
		interval_line(12, 200, ",\"newer\":1"),
		interval_line(13, 300, ""),
	};
	uint64_t merged;
	struct lines kept = thin(lines, 5, 1000000000, &merged);

	cr_assert_eq(kept.count, 5);
	cr_expect_eq(merged, 0);
	for (size_t i = 1; i < 5; i++)
		cr_expect_str_eq(kept.texts[i], lines[i]);
}

Test(merge, a_damaged_line_ends_the_work)
{
	struct lines kept = {.count = 0};
	struct thinner *thinner = thinner_new(1000000000, keep_line, &kept);
	char *line = interval_line(10, 100, "");

	line[20] ^= 1;
	cr_expect_eq(thinner_line(thinner, line, strlen(line)), -EBADMSG);
	cr_expect_eq(thinner_line(thinner, line, strlen(line) - 1), -EBADMSG);
	cr_expect_eq(thinner_line(thinner, "", 0), -EBADMSG);
	thinner_free(thinner);
}
