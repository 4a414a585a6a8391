/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/histogram.h"
#include "util/crc32c.h"

/* ---- the summary: key paths become objects ---- */

#define MAX_DEPTH 8

/* Totals and distributions as one list, totals first. */
static const char *path_at(const struct record_footer *footer, size_t i)
{
	return i < footer->total_count ? footer->totals[i].key
				       : footer->distributions[i - footer->total_count].name;
}

static void put_entry(struct json_buffer *b, const struct record_footer *footer, size_t i)
{
	const struct record_distribution *row;

	if (i < footer->total_count) {
		json_put_number(b, footer->totals[i].value);
		return;
	}
	row = &footer->distributions[i - footer->total_count];
	json_put_mark(b, '{');
	json_put_key(b, "n");
	json_put_u64(b, row->n);
	json_put_key(b, "min");
	json_put_number(b, row->min);
	json_put_key(b, "max");
	json_put_number(b, row->max);
	json_put_key(b, "mean");
	json_put_double(b, row->mean);
	json_put_key(b, "p50");
	json_put_number(b, row->p50);
	json_put_key(b, "p90");
	json_put_number(b, row->p90);
	json_put_key(b, "p95");
	json_put_number(b, row->p95);
	json_put_key(b, "p99");
	json_put_number(b, row->p99);
	json_put_mark(b, '}');
}

static bool is_zero(const void *place, size_t size)
{
	const unsigned char *p = place;

	for (size_t i = 0; i < size; i++)
		if (p[i])
			return false;
	return true;
}

/* Whether the value is there; the pointer of a text, an object or a histogram is one. */
static bool is_there(const struct field *row, const void *object)
{
	const char *place = (const char *)object + row->offset;
	const char *more = (const char *)object + row->more_offset;

	switch ((enum field_kind)row->kind) {
	case FIELD_OPT_U64:
		return ((const struct opt_u64 *)(const void *)place)->present;
	case FIELD_OPT_I64:
		return ((const struct opt_i64 *)(const void *)place)->present;
	case FIELD_DOUBLE:
		if (!isfinite(*(const double *)(const void *)place))
			return false;
		return row->need != FIELD_NONZERO || *(const double *)(const void *)place > 0;
	case FIELD_TEXT:
	case FIELD_POINTER:
	case FIELD_HISTOGRAM:
		return *(const void *const *)(const void *)place;
	case FIELD_LIST:
	case FIELD_NAMED:
		return row->need != FIELD_NONZERO || *(const size_t *)(const void *)more;
	case FIELD_OBJECT:
		return !row->more_size || !is_zero(more, row->more_size);
	default:
		return row->need != FIELD_NONZERO || !is_zero(place, row->size);
	}
}

/* The row of an object that shares its key with key paths of totals; NULL: there is none. */
static const struct field *group_of(const struct field_type *type, const char *key)
{
	for (size_t i = 0; type && i < type->count; i++)
		if (type->fields[i].kind == FIELD_OBJECT && !strcmp(type->fields[i].key, key))
			return &type->fields[i];
	return NULL;
}

/* Whether a key path of a total begins with this key: the object is put by put_totals(). */
static bool totals_have(const struct record_footer *footer, const char *key)
{
	size_t length = strlen(key);

	for (size_t i = 0; i < footer->total_count + footer->distribution_count; i++)
		if (!strncmp(path_at(footer, i), key, length) && path_at(footer, i)[length] == '.')
			return true;
	return false;
}

/* Everything below the first `prefix` bytes of `of`, which end at a dot. An object stands where the
 * first of its keys would; its declared rows (of `type` in `object`; NULL: none) follow the totals.
 */
