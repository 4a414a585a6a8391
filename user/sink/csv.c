/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/fields.h"
#include "record/histogram.h"
#include "sink/csv_cells.h"
#include "sink/csv_plan.h"
#include "sink/csv_subject.h"
#include "util/clock.h"

#define PATH_BYTES 192

/* A row at the most: texts in the columns, the name, the path and the value, and numbers. */
#define ROW_BYTES (CSV_TEXT_MOST * (CSV_COLUMNS + 3) + 256)
_Static_assert(ROW_BYTES < CSV_CELLS_BYTES / 2, "many rows are written at a time");

#define HEAD \
	"record,seq,t_boot_ns,time,pid,tid,uid,package,process,thread,name,metric,unit,value\r\n"

struct csv {
	struct sink base;
	FILE *to;
	const struct record *record;
	uint64_t boot_ns, unix_ns; /* the clocks of the header */
	char time[40];             /* of the record; empty: not known */
	char path[PATH_BYTES];     /* of the metric */
	size_t path_length;
	uint64_t subjects; /* so far */
	uint64_t head_of;  /* the id of the subject whose row's head is in `head` */
	struct csv_plans *plans;
	size_t record_length; /* of what all rows of the record have in `head` */
	struct csv_cells head, rows;
};

/* ---- rows ---- */

/* What all rows of a record begin with. */
static void put_record_head(struct csv *csv)
{
	struct csv_cells *head = &csv->head;

	head->length = 0;
	csv_put_plain(head, record_type_names[csv->record->type]);
	csv_put_plain(head, ",");
	csv_put_whole(head, csv->record->seq, false);
	csv_put_plain(head, ",");
	csv_put_whole(head, csv->record->t_boot_ns, false);
	csv_put_plain(head, ",");
	csv_put_plain(head, csv->time);
	csv->record_length = head->length;
}

/* What all rows of a subject begin with: a few subjects have most of the rows of a record. */
static void put_head(struct csv *csv, const struct csv_subject *subject)
{
	struct csv_cells *head = &csv->head;

	head->length = csv->record_length;
	for (size_t i = 0; i < CSV_COLUMNS; i++) {
		csv_put_plain(head, ",");
		if (subject->texts[i])
			csv_put_text(head, subject->texts[i], subject->lengths[i]);
		else if (subject->numbers[i].known)
			csv_put_whole(head, subject->numbers[i].value,
				      subject->numbers[i].is_signed);
	}
	csv_put_plain(head, ",");
	if (subject->name)
		csv_put_text(head, subject->name, subject->name_length);
	csv_put_plain(head, ",");
	csv->head_of = subject->id;
}

static void begin_any(struct csv *csv, const struct csv_subject *subject)
{
	if (csv->head_of != subject->id)
		put_head(csv, subject);
	if (csv->rows.length > sizeof(csv->rows.bytes) - ROW_BYTES)
		csv_cells_flush(&csv->rows, csv->to);
	csv_put_bytes(&csv->rows, csv->head.bytes, csv->head.length);
}

/* All of a row but its value. `made_up`: the key path has keys of counters or events in it, which
 * a file can make up. */
static void begin_row(struct csv *csv, const struct csv_subject *subject, const char *unit,
		      bool made_up)
{
	begin_any(csv, subject);
	if (made_up)
		csv_put_text(&csv->rows, csv->path, csv->path_length);
	else
		csv_put_bytes(&csv->rows, csv->path, csv->path_length);
	csv_put_plain(&csv->rows, ",");
	csv_put_plain(&csv->rows, unit);
	csv_put_plain(&csv->rows, ",");
}

static void end_row(struct csv *csv)
{
	csv_put_plain(&csv->rows, "\r\n");
}

/* The row of a whole number, by the plan of its field: nearly all rows are of this kind. */
static void put_whole_row(struct csv *csv, const struct csv_subject *subject,
			  const struct csv_plan_row *plan, const struct csv_number *number,
			  size_t prefix)
{
	if (prefix + (prefix > 0) + plan->key_length >= sizeof(csv->path))
		return;
	begin_any(csv, subject);
	if (prefix) {
		csv_put_bytes(&csv->rows, csv->path, prefix);
		csv_put_bytes(&csv->rows, ".", 1);
	}
	csv_put_bytes(&csv->rows, plan->tail, plan->tail_length);
	csv_put_whole(&csv->rows, number->value, number->is_signed);
	end_row(csv);
}

