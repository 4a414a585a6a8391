/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose the values of a row of the table are (csv.h): some fields say it, and have columns. */
#pragma once
#include "jankscope/field.h"

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
/* False: the field is no whole number, or absent. */
bool csv_number_of(const struct field *row, const void *place, struct csv_number *number);
/* The column that a field has, and no row of its own; CSV_COLUMNS: none. */
size_t csv_column_of(const struct field *row);
/* What the fields of an object say about whose values its others are; `in_list`: its first text
 * that has no column is its name. True: anything. Where a plan finds no memory nothing is known. */
bool csv_know_subject(struct csv_subject *subject, struct csv_plans *plans,
		      const struct field_type *type, const void *object, bool in_list);
