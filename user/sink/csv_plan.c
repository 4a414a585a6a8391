/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv_plan.h"

#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "sink/csv_subject.h"
#include "util/hash.h"

#define SLOTS 512 /* several times the types of the table of fields, which are static */

struct csv_plans {
	struct csv_plan plans[SLOTS];
};

struct csv_plans *csv_plans_new(void)
{
	return calloc(1, sizeof(struct csv_plans));
}

static void empty(struct csv_plan *plan)
{
	free(plan->rows);
	free(plan->subject_fields);
	free(plan->tails);
	*plan = (struct csv_plan){0};
}

void csv_plans_free(struct csv_plans *plans)
{
	for (size_t i = 0; plans && i < SLOTS; i++)
		empty(&plans->plans[i]);
	free(plans);
}

static bool is_whole(const struct field *field)
{
	return field->key && (field->kind < FIELD_DOUBLE || field->kind == FIELD_OPT_U64 ||
			      field->kind == FIELD_OPT_I64);
}

/* Those with a column, those inline, and texts, the first of which may be a name. */
static bool tells_subject(const struct field *field, size_t column)
{
	switch ((enum field_kind)field->kind) {
	case FIELD_INLINE:
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_CHOICE:
	case FIELD_FIXED:
		return true;
	default:
		return column < CSV_COLUMNS;
	}
}

static bool make(struct csv_plan *plan, const struct field_type *type)
{
	size_t bytes = 1;
	char *at;

	for (size_t i = 0; i < type->count; i++)
		if (type->fields[i].key)
			bytes += strlen(type->fields[i].key) +
				 strlen(field_unit_name(&type->fields[i])) + 2;
	plan->rows = calloc(type->count + 1, sizeof(*plan->rows));
	plan->subject_fields = calloc(type->count + 1, sizeof(*plan->subject_fields));
	plan->tails = at = malloc(bytes);
	if (!plan->rows || !plan->subject_fields || !at) {
		empty(plan);
		return false;
	}
	for (size_t i = 0; i < type->count; i++) {
		const struct field *field = &type->fields[i];
		struct csv_plan_row *row = &plan->rows[i];

		row->column = (uint8_t)csv_column_of(field);
		row->is_whole = is_whole(field);
		row->tail = at;
		if (tells_subject(field, row->column))
			plan->subject_fields[plan->subject_count++] = (uint16_t)i;
		if (!field->key)
			continue;
		row->key_length = (uint16_t)strlen(field->key);
		at = stpcpy(stpcpy(at, field->key), ",");
		at = stpcpy(stpcpy(at, field_unit_name(field)), ",");
		row->tail_length = (uint16_t)(at - row->tail);
	}
	plan->type = type;
	return true;
}

const struct csv_plan *csv_plan_of(struct csv_plans *plans, const struct field_type *type)
{
	size_t first = hash_u64((uint64_t)(uintptr_t)type) % SLOTS;

	for (size_t i = 0; i < SLOTS; i++) {
		struct csv_plan *plan = &plans->plans[(first + i) % SLOTS];

		if (plan->type == type || (!plan->type && make(plan, type)))
			return plan;
		if (!plan->type)
			return NULL;
	}
	return NULL;
}
