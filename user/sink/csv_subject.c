/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/csv_subject.h"

#include <string.h>

#include "sink/csv_plan.h"

static const char *const columns[CSV_COLUMNS] = {"pid",     "tid",     "uid",
						 "package", "process", "thread"};

const char *csv_text_of(const struct field *row, const void *place, size_t *length)
{
	*length = SIZE_MAX;
	switch ((enum field_kind)row->kind) {
	case FIELD_TEXT:
		return *(const char *const *)place;
	case FIELD_CHARS:
		*length = row->size;
		return row->need == FIELD_REQUIRED || *(const char *)place ? place : NULL;
	case FIELD_CHOICE:
		if (row->need == FIELD_NONZERO && !*(const unsigned *)place)
			return NULL;
		return row->words[*(const unsigned *)place];
	case FIELD_FIXED:
		return row->words[0];
	case FIELD_BOOL:
		return *(const bool *)place ? "true" : row->need == FIELD_NONZERO ? NULL : "false";
	default:
		return NULL;
	}
}

size_t csv_column_of(const struct field *row)
{
	size_t i = 0;

	/* Most fields are figures. */
	if (!row->key || (row->unit != UNIT_ID && row->unit != UNIT_NAME))
		return CSV_COLUMNS;
	while (i < CSV_COLUMNS && strcmp(columns[i], row->key) != 0)
		i++;
	return i;
}

bool csv_know_subject(struct csv_subject *subject, struct csv_plans *plans,
		      const struct csv_plan *plan, const void *object, bool in_list)
{
	bool any = false;

	for (size_t i = 0; plan && i < plan->subject_count; i++) {
		size_t at = plan->subject_fields[i], column = plan->rows[at].column, length;
		const struct field *row = &plan->type->fields[at];
		const void *place = (const char *)object + row->offset;
		const char *text;

		if (row->kind == FIELD_INLINE) {
			any |= csv_know_subject(subject, plans, csv_plan_of(plans, row->of), place,
						in_list);
		} else if (column < CSV_COLUMNS) {
			any = true;
			subject->texts[column] = csv_text_of(row, place, &subject->lengths[column]);
			csv_number_of(row, place, &subject->numbers[column]);
		} else if (in_list && !subject->name) {
			text = csv_text_of(row, place, &length);
			if (!text)
				continue;
			any = true;
			subject->name = text;
			subject->name_length = length;
		}
	}
	return any;
}