/* ---- values ---- */

static void put_fields(struct csv *csv, const struct csv_subject *subject,
		       const struct csv_plan *plan, const void *object, size_t prefix);

/* Where there is no memory for a plan, the table ends with that error. */
static const struct csv_plan *plan_of(struct csv *csv, const struct field_type *type)
{
	const struct csv_plan *plan = csv_plan_of(csv->plans, type);

	if (!plan)
		csv->rows.err = csv->rows.err ?: -ENOMEM;
	return plan;
}

static void put_number_row(struct csv *csv, const struct csv_subject *subject, const char *unit,
			   double value, bool made_up)
{
	if (!isfinite(value))
		return;
	begin_row(csv, subject, unit, made_up);
	csv_put_real(&csv->rows, value,
		     fabs(value) < 9e15 && value == trunc(value) ? "%.0f" : "%.17g");
	end_row(csv);
}

/* A stack is a list of frames, and no figure. */
static bool is_stack(const struct field_type *type)
{
	return (type->name[0] == 's' &&
		(!strcmp(type->name, "stack") || !strcmp(type->name, "stack_body"))) ||
	       (type->name[0] == 'l' && !strcmp(type->name, "link"));
}

/* Append a key to the path; the length of it, or 0 where there is no room. */
static size_t add_key(struct csv *csv, size_t prefix, const char *key)
{
	size_t length = strlen(key), at = prefix + (prefix > 0);

	if (at + length >= sizeof(csv->path))
		return 0;
	if (prefix)
		csv->path[prefix] = '.';
	memcpy(csv->path + at, key, length);
	csv->path_length = at + length;
	return at + length;
}

/* Rows whose keys are names of their own: the name has its column, and is not in the path, so that
 * a metric has one path. */
static void put_named(struct csv *csv, const struct csv_subject *parent,
		      const struct field_type *type, const char *rows, size_t count, size_t prefix)
{
	const struct csv_plan *plan = plan_of(csv, type);

	for (size_t i = 0; i < count; i++) {
		struct csv_subject subject = *parent;

		subject.id = ++csv->subjects;
		subject.name = *(const char *const *)(const void *)(rows + i * type->size +
								    type->name_offset);
		subject.name_length = SIZE_MAX;
		put_fields(csv, &subject, plan, rows + i * type->size, prefix);
	}
}

static void put_rows(struct csv *csv, const struct csv_subject *parent,
		     const struct field_type *type, const char *rows, size_t count, size_t prefix)
{
	const struct csv_plan *plan = plan_of(csv, type);

	for (size_t i = 0; i < count; i++) {
		struct csv_subject subject = *parent;

		subject.id = ++csv->subjects;
		subject.name = NULL;
		csv_know_subject(&subject, csv->plans, plan, rows + i * type->size, true);
		put_fields(csv, &subject, plan, rows + i * type->size, prefix);
	}
}

static void put_object(struct csv *csv, const struct csv_subject *parent,
		       const struct field_type *type, const void *object, size_t prefix)
{
	const struct csv_plan *plan = plan_of(csv, type);
	struct csv_subject subject = *parent;

	if (csv_know_subject(&subject, csv->plans, plan, object, false))
		subject.id = ++csv->subjects;
	put_fields(csv, &subject, plan, object, prefix);
}

static void put_counters(struct csv *csv, const struct csv_subject *subject,
			 const struct counter_list *list, size_t prefix)
{
	for (size_t i = 0; i < list->count; i++)
		if (add_key(csv, prefix, list->items[i].name)) {
			const char *unit = key_unit_name(list->items[i].name);

			begin_row(csv, subject, *unit ? unit : "count", true);
			csv_put_whole(&csv->rows, list->items[i].value, false);
			end_row(csv);
		}
}

static void put_missing(struct csv *csv, const struct csv_subject *subject,
			const struct missing_list *list, size_t prefix)
{
	for (size_t i = 0; i < list->count; i++)
		if (add_key(csv, prefix, list->items[i].key)) {
			begin_row(csv, subject, "", true);
			csv_put_text(&csv->rows, list->items[i].reason, SIZE_MAX);
			end_row(csv);
		}
}