static void put_totals(struct json_buffer *b, const struct field_type *type, const char *object,
		       const struct record_footer *footer, const char *of, size_t prefix, int depth)
{
	size_t count = footer->total_count + footer->distribution_count;

	for (size_t i = 0; i < count; i++) {
		const char *path = path_at(footer, i);
		const struct field *group;
		const char *inner;
		size_t length = strcspn(strncmp(path, of, prefix) ? "" : path + prefix, ".");
		bool begun = false;
		char key[RECORD_TOTAL_NAME];

		if (!length || length >= sizeof(key))
			continue;
		memcpy(key, path + prefix, length);
		key[length] = 0;
		if (!path[prefix + length] || depth == MAX_DEPTH) {
			json_put_key(b, depth == MAX_DEPTH ? path + prefix : key);
			put_entry(b, footer, i);
			continue;
		}
		for (size_t k = 0; k < i && !begun; k++)
			begun = !strncmp(path_at(footer, k), path, prefix + length + 1);
		if (begun)
			continue;
		json_put_key(b, key);
		json_put_mark(b, '{');
		group = group_of(type, key);
		inner = group ? object + group->offset : NULL;
		put_totals(b, group ? group->of : NULL, inner, footer, path, prefix + length + 1,
			   depth + 1);
		if (group && (!group->more_size || is_there(group, object)))
			json_put_fields(b, group->of, inner);
		json_put_mark(b, '}');
	}
}

/* ---- values ---- */

static void put_event_keys(struct json_buffer *b, const struct record_event *event)
{
	for (size_t i = 0; i < event->key_count; i++) {
		json_put_key(b, event->keys[i].name);
		if (event->keys[i].text)
			json_put_text(b, event->keys[i].text, SIZE_MAX);
		else if (event->keys[i].real)
			json_put_double(b, event->keys[i].number);
		else
			json_put_i64(b, event->keys[i].value);
	}
}

static void put_bucket(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	struct json_buffer *b = ctx;

	json_put_mark(b, '[');
	json_put_u64(b, low);
	json_put_u64(b, high);
	json_put_u64(b, count);
	json_put_mark(b, ']');
}

static void put_object(struct json_buffer *b, const struct field_type *type, const void *object)
{
	json_put_mark(b, '{');
	json_put_fields(b, type, object);
	json_put_mark(b, '}');
}

static void put_list(struct json_buffer *b, const struct field_type *type, const char *rows,
		     size_t count)
{
	json_put_mark(b, '[');
	for (size_t i = 0; i < count; i++)
		put_object(b, type, rows + i * type->size);
	json_put_mark(b, ']');
}

/* A key that comes twice would hide the first one: the rows have names of their own. */
static void put_named(struct json_buffer *b, const struct field_type *type, const char *rows,
		      size_t count)
{
	json_put_mark(b, '{');
	for (size_t i = 0; i < count; i++) {
		const char *row = rows + i * type->size;

		json_put_key(b, *(const char *const *)(const void *)(row + type->name_offset));
		put_object(b, type, row);
	}
	json_put_mark(b, '}');
}

static void put_value(struct json_buffer *b, const struct field *row, const void *object)
{
	const void *place = (const char *)object + row->offset;

	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
	case FIELD_OPT_U64: /* its value stands behind its flag */
		json_put_u64(b, row->kind == FIELD_U64 ? *(const uint64_t *)place
						       : ((const struct opt_u64 *)place)->value);
		break;
	case FIELD_U32:
		json_put_u64(b, *(const uint32_t *)place);
		break;
	case FIELD_I32:
		json_put_i64(b, *(const int32_t *)place);
		break;
	case FIELD_I64:
	case FIELD_ADDRESS:
		json_put_i64(b, *(const int64_t *)place);
		break;
	case FIELD_OPT_I64:
		json_put_i64(b, ((const struct opt_i64 *)place)->value);
		break;
	case FIELD_DOUBLE:
		json_put_double(b, *(const double *)place);
		break;
	case FIELD_BOOL:
		json_put_token(b, *(const bool *)place ? "true" : "false");
		break;
	case FIELD_TEXT:
		json_put_text(b, *(const char *const *)place, SIZE_MAX);
		break;
	case FIELD_CHARS:
		json_put_text(b, place, row->size);
		break;
	case FIELD_CHOICE:
		json_put_text(b, row->words[*(const unsigned *)place], SIZE_MAX);
		break;
	case FIELD_FIXED:
		if (row->unit == UNIT_NAME)
			json_put_text(b, row->words[0], SIZE_MAX);
		else
			json_put_token(b, row->words[0]);
		break;
	case FIELD_OBJECT:
		put_object(b, row->of, place);
		break;
	case FIELD_POINTER:
		put_object(b, row->of, *(const void *const *)place);
		break;
	case FIELD_LIST:
		put_list(b, row->of, *(const char *const *)place,
			 *(const size_t *)(const void *)((const char *)object + row->more_offset));
		break;
	case FIELD_NAMED:
		put_named(b, row->of, *(const char *const *)place,
			  *(const size_t *)(const void *)((const char *)object + row->more_offset));
		break;
	case FIELD_COUNTERS: {
		const struct counter_list *list = place;

		json_put_mark(b, '{');
		for (size_t i = 0; i < list->count; i++) {
			json_put_key(b, list->items[i].name);
			json_put_u64(b, list->items[i].value);
		}
		json_put_mark(b, '}');
		break;
	}
	case FIELD_MISSING: {
		const struct missing_list *list = place;

		json_put_mark(b, '{');
		for (size_t i = 0; i < list->count; i++) {
			json_put_key(b, list->items[i].key);
			json_put_text(b, list->items[i].reason, SIZE_MAX);
		}
		json_put_mark(b, '}');
		break;
	}
	case FIELD_HISTOGRAM:
		json_put_mark(b, '[');
		histogram_each(*(const struct histogram *const *)place, put_bucket, b);
		json_put_mark(b, ']');
		break;
	case FIELD_INLINE:
	case FIELD_TOTALS:
	case FIELD_EVENT_KEYS:
	case FIELD_PARTS:
		break; /* of json_put_fields: they have no key */
	}
}

