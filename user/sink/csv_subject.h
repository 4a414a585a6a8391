/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose the values of a row of the table are (csv.h): some fields say it, and have columns. */
#pragma once
#include "jankscope/field.h"

struct csv_plan;
struct csv_plans;

/* pid, tid, uid, package, process, thread. */
#define CSV_COLUMNS 6

struct csv_number {
	bool known, is_signed;
	uint64_t value;
};

/* Whose values are written: what is known of that on the way from the record to the value. */
struct csv_subject {
	uint64_t id; /* no two subjects that say something else have one */
	struct csv_number numbers[CSV_COLUMNS];
	const char *texts[CSV_COLUMNS]; /* NULL: the number, or nothing */
	size_t lengths[CSV_COLUMNS];    /* of the texts */
	const char *name;               /* what else a row of a list is called; NULL: nothing */
	size_t name_length;
};

/* The text of a field, at most *length bytes; NULL: it is none, or absent. */
const char *csv_text_of(const struct field *row, const void *place, size_t *length);
/* False: the field is no whole number, or absent. Most fields are asked this. */
static inline bool csv_number_of(const struct field *row, const void *place,
				 struct csv_number *number)
{
	bool is_signed = false;
	uint64_t value;

	number->known = false;
	switch ((enum field_kind)row->kind) {
	case FIELD_U64:
		value = *(const uint64_t *)place;
		break;
	case FIELD_U32:
		value = *(const uint32_t *)place;
		break;
	case FIELD_I32:
		is_signed = true;
		value = (uint64_t)(int64_t) * (const int32_t *)place;
		break;
	case FIELD_I64:
	case FIELD_ADDRESS:
		is_signed = true;
		value = *(const uint64_t *)place;
		break;
	case FIELD_OPT_U64:
		if (!((const struct opt_u64 *)place)->present)
			return false;
		value = ((const struct opt_u64 *)place)->value;
		break;
	case FIELD_OPT_I64:
		if (!((const struct opt_i64 *)place)->present)
			return false;
		is_signed = true;
		value = (uint64_t)((const struct opt_i64 *)place)->value;
		break;
	default:
		return false;
	}
	if (!value && row->need == FIELD_NONZERO)
		return false;
	*number = (struct csv_number){true, is_signed, value};
	return true;
}
/* The column that a field has, and no row of its own; CSV_COLUMNS: none. */
size_t csv_column_of(const struct field *row);
/* What the fields of an object say about whose values its others are; `in_list`: its first text
 * that has no column is its name. True: anything. `plan`: that of the object's type; where one
 * finds no memory (NULL) nothing is known. */
bool csv_know_subject(struct csv_subject *subject, struct csv_plans *plans,
		      const struct csv_plan *plan, const void *object, bool in_list);