struct buckets {
	struct csv *csv;
	const struct csv_subject *subject;
	size_t prefix;
};

static void put_bucket(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	struct buckets *buckets = ctx;
	char key[48];

	snprintf(key, sizeof(key), "%" PRIu64 "..%" PRIu64, low, high);
	if (!add_key(buckets->csv, buckets->prefix, key))
		return;
	begin_row(buckets->csv, buckets->subject, "count", false);
	csv_put_whole(&buckets->csv->rows, count, false);
	end_row(buckets->csv);
}

static void put_event_keys(struct csv *csv, const struct csv_subject *subject,
			   const struct record_event *event)
{
	for (size_t i = 0; i < event->key_count; i++) {
		if (!add_key(csv, 0, event->keys[i].name))
			continue;
		begin_row(csv, subject,
			  event->keys[i].text ? "" : key_unit_name(event->keys[i].name), true);
		if (event->keys[i].text)
			csv_put_text(&csv->rows, event->keys[i].text, SIZE_MAX);
		else if (event->keys[i].real)
			csv_put_real(&csv->rows, event->keys[i].number, "%.17g");
		else
			csv_put_whole(&csv->rows, (uint64_t)event->keys[i].value, true);
		end_row(csv);
	}
}

static void put_totals(struct csv *csv, const struct csv_subject *subject,
		       const struct record_footer *footer, size_t prefix)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (add_key(csv, prefix, footer->totals[i].key))
			put_number_row(csv, subject, key_unit_name(footer->totals[i].key),
				       footer->totals[i].value, true);
	for (size_t i = 0; i < footer->distribution_count; i++) {
		const struct record_distribution *d = &footer->distributions[i];
		const struct {
			const char *key;
			double value;
		} figures[] = {{"n", (double)d->n}, {"min", d->min}, {"max", d->max},
			       {"mean", d->mean},   {"p50", d->p50}, {"p90", d->p90},
			       {"p95", d->p95},     {"p99", d->p99}};
		size_t length = add_key(csv, prefix, d->name);

		for (size_t k = 0; length && k < sizeof(figures) / sizeof(*figures); k++)
			if (add_key(csv, length, figures[k].key))
				put_number_row(csv, subject, k ? key_unit_name(d->name) : "count",
					       figures[k].value, true);
	}
}

/* One that is no whole number and has no column. */
static void put_field(struct csv *csv, const struct csv_subject *subject, const struct field *row,
		      const void *object, size_t prefix)
{
	const void *place = (const char *)object + row->offset;
	const void *more = (const char *)object + row->more_offset;
	const struct field *part;
	const char *text;
	size_t length;

	if (row->kind == FIELD_INLINE) {
		put_fields(csv, subject, plan_of(csv, row->of), place, prefix);
		return;
	}
	if (row->kind == FIELD_PARTS) {
		/* Objects each, which have no row of their own. */
		for (size_t i = 0; (part = record_next_part(&i));)
			put_field(csv, subject, part, object, prefix);
		return;
	}
	if (row->kind == FIELD_EVENT_KEYS) {
		put_event_keys(csv, subject, object);
		return;
	}
	if (row->kind == FIELD_TOTALS) {
		put_totals(csv, subject, object, prefix);
		return;
	}
	length = add_key(csv, prefix, row->key);
	if (!length)
		return;
	switch ((enum field_kind)row->kind) {
	case FIELD_OBJECT: {
		bool there = !row->more_size;

		for (size_t i = 0; i < row->more_size; i++)
			there |= ((const char *)more)[i] != 0;
		if (there && !is_stack(row->of))
			put_object(csv, subject, row->of, place, length);
		return;
	}
	case FIELD_POINTER:
		if (*(const void *const *)place && !is_stack(row->of))
			put_object(csv, subject, row->of, *(const void *const *)place, length);
		return;
	case FIELD_LIST:
		if (!is_stack(row->of))
			put_rows(csv, subject, row->of, *(const char *const *)place,
				 *(const size_t *)more, length);
		return;
	case FIELD_NAMED:
		put_named(csv, subject, row->of, *(const char *const *)place, *(const size_t *)more,
			  length);
		return;
	case FIELD_COUNTERS:
		put_counters(csv, subject, place, length);
		return;
	case FIELD_MISSING:
		put_missing(csv, subject, place, length);
		return;
	case FIELD_HISTOGRAM:
		if (*(const struct histogram *const *)place)
			histogram_each(*(const struct histogram *const *)place, put_bucket,
				       &(struct buckets){csv, subject, length});
		return;
	case FIELD_DOUBLE:
		if (row->need != FIELD_NONZERO || *(const double *)place > 0)
			put_number_row(csv, subject, field_unit_name(row), *(const double *)place,
				       false);
		return;
	default:
		break;
	}
	text = csv_text_of(row, place, &length);
	if (text && text == subject->name)
		return; /* it is in its column */
	if (!text)
		return;
	begin_row(csv, subject, "", false);
	csv_put_text(&csv->rows, text, length);
	end_row(csv);
}