static void put_field(struct json_buffer *b, const struct field *row, const void *object)
{
	const struct field *part;
	size_t before;

	switch ((enum field_kind)row->kind) {
	case FIELD_INLINE:
		json_put_fields(b, row->of, (const char *)object + row->offset);
		return;
	case FIELD_EVENT_KEYS:
		put_event_keys(b, object);
		return;
	case FIELD_PARTS:
		for (size_t i = 0; (part = record_next_part(&i));)
			put_field(b, part, object);
		return;
	default:
		if (!is_there(row, object))
			return;
		before = b->length;
		json_put_key(b, row->key);
		put_value(b, row, object);
		/* An object that is to be written unless it is empty. */
		if (row->kind == FIELD_OBJECT && row->need == FIELD_NONZERO && !b->failed &&
		    b->text[b->length - 2] == '{')
			b->length = before;
	}
}

void json_put_fields(struct json_buffer *b, const struct field_type *type, const void *object)
{
	bool totals = false;

	for (size_t i = 0; i < type->count; i++) {
		const struct field *row = &type->fields[i];

		if (row->kind == FIELD_TOTALS) {
			put_totals(b, type, object, object, "", 0, 1);
			totals = true;
		} else if (!totals || !row->key || !totals_have(object, row->key)) {
			put_field(b, row, object);
		}
	}
}

/* Room for the text of most records, so that it need not be moved while it grows. What is not
 * written to costs no memory. */
static size_t room_for(const struct record *record)
{
	const struct record_interval *interval = record->interval;

	if (record->type != RECORD_INTERVAL)
		return 4096;
	return 4096 + 512 * (interval->cpu.task_count + interval->cpu.process_count +
			     interval->memory.process_count + interval->disk.task_count);
}

char *record_to_line(const struct record *record, size_t *length)
{
	return record_to_line_in(NULL, 0, record, length);
}

char *record_to_line_in(char *room, size_t size, const struct record *record, size_t *length)
{
	static const char crc_key[] = ",\"crc\":\"";
	struct json_buffer b = {.text = room, .size = size, .borrowed = room != NULL};
	char end[sizeof(crc_key) + 8 + sizeof("\"}\n")];

	if (!room) {
		b.size = room_for(record);
		b.text = malloc(b.size);
		b.failed = !b.text;
	}
	json_put_mark(&b, '{');
	json_put_key(&b, "type");
	json_put_text(&b, record_type_names[record->type], SIZE_MAX);
	json_put_key(&b, "seq");
	json_put_u64(&b, record->seq);
	json_put_key(&b, "t_boot_ns");
	json_put_u64(&b, record->type == RECORD_STACK ? record->addition->stack.t_boot_ns
						      : record->t_boot_ns);
	/* The union's members are all pointers. */
	json_put_fields(&b, record_types[record->type], record->header);
	snprintf(end, sizeof(end), "%s%08x\"}\n", crc_key,
		 b.failed ? 0 : crc32c(0, b.text, b.length));
	json_put_raw(&b, end, strlen(end));
	if (b.failed) {
		if (!b.borrowed)
			free(b.text);
		errno = ENOMEM;
		return NULL;
	}
	*length = b.length;
	return b.text;
}
