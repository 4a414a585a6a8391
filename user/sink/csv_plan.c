/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv_plan.h"

#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "sink/csv_subject.h"
#include "util/hash.h"

#define SLOTS 512 /* several times the types of the table of fields, which are static */

struct plan {
	const struct field_type *type;
	struct csv_plan_row *rows;
	char *tails;
};

struct csv_plans {
	struct plan plans[SLOTS];
};

struct csv_plans *csv_plans_new(void)
{
	return calloc(1, sizeof(struct csv_plans));
}

void csv_plans_free(struct csv_plans *plans)
{
	for (size_t i = 0; plans && i < SLOTS; i++) {
		free(plans->plans[i].rows);
		free(plans->plans[i].tails);
	}
	free(plans);
}

static bool make(struct plan *plan, const struct field_type *type)
{
	size_t bytes = 1;
	char *at;

	for (size_t i = 0; i < type->count; i++)
		if (type->fields[i].key)
			bytes += strlen(type->fields[i].key) +
				 strlen(field_unit_name(&type->fields[i])) + 2;
	plan->rows = calloc(type->count + 1, sizeof(*plan->rows));
	plan->tails = at = malloc(bytes);
	if (!plan->rows || !at) {
		free(plan->rows);
		free(at);
		*plan = (struct plan){0};
		return false;
	}
	for (size_t i = 0; i < type->count; i++) {
		const struct field *field = &type->fields[i];
		struct csv_plan_row *row = &plan->rows[i];

		row->column = (uint8_t)csv_column_of(field);
		row->tail = at;
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

const struct csv_plan_row *csv_plan_of(struct csv_plans *plans, const struct field_type *type)
{
	size_t first = hash_u64((uint64_t)(uintptr_t)type) % SLOTS;

	for (size_t i = 0; i < SLOTS; i++) {
		struct plan *plan = &plans->plans[(first + i) % SLOTS];

		if (plan->type == type || (!plan->type && make(plan, type)))
			return plan->rows;
		if (!plan->type)
			return NULL;
	}
	return NULL;
}