static void put_fields(struct csv *csv, const struct csv_subject *subject,
		       const struct csv_plan *plan, const void *object, size_t prefix)
{
	struct csv_number number;

	for (size_t i = 0; plan && i < plan->type->count; i++) {
		const struct csv_plan_row *row = &plan->rows[i];
		const struct field *field = &plan->type->fields[i];

		if (row->column < CSV_COLUMNS)
			continue;
		/* Most fields are numbers, and many of them absent. */
		if (!row->is_whole)
			put_field(csv, subject, field, object, prefix);
		else if (csv_number_of(field, (const char *)object + field->offset, &number))
			put_whole_row(csv, subject, row, &number, prefix);
	}
}

/* ---- the sink ---- */

/* Wall time by the clocks of the header, a label only; the date of a time before it is unknown. */
static void set_time(struct csv *csv, uint64_t t_boot_ns)
{
	uint64_t unix_ns = csv->unix_ns + (t_boot_ns - csv->boot_ns);
	time_t seconds = (time_t)(unix_ns / NSEC_PER_SEC);
	struct tm tm;
	size_t length;

	csv->time[0] = 0;
	if (!csv->unix_ns || unix_ns > (uint64_t)INT64_MAX || !gmtime_r(&seconds, &tm))
		return;
	length = strftime(csv->time, sizeof(csv->time), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(csv->time + length, sizeof(csv->time) - length, ".%06uZ",
		 (unsigned)(unix_ns % NSEC_PER_SEC / NSEC_PER_USEC));
}

static int csv_write(struct sink *sink, const struct record *record)
{
	struct csv *csv = (struct csv *)sink;
	struct csv_subject subject = {.id = ++csv->subjects};

	if (record->type == RECORD_HEADER) {
		csv->boot_ns = record->header->clock.boot_ns;
		csv->unix_ns = record->header->clock.unix_ns;
	}
	if (record->type == RECORD_STACK)
		return 0;
	csv->record = record;
	set_time(csv, record->t_boot_ns);
	put_record_head(csv);
	/* The row of late_ns tells a late frame: its process, its cause as the name, its delay. */
	if (record->type == RECORD_JANK) {
		subject.name = record_jank_causes[record->jank->cause];
		subject.name_length = SIZE_MAX;
	}
	put_object(csv, &subject, record_types[record->type], record->header, 0);
	return csv->rows.err;
}

static int csv_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct csv *csv = (struct csv *)sink;

	(void)deadline_mono_ns;
	csv_cells_flush(&csv->rows, csv->to);
	return csv->rows.err;
}

static void csv_close(struct sink *sink)
{
	csv_plans_free(((struct csv *)sink)->plans);
	free(sink);
}

struct sink *csv_sink_new(FILE *to)
{
	static const struct sink_ops ops = {
		.name = "csv", .write = csv_write, .finish = csv_finish, .close = csv_close};
	struct csv *csv = calloc(1, sizeof(*csv));

	if (csv)
		csv->plans = csv_plans_new();
	if (!csv || !csv->plans) {
		free(csv);
		return NULL;
	}
	csv->base.ops = &ops;
	csv->to = to;
	csv_put_plain(&csv->rows, HEAD);
	return &csv->base;
}
