/* SPDX-License-Identifier: BSD-2-Clause */
/* What is the same in each row of the table that a field makes, worked out once: a recording of
 * days has millions of them (csv.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field_type;

struct csv_plan_row {
	const char *tail; /* the field's key, unit and two commas, as they stand behind its path */
	uint16_t key_length, tail_length;
	uint8_t column; /* csv_column_of() */
	bool is_whole;  /* a whole number, with a key */
};

struct csv_plan {
	const struct field_type *type;
	struct csv_plan_row *rows; /* one for each field */
	/* The fields that may say whose the values of the others are (csv_know_subject). */
	uint16_t *subject_fields;
	size_t subject_count;
	char *tails;
};

struct csv_plans;

/* NULL with errno ENOMEM. */
struct csv_plans *csv_plans_new(void);
void csv_plans_free(struct csv_plans *plans);
/* The plan of the type; it lives as long as the plans. NULL: no memory. */
const struct csv_plan *csv_plan_of(struct csv_plans *plans, const struct field_type *type);
